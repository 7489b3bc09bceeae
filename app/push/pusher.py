"""Pushes of configuration and release: one at a time, to all workers or to none, and back."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

from app.push.crew import Crew
from app.push.fleet import Fleet, Worker
from app.push.history import History
from app.push.pinned import Pin, Pins
from app.push.reading import Content, Unsettled, read_folder, read_settled
from app.push.trial import PushSettings, Sleep, Stopped, Trial
from app.push.watch import POLL, Watch
from app.texts import encodable
from features.manifest import active

logger = logging.getLogger("recserve.push")


class PushRefused(Exception):
    """There is nothing that could be pushed. `errors` are for the person who pushes."""

    def __init__(self, errors: Sequence[str]) -> None:
        super().__init__("\n".join(errors))
        self.errors = tuple(errors)


class Pusher:
    """Belongs to one event loop. `start` first; `committed` is then what a worker that starts has to load.

    directory  the folder that people edit; releases: where the active release is named
    pins       where pushed configurations are kept
    on_commit  is told of every change of `committed`, at once
    clock      epoch seconds, for people; sleep: of the running loop
    outcomes   pushes by outcome: committed, unchanged, refused, rolled_back, untried, failed (a bug),
               back (a person's rollback)
    """

    def __init__(
        self,
        fleet: Fleet,
        directory: Path,
        releases: Path,
        pins: Pins,
        settings: PushSettings,
        *,
        on_commit: Callable[[Pin], None],
        clock: Callable[[], float],
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self.settings = settings
        self.outcomes: Counter[str] = Counter()
        self.last: Mapping[str, Any] = {}
        self._directory = directory
        self._releases = releases
        self._pins = pins
        self._on_commit = on_commit
        self._clock = clock
        self._sleep = sleep
        self._crew = Crew(fleet, directory, pins.intact)
        self._trial = Trial(self._crew, settings, sleep)
        self._watch = Watch(lambda: _signature(self._read(), self._release()))
        self._turn = asyncio.Lock()
        self._queued: asyncio.Task[Sequence[str]] | None = None
        self._tasks: set[asyncio.Task[Sequence[str]]] = set()
        self._committed: Pin | None = None
        self._history = History(pins.root)
        self._doing = "idle"

    @property
    def committed(self) -> Pin:
        """What all workers serve, or are being brought to. Only after `start`."""
        assert self._committed is not None
        return self._committed

    async def start(self) -> Pin:
        """Pin what the folder holds now, for the first workers. Raises PushRefused."""
        pin = await self._pinned()
        self._commit(pin)
        return pin

    async def push(self) -> Sequence[str]:
        """Push what the folder holds, and the active release. The errors; empty when all workers serve it.

        Goes on when the caller is cancelled. Callers that come while a push waits for its turn share it.
        """
        task = self._queued
        if task is None:
            task = self._queued = self._spawn(self._push())
        return await asyncio.shield(task)

    async def rollback(self) -> Sequence[str]:
        """Have all workers serve what was committed before; the files stay as they are. The errors."""
        return await asyncio.shield(self._spawn(self._back()))

    async def run(self) -> None:
        """Follow the files, and the workers that start, until cancelled."""
        while True:
            await self._sleep(POLL)
            if not self._turn.locked():
                try:
                    await self.look()
                except Exception:  # a bug in one round must not end the following of files for good
                    logger.exception("bug while following %s", self._directory)

    async def look(self) -> None:
        """One round of `run`: bring late starters along, remember rates, push what has changed."""
        async with self._turn:
            if self._crew.ready():
                self._history.remember(self.committed)
            await self._crew.settle(self.committed)
            await self._trial.note()
            changed = self.settings.watch and await asyncio.to_thread(self._watch.look)
        if changed:
            logger.info("%s or the active release has changed", self._directory)
            await self.push()

    def status(self) -> Mapping[str, Any]:
        """For people: what is committed, what a rollback would bring, what happens now, how the last push went."""
        before = self._history.before(self.committed)
        return {
            "doing": self._doing,
            "directory": encodable(str(self._directory.resolve())),
            "releases": encodable(str(self._releases.resolve())),
            "committed": str(self.committed),
            "before": None if before is None else str(before),
            "outcomes": dict(self.outcomes),
            "last": self.last,
        }

    def shown(self, text: str) -> str:
        """What a worker that can't start says, with the folder that people edit instead of the pinned one."""
        return self._crew.shown(text, self.committed)

    def _spawn(self, work: Coroutine[Any, Any, Sequence[str]]) -> asyncio.Task[Sequence[str]]:
        task = asyncio.create_task(work, name="push")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _push(self) -> Sequence[str]:
        async with self._turn:
            self._queued = None
            try:
                pin = await self._pinned()
            except PushRefused as refused:
                return self._done("refused", None, refused.errors)
            await self._crew.settle(self.committed)
            if pin == self.committed:
                return self._done("unchanged", pin)
            return await self._attempt(pin, back=False)

    async def _back(self) -> Sequence[str]:
        async with self._turn:
            pin = self._history.before(self.committed)
            if pin is None:
                return self._done("refused", None, ["Nothing was committed before what serves. Put the files back."])
            if not await asyncio.to_thread(self._pins.intact, pin):
                said = f"{pin.folder}: isn't what was pushed any more. Put the files back in {self._directory}."
                return self._done("refused", pin, [said])
            await self._crew.settle(self.committed)
            return await self._attempt(pin, back=True)

    async def _attempt(self, pin: Pin, *, back: bool) -> Sequence[str]:
        """A push from the first worker to the last. When it stops anywhere, all go back to what was committed."""
        before, taken = self.committed, list[Worker]()
        if not back:
            self._history.remember(before)
        try:
            self._doing = f"trying {pin}"
            await self._trial.first(pin, taken, back=back)
            self._doing = f"bringing all workers to {pin}"
            self._commit(pin)
            await self._trial.rest(pin, taken)
        except Exception as error:  # whatever stopped it, no worker may stay on the new one
            self._doing = f"going back to {before}"
            self._commit(before)
            await self._crew.restore(taken)
            await self._trial.settle(before)
            if not isinstance(error, Stopped):
                self._done("failed", pin, [f"A bug stopped the push, and the log has the traceback: {error!r}."])
                raise
            if pin.digest not in {known.digest for known in (before, *self._history.pins)}:
                await asyncio.to_thread(self._pins.drop, pin)
            if error.outcome == "untried":
                self._watch.pushed(None)
            return self._done(error.outcome, pin, error.errors)
        finally:
            self._doing = "idle"
        await self._crew.commit(self._crew.ready())
        if back:
            self._history.back_to(pin)
        else:
            self._history.remember(pin)
        return self._done("back" if back else "committed", pin)

    async def _pinned(self) -> Pin:
        """The folder's content, read while nobody writes, and pinned. Raises PushRefused."""
        try:
            content = await read_settled(self._read, self._sleep)
            release = await asyncio.to_thread(self._release)
        except Unsettled as unsettled:
            self._watch.pushed(None)
            raise PushRefused([f"{self._directory}: {unsettled}"]) from None
        self._watch.pushed(_signature(content, release))
        if content.problems:
            raise PushRefused(content.problems)
        keep = [*self._history.pins, *([] if self._committed is None else [self._committed])]
        try:
            return await asyncio.to_thread(self._pins.pin, content, release, keep)
        except OSError as error:
            raise PushRefused([f"{self._pins.root}: can't be written: {error.strerror or error}."]) from None

    def _read(self) -> Content:
        return read_folder(self._directory)

    def _release(self) -> str | None:
        try:
            return active(self._releases)
        except (OSError, UnicodeDecodeError):
            return None  # the worker that is to load it says what is wrong

    def _commit(self, pin: Pin) -> None:
        self._committed = pin
        self._on_commit(pin)

    def _done(self, outcome: str, pin: Pin | None, errors: Sequence[str] = ()) -> Sequence[str]:
        self.outcomes[outcome] += 1
        self.last = {"at": self._clock(), "outcome": outcome, "push": pin and str(pin), "errors": list(errors)}
        for line in errors:
            logger.error("%s: %s", "rolled back" if outcome == "rolled_back" else "reload refused", line)
        if not errors and outcome != "unchanged":
            logger.info("%s: %s", outcome, pin)
        return list(errors)


def _signature(content: Content, release: str | None) -> str:
    return f"{content.digest} {release}"
