"""Signals ask for something once it serves, once for many, and for nothing any more while it drains."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence

from app.listeners import serve
from app.server import Stop
from tests.waiting import comes


class Asked:
    """Counts calls; each lasts until `go` is set."""

    def __init__(self) -> None:
        self.calls = 0
        self.go = asyncio.Event()

    async def __call__(self) -> None:
        self.calls += 1
        await self.go.wait()


async def serving(act: Asked, stop: Stop, ready: asyncio.Event, asked: Sequence[int] = ()) -> None:
    async def start() -> None:
        """Nothing to load."""

    await serve(
        [],
        start=start,
        on_drain=lambda: None,
        ready=ready.set,
        stop=stop,
        more_signals={signal.SIGUSR1: act},
        asked=asked,
    )


async def turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_many_signals_while_one_is_obeyed_make_for_one_more_call() -> None:
    async def work() -> None:
        act, stop, ready = Asked(), Stop(), asyncio.Event()
        task = asyncio.create_task(serving(act, stop, ready))
        await ready.wait()
        os.kill(os.getpid(), signal.SIGUSR1)
        await comes(lambda: act.calls == 1, "the first call")
        for _ in range(30):
            os.kill(os.getpid(), signal.SIGUSR1)
            await turns()
        assert act.calls == 1
        act.go.set()
        await comes(lambda: act.calls == 2, "the second call")
        await turns(100)
        assert act.calls == 2
        stop.set()
        await task

    asyncio.run(work())


def test_a_signal_that_came_before_is_obeyed_once_it_serves() -> None:
    async def work() -> None:
        act, stop, ready = Asked(), Stop(), asyncio.Event()
        task = asyncio.create_task(serving(act, stop, ready, [signal.SIGUSR1, signal.SIGUSR1]))
        await comes(lambda: act.calls == 1, "the call")
        assert ready.is_set()
        stop.set()
        await task

    asyncio.run(work())


def test_a_signal_during_the_drain_asks_for_nothing() -> None:
    async def work() -> None:
        act, stop, ready = Asked(), Stop(), asyncio.Event()
        act.go.set()
        task = asyncio.create_task(serving(act, stop, ready))
        await ready.wait()
        stop.set()
        os.kill(os.getpid(), signal.SIGUSR1)
        await task
        assert act.calls == 0

    # The handler that is put back when the loop's goes.
    before = signal.signal(signal.SIGUSR1, lambda *_: None)
    try:
        asyncio.run(work())
    finally:
        signal.signal(signal.SIGUSR1, before)
