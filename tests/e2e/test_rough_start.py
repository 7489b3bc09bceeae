"""What surrounds a start goes wrong: standard output, names that aren't UTF-8, signals before it serves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.service import Place, recserve, serving
from tests.waiting import until


@pytest.mark.parametrize("output", [">/dev/full", ">&-"])
def test_a_full_or_closed_standard_output_stops_nothing(fresh: Callable[[], Place], output: str) -> None:
    place = fresh()
    words = ["serve", *map(str, place.words), "--port", "0", "--operator-port", "0"]
    command = ["sh", "-c", f'exec "$@" {output}', "sh", str(Path(sys.executable).with_name("recserve")), *words]
    log = place.var / "log"
    with log.open("wb") as errors:
        process = subprocess.Popen(command, stderr=errors)
    try:
        until(lambda: "serving configuration" in log.read_text(), "the start")
        time.sleep(0.5)  # the greeting comes now, and nothing tells that it has failed
        assert process.poll() is None
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


def test_signals_before_it_serves_are_carried_out_then(fresh: Callable[[], Place]) -> None:
    with serving(fresh(), ready=False) as service:
        # Installed by the command line's first lines, long before what it serves with is imported.
        status = Path(f"/proc/{service.process.pid}/status")
        until(lambda: held(status.read_text()), "the mask")
        service.process.send_signal(signal.SIGHUP)
        service.process.send_signal(signal.SIGUSR1)
        until(lambda: "operator " in service.text(), "the start")
        service.operator = int(service.text().partition("operator ")[2].partition("/metrics")[0].rpartition(":")[2])
        until(lambda: service.figure("recserve_worker_restarts_total", reason="asked") == 1, "the replacement")
        until(lambda: service.figure("recserve_pushes_total", outcome="unchanged") == 1, "the push")


def held(status: str) -> bool:
    """Whether SIGHUP is blocked, or has a handler already."""
    masks = dict(line.split(":\t", 1) for line in status.splitlines() if line.startswith(("SigBlk", "SigCgt")))
    return any(int(mask, 16) & 1 << (signal.SIGHUP - 1) for mask in masks.values())


def test_a_path_that_is_not_utf_8_is_refused_in_words(built: Place, tmp_path: Path) -> None:
    var = tmp_path / os.fsdecode(b"\xff")
    done = recserve("serve", "--config", built.configs, "--var", var, seconds=30)
    assert done.returncode != 0
    assert done.stderr == f"--var {tmp_path}/\\xff: the path isn't UTF-8. Expected one that is\n"


def test_a_file_name_that_is_not_utf_8_is_refused_at_the_start_and_at_a_push(fresh: Callable[[], Place]) -> None:
    place = fresh()
    odd = place.configs / "scenes" / os.fsdecode(b"\xff.yaml")
    expected = rf"{place.configs}/scenes/\xff.yaml: The name isn't UTF-8."
    with serving(place) as service:
        odd.write_text("a: 1\n")
        [error] = service.reload()
        assert error.startswith(expected)
        odd.unlink()
        assert service.reload() == []
    odd.write_text("a: 1\n")
    done = recserve("serve", *place.words, "--port", "0", "--operator-port", "0", seconds=60)
    assert done.returncode != 0
    assert expected in done.stderr
    assert "Traceback" not in done.stderr
