"""All workers: started, kept, watched, called, replaced, drained; and their metrics as those of one service."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any

import msgspec

from app.supervisor.handle import WorkerBug, WorkerGone, WorkerHandle
from app.supervisor.messages import Family, Spec
from app.supervisor.metrics import Sums
from app.supervisor.seat import Limits, Seat, leave

WATCH_SECONDS = 0.5
PULL_SECONDS = 5.0
ANSWER_SECONDS = 2.0

logger = logging.getLogger("recserve.supervisor")


class Fleet:
    """`wanted` workers, started by `spawn`. Belongs to one event loop.

    `spec` is the pattern of what each is told: a push sets its `config` and `release`, and who starts later
    follows. `restarts` counts by reason: exited, refused, stalled, memory, stuck, asked. `shown` rewords what a
    worker that can't start says.
    """

    def __init__(
        self, spawn: Callable[[Callable[[], Spec]], Awaitable[WorkerHandle]], wanted: int, spec: Spec, limits: Limits
    ) -> None:
        self.spec = spec
        self.wanted = wanted
        self.restarts: Counter[str] = Counter()
        self.shown: Callable[[str], str] = str
        self._spawn = spawn
        self._limits = limits
        self._living: list[WorkerHandle] = []
        self._taken: set[int] = set()
        self._gone = Sums()
        self._seats: list[Seat] = []
        self._tasks: set[asyncio.Task[Any]] = set()
        self._replacing = asyncio.Lock()
        self._ending = False

    @property
    def workers(self) -> list[WorkerHandle]:
        """Workers that serve, by slot."""
        return sorted((one for one in self._living if one.ready), key=lambda one: one.slot)

    @property
    def starting(self) -> list[WorkerHandle]:
        """Workers that load what they were started with, by slot; not those that are being ended."""
        return [one for one in self.living if one.alive and one.ready_at is None and one.ending is None]

    @property
    def living(self) -> list[WorkerHandle]:
        """Every worker process, those that load or drain too, by slot."""
        return sorted(self._living, key=lambda one: one.slot)

    async def start(self) -> None:
        """Start all workers; return when all serve. Raises StartRefused when one can't."""
        self._seats = [
            Seat(self._start, self._limits, self._count, shown=lambda text: self.shown(text))
            for _ in range(self.wanted)
        ]
        for seat in self._seats:
            await seat.fill()
        self._run(self._watch(), "watch workers")
        first = [self._run(seat.first(), "first start") for seat in self._seats]
        done, _ = await asyncio.wait(first, return_when=asyncio.FIRST_EXCEPTION)
        for task in done:
            task.result()
        for seat in self._seats:
            self._run(seat.keep(), "keep a worker")
        self._run(self._pull(), "pull metrics")

    async def call(self, worker: WorkerHandle, verb: str, **arguments: Any) -> Mapping[str, Any]:
        """Have a worker carry out a verb. Raises WorkerGone, or WorkerBug when it raised there."""
        return await worker.call(verb, **arguments)

    async def ask(self, verb: str) -> list[tuple[WorkerHandle, Mapping[str, Any]]]:
        """What every serving worker replies to a verb, those left out that don't within two seconds."""
        asked = self.workers
        replies = await asyncio.gather(*(self._reply(worker, verb) for worker in asked))
        return [(worker, reply) for worker, reply in zip(asked, replies, strict=True) if reply is not None]

    async def roll(self) -> bool:
        """Replace every worker, one after the other, none ended before its successor serves. False: given up.

        A drain cancels it.
        """
        if self._ending:
            return False
        return bool(await self._run(self._roll(), "replace all workers"))

    async def _roll(self) -> bool:
        async with self._replacing:
            for seat in self._seats:
                if not await seat.replace("asked"):
                    return False
            return True

    async def drain(self) -> None:
        """End all: what they took is answered within the drain's time. Nothing is started any more."""
        self._ending = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(leave(worker, "told to stop", self._limits) for worker in self._living))

    def hurry(self) -> None:
        """Cut a drain short."""
        for worker in self._living:
            worker.send_signal(signal.SIGTERM)

    async def figures(self) -> tuple[list[Family], list[tuple[str, Sequence[Family]]]]:
        """Metrics: sums of the workers that ended, and those of each living one by its slot. No count ever falls."""
        await asyncio.gather(*(self._figures(worker) for worker in self._living))
        return self._gone.families(), [(str(one.slot), one.families) for one in self.living]

    async def _start(self) -> WorkerHandle:
        slot = next(number for number in range(len(self._taken) + 1) if number not in self._taken)
        self._taken.add(slot)

        def spec() -> Spec:
            early = not any(one.alive for one in self._living)
            return msgspec.structs.replace(self.spec, slot=slot, early=early)

        try:
            worker = await self._spawn(spec)
        except BaseException:
            self._taken.discard(slot)
            raise
        self._living.append(worker)
        worker.exited.add_done_callback(lambda _: self._forget(worker))
        return worker

    def _forget(self, worker: WorkerHandle) -> None:
        self._living.remove(worker)
        self._taken.discard(worker.slot)
        self._gone.add(worker.families)

    def _count(self, reason: str) -> None:
        self.restarts[reason] += 1

    def _run(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _reply(self, worker: WorkerHandle, verb: str) -> Mapping[str, Any] | None:
        try:
            return await asyncio.wait_for(worker.call(verb), ANSWER_SECONDS)
        except (WorkerGone, WorkerBug, TimeoutError) as error:
            logger.warning("worker %d doesn't say its %s: %s", worker.slot, verb, error or "no reply")
            return None

    async def _figures(self, worker: WorkerHandle) -> None:
        if worker.ready_at is not None and worker.alive:
            reply = await self._reply(worker, "metrics")
            if reply is not None:
                worker.families = msgspec.convert(reply["families"], list[Family])

    async def _pull(self) -> None:
        """Figures are asked for now and then, so that a killed worker takes few of them away."""
        while True:
            await asyncio.sleep(PULL_SECONDS)
            await asyncio.gather(*(self._figures(worker) for worker in self._living))

    async def _watch(self) -> None:
        now = asyncio.get_running_loop().time
        while True:
            began = now()
            await asyncio.sleep(WATCH_SECONDS)
            # When we were stopped ourselves, their signs of life lie unread.
            stopped = now() - began > 2 * WATCH_SECONDS + 1.0
            for worker in self.living:
                if stopped:
                    worker.beat_at = now()
                self._check(worker, now())
            self._tell_mean()

    def _tell_mean(self) -> None:
        workers = self.workers
        if len(workers) > 1:
            mean = sum(worker.beat.connections for worker in workers) / len(workers)
            for worker in workers:
                worker.tell(mean)

    def _check(self, worker: WorkerHandle, now: float) -> None:
        limits = self._limits
        if worker.ending is not None:
            return
        silent, age, loading = now - worker.beat_at, now - worker.started, worker.ready_at is None
        if silent > (limits.start_stall if loading else limits.stall) or (loading and age > limits.load):
            logger.error(
                "worker %d (pid %d) is killed: no sign of life for %.1f s, %s after %.0f s",
                *(worker.slot, worker.pid, silent, "still loading" if loading else "ready", age),
            )
            worker.ending = "stalled"
            worker.send_signal(signal.SIGKILL)
        elif not self._replacing.locked() and (reason := self._worn(worker, now)):
            self._run(self._recycle(worker, reason), "recycle a worker")

    def _worn(self, worker: WorkerHandle, now: float) -> str | None:
        """Why a worker that serves should be replaced."""
        limits, beat = self._limits, worker.beat
        if worker.ready_at is None:
            return None
        if beat.stuck > limits.stuck:
            return "stuck"
        old = now - worker.ready_at > limits.settle
        return "memory" if limits.memory is not None and beat.own > limits.memory and old else None

    async def _recycle(self, worker: WorkerHandle, reason: str) -> None:
        async with self._replacing:
            seat = next((one for one in self._seats if one.worker is worker), None)
            if seat is None:
                return
            beat = worker.beat
            logger.warning(
                "worker %d (pid %d) is replaced (%s): it holds %d MiB, its compute pool has been stuck for %.0f s",
                *(worker.slot, worker.pid, reason, beat.own >> 20, beat.stuck),
            )
            if not await seat.replace(reason):
                await asyncio.sleep(self._limits.longest)
