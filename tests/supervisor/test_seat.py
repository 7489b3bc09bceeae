"""How long a seat waits before it starts another worker, in a time that the test makes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from app.supervisor.seat import Limits, Seat, StartRefused

LIMITS = Limits(first=0.1, longest=5.0, healthy=10.0)


class Fake:
    """A worker that served for so many seconds before it ended; None: it never did."""

    slot = pid = 7
    alive = False
    ending: str | None = None
    failed: str | None = None

    def __init__(self, served: float | None, status: int = -9) -> None:
        loop = asyncio.get_running_loop()
        self.ready_at = None if served is None else loop.time() - served
        self.ready = False
        self.exited: asyncio.Future[int] = loop.create_future()
        self.exited.set_result(status)
        self.settled = asyncio.Event()
        self.settled.set()


async def pauses(lives: list[float | None]) -> list[float]:
    """Seconds waited after each of these workers' ends."""
    waited: list[float] = []
    coming: Iterator[float | None] = iter(lives)

    async def start() -> Any:
        return Fake(next(coming))

    async def sleep(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == len(lives):
            raise asyncio.CancelledError

    seat = Seat(start, LIMITS, lambda _: None, sleep)
    await seat.fill()
    with pytest.raises(asyncio.CancelledError):
        await seat.keep()
    return waited


def test_the_pause_doubles_up_to_a_limit() -> None:
    expected = [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    assert asyncio.run(pauses([None] * 8)) == pytest.approx(expected)


def test_a_worker_that_served_for_a_while_is_replaced_at_once() -> None:
    assert asyncio.run(pauses([None, None, 9.0, 60.0, None])) == pytest.approx([0.1, 0.2, 0.4, 0.1, 0.2])


def test_a_worker_killed_during_the_first_start_is_started_again_and_one_that_gave_up_is_not() -> None:
    async def work() -> list[str]:
        workers = [Fake(None), Fake(None), Fake(None, status=1)]
        reasons: list[str] = []

        async def start() -> Any:
            return workers.pop(0)

        async def sleep(_: float) -> None:
            """No time to lose."""

        seat = Seat(start, LIMITS, reasons.append, sleep)
        await seat.fill()
        with pytest.raises(StartRefused):
            await seat.first()
        return reasons

    assert asyncio.run(work()) == ["exited", "exited"]


def test_a_process_that_cannot_be_started_is_tried_again() -> None:
    async def work() -> list[float]:
        waited: list[float] = []

        async def start() -> Any:
            if len(waited) < 3:
                raise BlockingIOError("no more processes")
            return Fake(None)

        async def sleep(seconds: float) -> None:
            waited.append(seconds)

        seat = Seat(start, LIMITS, lambda _: None, sleep)
        await seat.fill()
        return waited

    assert asyncio.run(work()) == pytest.approx([0.1, 0.2, 0.4])
