"""One push over the workers: a share of them first, watched for a while, then the others one by one."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from app.push.canary import Counts, enough, worse
from app.push.crew import Crew, identity
from app.push.fleet import Worker
from app.push.pinned import Pin
from app.supervisor.handle import WorkerGone

Sleep = Callable[[float], Awaitable[None]]

LOOKS = 10
WAIT, STEP = 30.0, 0.1  # seconds for a first worker to be ready, and between two looks for one
LATE = 120.0  # seconds for workers that were starting when a push was committed; longer, they are replaced
IDLE = 1.0  # seconds without a single request, after which a trial has nothing to see
BEFORE = 30  # looks of the past that a lone worker is compared with


@dataclass(frozen=True, slots=True)
class PushSettings:
    """How pushes go: `watch` follows file changes; `canary` seconds of trial by `share` of the workers."""

    watch: bool = True
    canary: float = 10.0
    share: float = 0.25


class Stopped(Exception):
    """The push must not go on: `outcome` for the metric, `errors` for the person."""

    def __init__(self, outcome: str, *errors: str) -> None:
        super().__init__(*errors)
        self.outcome = outcome
        self.errors = list(errors)


class Trial:
    """The steps of a push. `taken` are the workers that serve the new pin and would have to go back."""

    def __init__(self, crew: Crew, settings: PushSettings, sleep: Sleep = asyncio.sleep) -> None:
        self._crew = crew
        self._settings = settings
        self._sleep = sleep
        self._past: deque[tuple[tuple[tuple[int, int], ...], Counts]] = deque(maxlen=BEFORE)

    async def note(self) -> None:
        """Remember the rates of now, where there would be no other workers to compare with. Call it every second."""
        workers = self._crew.ready()
        if workers and len(workers) == self._share(len(workers)):
            try:
                self._past.append((_identities(workers), await self._crew.counts(workers)))
            except WorkerGone:
                self._past.clear()

    async def first(self, pin: Pin, taken: list[Worker], *, back: bool) -> None:
        """Have a share of the workers take `pin`, and watch them unless a person goes back. Raises Stopped."""
        workers = await self._anybody()
        trying = workers[: self._share(len(workers))]
        others = workers[len(trying) :]
        try:
            before = await self._before(trying)
            for worker in trying:
                await self._take(worker, pin, taken, trusted=back)
            if not back and self._settings.canary > 0:
                await self._watch(trying, others, before)
        except WorkerGone:
            raise Stopped(
                "refused", "A worker that tried it has ended. Push again if that had another cause."
            ) from None

    async def rest(self, pin: Pin, taken: list[Worker]) -> None:
        """Have every worker that doesn't serve `pin` yet take it, one by one, late starters too. Raises Stopped."""
        await self._until_all(pin, lambda: self._follow(pin, taken))

    async def settle(self, pin: Pin) -> None:
        """Bring whoever serves something else to `pin`, late starters too."""
        await self._until_all(pin, lambda: self._crew.settle(pin))

    async def _until_all(self, pin: Pin, bring: Callable[[], Awaitable[None]]) -> None:
        """`bring` those that serve, until nobody is starting with something else; who takes too long is ended."""
        for _ in range(math.ceil(LATE / STEP)):
            # Asked before: who becomes ready meanwhile is brought in the next round.
            late = self._crew.late(pin)
            await bring()
            if not late:
                return
            await self._sleep(STEP)
        for worker in self._crew.late(pin):
            await self._crew.end(worker)  # the one that replaces it starts from the committed pin
        await bring()

    async def _follow(self, pin: Pin, taken: list[Worker]) -> None:
        gone: set[tuple[int, int]] = set()
        while left := [
            worker
            for worker in self._crew.ready()
            if identity(worker) not in gone and not self._crew.holds(worker, pin)
        ]:
            try:
                await self._take(left[0], pin, taken, trusted=True)
            except WorkerGone:
                gone.add(identity(left[0]))  # the one that replaces it starts from the committed pin

    async def _anybody(self) -> list[Worker]:
        for _ in range(math.ceil(WAIT / STEP)):
            workers = self._crew.ready()
            if workers:
                return workers
            await self._sleep(STEP)
        raise Stopped("untried", f"No worker was ready to try it within {WAIT:.0f} s. The log says why; push again.")

    async def _take(self, worker: Worker, pin: Pin, taken: list[Worker], *, trusted: bool) -> None:
        errors = await self._crew.load(worker, pin, trusted=trusted)
        if errors:
            raise Stopped("refused", *errors)
        taken.append(worker)

    async def _before(self, trying: list[Worker]) -> Counts:
        now = await self._crew.counts(trying)
        past = next((counts for who, counts in self._past if who == _identities(trying)), Counts())
        self._past.clear()
        return now.since(past)

    async def _watch(self, trying: list[Worker], others: list[Worker], before: Counts) -> None:
        """Compare rates until the time is over; at once when nobody asks anything. Raises Stopped, WorkerGone."""
        seen, others_seen = await self._crew.counts(trying), await self._of(others)
        for look in range(1, LOOKS + 1):
            await self._sleep(self._settings.canary / LOOKS)
            counts = (await self._crew.counts(trying)).since(seen)
            rest = (await self._of(others)).since(others_seen)
            verdict = worse(counts, rest if enough(counts, rest) else before, last=look == LOOKS)
            if verdict:
                seconds = self._settings.canary * look / LOOKS
                raise Stopped("rolled_back", f"Rolled back after {seconds:.1f} s: {verdict}")
            if not counts.requests + rest.requests and self._settings.canary * look / LOOKS >= IDLE:
                return

    async def _of(self, others: list[Worker]) -> Counts:
        here = _identities(self._crew.ready())
        try:
            return await self._crew.counts(worker for worker in others if identity(worker) in here)
        except WorkerGone:
            return Counts()

    def _share(self, workers: int) -> int:
        """How many of so many workers try a push first; some are left to compare with unless the share is all."""
        most = workers if self._settings.share >= 1 else workers - 1
        return max(1, min(math.ceil(self._settings.share * workers), most))


def _identities(workers: list[Worker]) -> tuple[tuple[int, int], ...]:
    return tuple(map(identity, workers))
