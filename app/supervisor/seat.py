"""A place for one worker: kept filled, with back-off, and refilled without a gap when its worker is to be replaced."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from app.supervisor.handle import WorkerGone, WorkerHandle

logger = logging.getLogger("recserve.supervisor")


class StartRefused(Exception):
    """A worker can't start, and the first start is given up. The message is for the person who started the service."""


Start = Callable[[], Awaitable[WorkerHandle]]


@dataclass(frozen=True, slots=True)
class Limits:
    """Times in seconds, memory in bytes.

    first, longest  back-off before a worker is started again; doubled each time, until one served for `healthy`
    stall           a worker that serves and gives no sign of life for so long is killed; `start_stall`: while it loads
    load            the longest that a worker may load
    drain           for requests in flight when a worker ends, and as long again for its connections to go elsewhere
    memory          of one worker, without mapped files; above it, it is replaced once it has served for `settle`
    stuck           a worker whose compute pool has been held so long, by jobs nobody waits for, is replaced as well
    """

    drain: float = 10.0
    memory: int | None = None
    first: float = 0.1
    longest: float = 5.0
    healthy: float = 10.0
    stall: float = 5.0
    start_stall: float = 60.0
    load: float = 600.0
    settle: float = 30.0
    stuck: float = 10.0
    leave: float = 5.0


class Seat:
    """See the module. `start` makes the next worker; `restarted` is told why one was needed; `shown` rewords
    what a worker that can't start says.
    """

    def __init__(
        self,
        start: Start,
        limits: Limits,
        restarted: Callable[[str], None],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        shown: Callable[[str], str] = str,
    ) -> None:
        self._start = start
        self._limits = limits
        self._restarted = restarted
        self._sleep = sleep
        self._shown = shown
        self._turn = asyncio.Lock()
        self._delay = limits.first
        self.worker: WorkerHandle | None = None

    async def fill(self) -> None:
        """Start a worker; it loads."""
        self.worker = await self._next()

    async def first(self) -> None:
        """Wait until a worker serves here. One that was killed is started again; StartRefused for one that gave up."""
        while (worker := self.worker) is not None:
            await worker.settled.wait()
            if worker.ready:
                return
            status = await worker.exited
            if worker.failed is not None:
                raise StartRefused(worker.failed)
            if status >= 0:
                raise StartRefused(f"worker {worker.slot} ended with status {status} while it started")
            await self._lost(worker)
            await self.fill()

    async def keep(self) -> None:
        """Start another worker whenever the one here has ended, until cancelled."""
        while (worker := self.worker) is not None:
            await asyncio.wait([worker.exited])
            async with self._turn:
                if worker is self.worker:
                    await self._lost(worker)
                    await self.fill()

    async def replace(self, reason: str) -> bool:
        """Start another worker, and when it serves let the one before finish and go. False when none came up."""
        async with self._turn:
            before = self.worker
            if before is None or not before.alive:
                return False
            try:
                after = await self._start()
            except OSError:
                logger.exception("no process can be started to replace worker %d", before.slot)
                return False
            try:
                await after.settled.wait()
            except asyncio.CancelledError:
                after.send_signal(signal.SIGKILL)
                raise
            if not after.ready:
                logger.error(
                    "worker %d is not replaced (%s): %s", before.slot, reason, self._shown(after.failed or "it ended")
                )
                return False
            self.worker = after
        self._restarted(reason)
        await leave(before, reason, self._limits, linger=True)
        return True

    async def _next(self) -> WorkerHandle:
        while True:
            try:
                return await self._start()
            except OSError:
                logger.exception("no process can be started; trying again in %.1f s", self._delay)
                await self._pause()

    async def _lost(self, worker: WorkerHandle) -> None:
        reason, status = worker.ending or "exited", worker.exited.result()
        if worker.failed is not None:
            reason = "refused"
            logger.error("worker %d can't start: %s", worker.slot, self._shown(worker.failed))
        served = 0.0 if worker.ready_at is None else asyncio.get_running_loop().time() - worker.ready_at
        if served > self._limits.healthy:
            self._delay = self._limits.first
        logger.warning(
            "worker %d (pid %d) ended (%s, status %d); another starts in %.1f s",
            *(worker.slot, worker.pid, reason, status, self._delay),
        )
        self._restarted(reason)
        await self._pause()

    async def _pause(self) -> None:
        delay, self._delay = self._delay, min(self._delay * 2, self._limits.longest)
        await self._sleep(delay)


async def leave(worker: WorkerHandle, reason: str, limits: Limits, *, linger: bool = False) -> None:
    """Have a worker finish what it took and end; killed when it doesn't in time.

    With `linger` it first stops to take connections and asks those that it has to close.
    """
    worker.ending = worker.ending or reason
    drain = asyncio.create_task(_drain(worker, linger), name=f"drain worker {worker.slot}")
    await asyncio.wait([worker.exited], timeout=limits.drain * (2 if linger else 1) + limits.leave)
    drain.cancel()
    if worker.alive:
        logger.error("worker %d (pid %d) doesn't end; killing it", worker.slot, worker.pid)
        worker.send_signal(signal.SIGKILL)
        await asyncio.wait([worker.exited])


async def _drain(worker: WorkerHandle, linger: bool) -> None:
    try:
        await worker.call("drain", linger=linger)
    except WorkerGone:
        return
