"""Workers as processes: started, killed, stopped, grown, replaced and drained for real."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from app.supervisor.handle import WorkerBug, WorkerGone
from app.supervisor.seat import StartRefused
from tests.service import alive
from tests.supervisor.conftest import QUICK, fleet_of
from tests.waiting import comes


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


def test_all_workers_serve_on_one_socket_and_the_first_alone_listens_early(tmp_path: Path) -> None:
    async def work() -> None:
        async with fleet_of(tmp_path, 3) as place:
            await place.fleet.start()
            assert [one.slot for one in place.fleet.workers] == [0, 1, 2]
            pids = {one.pid for one in place.fleet.workers}
            assert len(pids) == 3
            assert {await place.ask() for _ in range(20)} <= pids
            told = await place.fleet.ask("status")
            assert [reply["early"] for _, reply in told] == [True, False, False]
            assert [reply["pid"] for _, reply in told] == [one.pid for one, _ in told]
        assert not any(map(alive, pids))

    run(work())


def test_a_killed_worker_is_replaced_under_its_number_and_no_count_falls(tmp_path: Path) -> None:
    async def work() -> None:
        async with fleet_of(tmp_path, 2) as place:
            await place.fleet.start()
            for _ in range(10):
                await place.ask()
            assert await place.hits() == 10
            first = place.fleet.workers[0]
            os.kill(first.pid, signal.SIGKILL)
            with pytest.raises(WorkerGone):
                await first.call("status")
            await comes(lambda: len(place.fleet.workers) == 2 and first not in place.fleet.workers, "another worker")
            assert [one.slot for one in place.fleet.workers] == [0, 1]
            assert first.pid not in {one.pid for one in place.fleet.workers}
            assert place.fleet.restarts == {"exited": 1}
            assert await place.hits() == 10
            await place.ask()
            assert await place.hits() == 11

    run(work())


def test_a_worker_that_gives_no_sign_of_life_is_killed_and_others_serve_meanwhile(tmp_path: Path) -> None:
    async def work() -> None:
        async with fleet_of(tmp_path, 2, replace(QUICK, stall=1.0)) as place:
            await place.fleet.start()
            stopped, other = place.fleet.workers
            os.kill(stopped.pid, signal.SIGSTOP)
            for _ in range(20):
                assert await place.ask() == other.pid
            await comes(lambda: place.fleet.restarts == {"stalled": 1}, "the restart")
            assert not alive(stopped.pid)
            await comes(lambda: len(place.fleet.workers) == 2, "another worker")

    run(work())


def test_a_blocked_loop_is_no_sign_of_life(tmp_path: Path) -> None:
    async def work() -> None:
        async with fleet_of(tmp_path, 1, replace(QUICK, stall=1.0)) as place:
            await place.fleet.start()
            with pytest.raises(WorkerGone):
                await place.fleet.workers[0].call("hang")
            await comes(lambda: place.fleet.restarts == {"stalled": 1}, "the restart")

    run(work())


def test_a_worker_whose_pool_is_held_by_what_nobody_waits_for_is_replaced(tmp_path: Path) -> None:
    async def work() -> None:
        async with fleet_of(tmp_path, 1, replace(QUICK, stuck=10.0)) as place:
            await place.fleet.start()
            [held] = place.fleet.workers
            await held.call("stick", seconds=9.0)
            await asyncio.gather(*(held.call("status") for _ in range(3)))
            await held.call("stick", seconds=11.0)
            await comes(lambda: place.fleet.restarts == {"stuck": 1}, "the replacement")
            assert place.fleet.workers[0].pid != held.pid

    run(work())


def test_a_worker_above_the_memory_ceiling_goes_after_another_has_come(tmp_path: Path) -> None:
    async def work() -> None:
        async with fleet_of(tmp_path, 1, replace(QUICK, memory=1 << 30)) as place:
            await place.fleet.start()
            [fat] = place.fleet.workers
            reader, writer = await asyncio.open_connection(*place.address)
            writer.write(b"first\n")
            assert int(await reader.readline()) == fat.pid
            await fat.call("grow", size=2 << 30)
            await comes(lambda: place.fleet.restarts == {"memory": 1}, "the replacement")
            [after] = place.fleet.workers
            assert (fat.ending, after.slot) == ("memory", 1)
            assert fat.alive
            while await place.ask() != after.pid:
                """It is told to accept no more."""
            # It finishes what it has taken.
            writer.write(b"second\n")
            assert int(await reader.readline()) == fat.pid
            writer.close()
            await comes(lambda: not fat.alive, "its end")
            assert fat.exited.result() == 0

    run(work())


def test_rolling_replaces_every_worker_and_no_connection_is_refused(tmp_path: Path) -> None:
    async def work() -> None:
        async with fleet_of(tmp_path, 2) as place:
            await place.fleet.start()
            before = {one.pid for one in place.fleet.workers}
            rolling = asyncio.create_task(place.fleet.roll())
            answers = [await place.ask()]
            while not rolling.done():
                answers.append(await place.ask())
            assert rolling.result()
            after = {one.pid for one in place.fleet.workers}
            assert not before & after
            assert set(answers) <= before | after
            assert place.fleet.restarts == {"asked": 2}
            assert await place.hits() == len(answers)

    run(work())


def test_rolling_stops_at_the_first_worker_that_cannot_start(tmp_path: Path) -> None:
    async def work() -> None:
        async with fleet_of(tmp_path, 2) as place:
            await place.fleet.start()
            before = place.fleet.workers
            place.mode("refuse")
            assert not await place.fleet.roll()
            assert place.fleet.workers == before
            assert place.fleet.living == before

    run(work())


def test_a_first_start_that_is_refused_tells_why_and_ends_all(tmp_path: Path) -> None:
    async def work() -> None:
        async with fleet_of(tmp_path, 2, mode="refuse") as place:
            with pytest.raises(StartRefused, match="no release is active"):
                await place.fleet.start()
        assert place.fleet.living == []

    run(work())


def test_a_first_start_that_crashes_is_given_up(tmp_path: Path) -> None:
    async def work() -> None:
        async with fleet_of(tmp_path, 1, mode="crash") as place:
            with pytest.raises(StartRefused, match="ended with status 3"):
                await place.fleet.start()

    run(work())


def test_later_crashes_are_retried_until_one_serves(tmp_path: Path) -> None:
    async def work() -> None:
        async with fleet_of(tmp_path, 1) as place:
            await place.fleet.start()
            place.mode("refuse")
            os.kill(place.fleet.workers[0].pid, signal.SIGKILL)
            await comes(lambda: place.fleet.restarts["refused"] >= 2, "refusals")
            place.mode("serve")
            await comes(lambda: place.fleet.workers, "a worker")

    run(work())


def test_a_worker_that_ignores_the_drain_is_killed(tmp_path: Path) -> None:
    async def work() -> None:
        async with fleet_of(tmp_path, 1, replace(QUICK, drain=0.2, leave=0.1), mode="stubborn") as place:
            await place.fleet.start()
            [stubborn] = place.fleet.workers
        assert stubborn.exited.result() == -signal.SIGKILL

    run(work())


def test_a_bug_in_a_verb_is_the_callers_and_the_worker_serves_on(tmp_path: Path) -> None:
    async def work() -> None:
        async with fleet_of(tmp_path, 1) as place:
            await place.fleet.start()
            [worker] = place.fleet.workers
            with pytest.raises(WorkerBug, match="a bug of the verb"):
                await place.fleet.call(worker, "fail")
            with pytest.raises(WorkerBug, match="no verb 'dance'"):
                await place.fleet.call(worker, "dance")
            assert await place.ask() == worker.pid

    run(work())


def test_workers_that_start_later_follow_what_was_pushed(tmp_path: Path) -> None:
    pushed = tmp_path / "pushed"
    pushed.mkdir()
    (pushed / "mode").write_text("serve")

    async def work() -> None:
        async with fleet_of(tmp_path, 1) as place:
            await place.fleet.start()
            place.fleet.spec = msgspec.structs.replace(place.fleet.spec, config=str(pushed))
            os.kill(place.fleet.workers[0].pid, signal.SIGKILL)
            await comes(lambda: place.fleet.restarts and place.fleet.workers, "another worker")
            [(_, told)] = await place.fleet.ask("status")
            assert (told["config"], told["early"]) == (str(pushed), True)

    run(work())


def test_a_worker_inherits_nothing_but_the_socket_and_its_channel(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("")

    async def work() -> None:
        with secret.open() as file:
            os.set_inheritable(file.fileno(), True)
            async with fleet_of(tmp_path, 2) as place:
                await place.fleet.start()
                for worker in place.fleet.workers:
                    links = opened(worker.pid)
                    assert str(secret) not in links.values()
                    given = {link for number, link in links.items() if number > 2}
                    shared = {link for link in given & set(opened(os.getpid()).values()) if link.startswith("socket:")}
                    assert len(shared) == 1  # the listening one

    run(work())


def opened(pid: int) -> dict[int, str]:
    """What a process has open, by descriptor."""
    found: dict[int, str] = {}
    for number in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            found[int(number)] = os.readlink(f"/proc/{pid}/fd/{number}")
    return found
