from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import msgspec
import pytest

from app.load.generator import Progress
from app.load.plan import Phase
from app.load.process import LoadFailed, LoadProcess, run_elsewhere, spare_cores
from tests.load.server import Server, good, plan


def test_a_run_elsewhere_sees_the_same_and_reports_progress() -> None:
    seen: list[Progress] = []
    with Server(good) as server:
        result = run_elsewhere(plan(server.address, Phase("one", 200, 0.4)), seen.append)
    assert result.summary().served == server.requests == len(result.samples)
    assert seen[-1].answered == server.requests
    assert seen[0].started == result.started


def test_the_caller_knows_when_the_run_began_and_may_pin_it() -> None:
    core = min(os.sched_getaffinity(0))
    with Server(good) as server, LoadProcess(plan(server.address, Phase("one", 50, 0.2)), frozenset({core})) as load:
        assert os.sched_getaffinity(load.pid) == {core}
        before = time.monotonic()
        assert load.started <= time.monotonic()
        assert load.elapsed >= before - load.started
        assert load.result().started == load.started


def test_cores_that_are_spare_are_those_not_busy() -> None:
    ours = os.sched_getaffinity(0)
    assert spare_cores([]) == ours
    assert spare_cores(ours) == frozenset()
    assert spare_cores([min(ours)]) == ours - {min(ours)}


def test_a_generator_that_dies_is_an_error_and_not_a_result() -> None:
    with Server(good) as server, LoadProcess(plan(server.address, Phase("one", 10, 60))) as load:
        assert load.started
        os.kill(load.pid, signal.SIGKILL)
        with pytest.raises(LoadFailed, match="ended early"):
            load.result()


def test_leaving_ends_the_process() -> None:
    with Server(good) as server:
        with LoadProcess(plan(server.address, Phase("one", 10, 60))) as load:
            assert load.started
        with pytest.raises(ProcessLookupError):
            os.kill(load.pid, 0)


def test_a_generator_whose_caller_is_gone_ends() -> None:
    with Server(good) as server:
        made = msgspec.msgpack.encode(plan(server.address, Phase("one", 10, 60)))
        command = [sys.executable, "-m", "app.load.process"]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        with process.stderr, process.stdin:
            process.stdout.close()
            process.stdin.write(made)
            process.stdin.close()
            assert process.wait(20) == 1
            assert process.stderr.read() == b""
