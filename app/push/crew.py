"""The workers as a push sees them: who holds which pin, and the moves that change it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from app.push.canary import Counts
from app.push.fleet import Fleet, Worker
from app.push.pinned import Pin
from app.supervisor.handle import WorkerBug, WorkerGone

PATIENCE = 120.0  # seconds for a worker to load a release; longer, it is replaced
REPLY = 10.0  # seconds for any other reply

logger = logging.getLogger("recserve.push")

Held = tuple[str, str | None]
UNKNOWN: Held = ("", None)


class Crew:
    """Moves of workers between pins. `directory` is what messages name instead of a pinned folder.

    `intact` says whether a pinned folder still holds what was pinned.
    """

    def __init__(
        self,
        fleet: Fleet,
        directory: Path,
        intact: Callable[[Pin], bool] = lambda _: True,
        *,
        patience: float = PATIENCE,
        reply: float = REPLY,
    ) -> None:
        self._fleet = fleet
        self._intact = intact
        self._directory = str(directory)
        self._patience = patience
        self._reply = reply
        self._held: dict[tuple[int, int], Held] = {}
        self._prior: dict[tuple[int, int], Held] = {}

    def ready(self) -> list[Worker]:
        """Workers that serve, by slot."""
        workers = sorted((worker for worker in self._fleet.workers if worker.ready), key=lambda worker: worker.slot)
        here = set(map(identity, workers))
        self._held = {key: held for key, held in self._held.items() if key in here}
        self._prior = {key: held for key, held in self._prior.items() if key in here}
        return workers

    def holds(self, worker: Worker, pin: Pin) -> bool:
        """Whether the worker serves `pin`."""
        return self._holding(worker) == (str(pin.folder), pin.release)

    async def load(self, worker: Worker, pin: Pin, *, trusted: bool) -> list[str]:
        """Have the worker load and serve `pin`. The errors, with the paths that people edit. Raises WorkerGone.

        `trusted`: what it moves in experiments was allowed, by another worker or a person. A worker that doesn't
        finish in time is ended: it could swap later, when nobody expects it.
        """
        before = self._holding(worker)
        self._held[identity(worker)] = UNKNOWN  # until it has replied
        try:
            said = await self._call(
                worker, "reload", self._patience, config_dir=str(pin.folder), release=pin.release, trusted=trusted
            )
        except TimeoutError:
            await self.end(worker)
            return [f"The worker in slot {worker.slot} hasn't loaded it within {self._patience:g} s. It is replaced."]
        except WorkerBug as bug:
            await self.end(worker)  # what it serves now is anybody's guess
            return [f"Loading it failed by a bug, and the log has the traceback: {bug}."]
        errors = [self.shown(str(error), pin) for error in said.get("errors", ())]
        self._held[identity(worker)] = before if errors else (str(pin.folder), pin.release)
        if not errors:
            self._prior[identity(worker)] = before
        return errors

    def shown(self, text: str, pin: Pin) -> str:
        """What a worker says of a pinned folder, as it is said of the folder that people edit.

        Not when the pinned one has been changed: the other may well be whole. O(its bytes).
        """
        if str(pin.folder) not in text or self._intact(pin):
            return text.replace(str(pin.folder), self._directory)
        return f"{text}\n{pin.folder}: isn't what was pushed any more. Push again, which writes it anew."

    async def restore(self, workers: Iterable[Worker]) -> None:
        """Have them serve what each served before it was last loaded. One that can't is replaced."""
        for worker in workers:
            try:
                said = await self._call(worker, "restore", self._reply)
            except WorkerGone:
                continue
            except (TimeoutError, WorkerBug) as error:
                logger.error("worker %d can't go back (%s); it is replaced", worker.slot, str(error) or "no reply")
                said = {}
            if not said.get("restored"):
                await self.end(worker)
            elif identity(worker) in self._prior:
                self._held[identity(worker)] = self._prior.pop(identity(worker))

    async def settle(self, pin: Pin) -> None:
        """Bring whoever serves something else to `pin`: workers that were starting while it was committed."""
        for worker in self.ready():
            if not self.holds(worker, pin):
                with contextlib.suppress(WorkerGone):
                    if await self.load(worker, pin, trusted=True):
                        await self.end(worker)  # it starts again, from the committed one
                    else:
                        await self.commit([worker])

    def late(self, pin: Pin) -> list[Worker]:
        """Workers that are starting with something else than `pin`, and would serve that."""
        return [worker for worker in self._fleet.starting if not self.holds(worker, pin)]

    async def commit(self, workers: Iterable[Worker]) -> None:
        """Have them forget what they served before: its memory is free then."""
        for worker in workers:
            with contextlib.suppress(WorkerGone, WorkerBug, TimeoutError):
                await self._call(worker, "commit", self._reply)

    async def counts(self, workers: Iterable[Worker]) -> Counts:
        """Answers counted by these workers since their snapshots serve. Raises WorkerGone."""
        total = Counts()
        for worker in workers:
            # One that doesn't tell counts no answers; whether it is alive is the supervisor's affair.
            with contextlib.suppress(TimeoutError, WorkerBug):
                said = await self._call(worker, "rates", self._reply)
                total = total.plus(Counts(*(int(said[name]) for name in Counts._fields)))
        return total

    async def end(self, worker: Worker) -> None:
        """Have the worker end; the fleet starts another."""
        with contextlib.suppress(WorkerGone, WorkerBug, TimeoutError):
            await self._call(worker, "drain", self._reply)

    def _holding(self, worker: Worker) -> Held:
        return self._held.get(identity(worker), (worker.spec.config, worker.spec.release))

    async def _call(self, worker: Worker, verb: str, seconds: float, **arguments: Any) -> Mapping[str, Any]:
        async with asyncio.timeout(seconds):
            return await self._fleet.call(worker, verb, **arguments)


def identity(worker: Worker) -> tuple[int, int]:
    """What tells a worker from the one that replaces it."""
    return worker.slot, worker.pid
