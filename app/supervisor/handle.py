"""The supervisor's view of one worker process: its state, its last signs of life, and calls to it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import subprocess
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from app.supervisor.channel import Channel
from app.supervisor.messages import Beat, Bye, Call, Failed, Family, FromWorker, Mean, Ready, Reply, Spec

logger = logging.getLogger("recserve.supervisor")


class WorkerGone(Exception):
    """The worker ended before it replied."""


class WorkerBug(Exception):
    """A verb raised in the worker; its log has the traceback."""


class WorkerHandle:
    """One worker, from its start to its end. Belongs to the event loop.

    slot      its number among the living, the label of its gauges
    ready     it is loaded and serves; `facts`: what it said then
    failed    why it can't start, in words for a person
    ending    why it is being ended, None while it shall live
    exited    its exit status (negative: the signal's number), once the process has ended
    beat      its last sign of life, which came at `beat_at` (the loop's clock)
    families  its metrics as last seen
    """

    def __init__(self, spec: Spec, process: subprocess.Popen[bytes], channel: Channel[FromWorker]) -> None:
        loop = asyncio.get_running_loop()
        self.spec = spec
        self.process = process
        self.started = loop.time()
        self.ready_at: float | None = None
        self.facts: Mapping[str, Any] = {}
        self.failed: str | None = None
        self.ending: str | None = None
        self.beat = Beat()
        self.beat_at = self.started
        self.families: Sequence[Family] = ()
        self.exited: asyncio.Future[int] = loop.create_future()
        self.settled = asyncio.Event()
        self._channel = channel
        self._ids = itertools.count(1)
        self._calls: dict[int, asyncio.Future[Mapping[str, Any]]] = {}
        channel.send(spec)
        self._listening = asyncio.create_task(self._listen(), name=f"worker {spec.slot}")
        threading.Thread(target=self._reap, args=(loop,), name=f"reap {process.pid}", daemon=True).start()

    @property
    def slot(self) -> int:
        """Its number among the living."""
        return self.spec.slot

    @property
    def pid(self) -> int:
        """Its process."""
        return self.process.pid

    @property
    def ready(self) -> bool:
        """Whether it serves; not any more once it is being ended."""
        return self.ready_at is not None and self.alive and self.ending is None

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return not self.exited.done()

    async def call(self, verb: str, **arguments: Any) -> Mapping[str, Any]:
        """Have a verb carried out. Raises WorkerGone, or WorkerBug when it raised there."""
        if not self.alive:
            raise WorkerGone(f"worker {self.slot} has ended")
        number = next(self._ids)
        reply: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()
        self._calls[number] = reply
        try:
            self._channel.send(Call(number, verb, arguments))
            return await reply
        finally:
            self._calls.pop(number, None)

    def tell(self, mean: float) -> None:
        """Say how many connections the workers hold on average."""
        if self.alive and self._channel.idle:
            self._channel.send(Mean(mean))

    def send_signal(self, number: int) -> None:
        """Signal the process, if it still runs."""
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)

    async def _listen(self) -> None:
        try:
            while (message := await self._channel.receive()) is not None:
                self._take(message)
        except msgspec.DecodeError:
            logger.exception("worker %d (pid %d) talks nonsense; killing it", self.slot, self.pid)
            self.process.kill()

    def _take(self, message: FromWorker) -> None:
        now = asyncio.get_running_loop().time()
        self.beat_at = now
        if isinstance(message, Beat):
            self.beat = message
        elif isinstance(message, Reply):
            self._reply(message)
        elif isinstance(message, Ready):
            self.facts, self.ready_at = message.facts, now
            self.settled.set()
        elif isinstance(message, Failed):
            self.failed = message.words
        elif isinstance(message, Bye):
            self.families = message.families

    def _reply(self, reply: Reply) -> None:
        waiting = self._calls.pop(reply.id, None)
        if waiting is None or waiting.done():
            return
        if reply.error is None:
            waiting.set_result(reply.result)
        else:
            waiting.set_exception(WorkerBug(f"worker {self.slot}: {reply.error}"))

    def _reap(self, loop: asyncio.AbstractEventLoop) -> None:
        status = self.process.wait()
        # The loop is gone when the supervisor itself has ended.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(lambda: loop.create_task(self._end(status), name=f"end of {self.pid}"))

    async def _end(self, status: int) -> None:
        """What the worker said last comes before its end."""
        await asyncio.wait([self._listening], timeout=1.0)
        self._listening.cancel()
        self._channel.close()
        self.exited.set_result(status)
        self.settled.set()
        for waiting in self._calls.values():
            if not waiting.done():
                waiting.set_exception(WorkerGone(f"worker {self.slot} (pid {self.pid}) ended"))
