"""The queue wait: heartbeats, requests' own waits, and that neither hides the other."""

import asyncio

import pytest

from app.lag import BEAT, LoopLag


class Clocked:
    def __init__(self) -> None:
        self.now = 0.0
        self.lag = LoopLag(lambda: self.now)

    def beats(self, late: float, times: int) -> None:
        for _ in range(times):
            self.now += BEAT + late
            self.lag.beat()


def test_late_heartbeats_are_the_wait() -> None:
    clocked = Clocked()
    clocked.beats(0.0, 10)
    assert clocked.lag.wait == pytest.approx(0.0, abs=1e-9)
    clocked.beats(0.02, 30)
    assert clocked.lag.wait == pytest.approx(0.02, rel=0.05)
    assert clocked.lag.worst() == pytest.approx(0.02)
    clocked.beats(0.0, 30)
    assert clocked.lag.wait < 0.001
    assert clocked.lag.worst() < 0.001


def test_a_heartbeat_that_does_not_come_counts_already() -> None:
    clocked = Clocked()
    clocked.beats(0.0, 2)
    clocked.now += BEAT + 0.3
    assert clocked.lag.wait == pytest.approx(0.3)
    assert clocked.lag.worst() == pytest.approx(0.3)


def test_an_idle_loop_does_not_hide_a_full_pool() -> None:
    clocked = Clocked()
    for _ in range(50):
        clocked.beats(0.0, 2)
        clocked.lag.saw(0.04, "pool")
    assert clocked.lag.wait == pytest.approx(0.04, rel=0.01)


def test_what_nobody_sees_any_more_fades() -> None:
    clocked = Clocked()
    for _ in range(20):
        clocked.lag.saw(0.05)
    clocked.beats(0.0, 100)
    assert clocked.lag.wait < 0.001


def test_the_heartbeat_runs_in_the_loop_until_it_is_stopped() -> None:
    async def main() -> int:
        loop = asyncio.get_running_loop()
        beats = 0

        class Counted(LoopLag):
            def beat(self) -> None:
                nonlocal beats
                beats += 1
                super().beat()
                if beats == 3:
                    done.set()

        done = asyncio.Event()
        lag = Counted(loop.time)
        lag.start()
        async with asyncio.timeout(10):
            await done.wait()
        lag.stop()
        assert lag.worst() >= 0.0
        return beats

    assert asyncio.run(main()) == 3
