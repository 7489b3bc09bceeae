"""A fleet without processes, on a clock that tests move: what a worker does is read from the files it is to load."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from app.push.canary import Counts
from app.push.pinned import Pin, Pins
from app.push.pusher import Pusher
from app.push.trial import PushSettings
from app.supervisor.handle import WorkerBug, WorkerGone

FILE = "scenes/home.yaml"
QUICK = {"canary": 1.0, "watch": True}
"""Settings: a trial of a second, and files are followed."""
Serving = tuple[str, str | None]


@dataclass
class FakeSpec:
    config: str
    release: str | None


@dataclass
class FakeWorker:
    slot: int
    pid: int
    spec: FakeSpec
    ready: bool = False
    alive: bool = True
    before: Serving | None = None
    counted: Counts = field(default_factory=Counts)

    def __post_init__(self) -> None:
        self.serving: Serving = (self.spec.config, self.spec.release)
        self.loaded = [self.serving]


class FakeFleet:
    """`disturb` is called before each reply is made and at each sleep: it may kill, start or finish workers.

    A file that says `malformed` is refused, one that says `crash` kills who loads it, `hang` never loads, `bug`
    raises. Answers come at `rate` a second from each ready worker; of those by a `failing` one a tenth fail.
    """

    def __init__(self, root: Path, workers: int = 4, rate: float = 100.0) -> None:
        self.root = root
        self.configs, self.releases = root / "configs", root / "releases"
        (self.configs / "scenes").mkdir(parents=True)
        self.releases.mkdir()
        self.rate = rate
        self.now = 1_000.0
        self.slots = workers
        self.disturb: Callable[[], None] = lambda: None
        self.calls: list[tuple[int, str]] = []
        self.everybody: list[FakeWorker] = []
        self._pids: Iterator[int] = count(100)
        self._committed: Pin | None = None

    @property
    def workers(self) -> list[FakeWorker]:
        return [worker for worker in self.everybody if worker.alive and worker.ready]

    @property
    def starting(self) -> list[FakeWorker]:
        return [worker for worker in self.everybody if worker.alive and not worker.ready]

    def write(self, text: str) -> None:
        (self.configs / FILE).write_text(text, encoding="utf-8")

    def activate(self, release: str) -> None:
        (self.releases / "active").write_text(release + "\n", encoding="utf-8")

    def pusher(self, **settings: Any) -> Pusher:
        return Pusher(
            self,
            self.configs,
            self.releases,
            Pins(self.root / "pins"),
            PushSettings(**settings),
            on_commit=lambda pin: setattr(self, "_committed", pin),
            clock=lambda: self.now,
            sleep=self.sleep,
        )

    async def started(self, **settings: Any) -> Pusher:
        """A pusher with all workers ready."""
        pusher = self.pusher(**settings)
        await pusher.start()
        self.fill()
        await pusher.look()
        return pusher

    def spawn(self) -> FakeWorker | None:
        taken = {worker.slot for worker in self.everybody if worker.alive}
        free = [slot for slot in range(self.slots) if slot not in taken]
        if not free:
            return None
        assert self._committed is not None
        spec = FakeSpec(str(self._committed.folder), self._committed.release)
        worker = FakeWorker(free[0], next(self._pids), spec)
        self.everybody.append(worker)
        return worker

    def finish_starting(self) -> None:
        for worker in self.everybody:
            worker.ready = worker.alive

    def fill(self) -> None:
        """Start a worker in every free slot, and let all finish starting."""
        while self.spawn():
            pass
        self.finish_starting()

    def kill(self, worker: FakeWorker) -> None:
        worker.alive = worker.ready = False

    def kill_ready(self) -> None:
        """Kill all but those that are still starting."""
        for worker in self.workers:
            self.kill(worker)

    async def sleep(self, seconds: float) -> None:
        self.disturb()
        self.now += seconds
        for worker in self.workers:
            asked = round(self.rate * seconds)
            failed = asked // 10 if "failing" in self.text(worker.serving) else 0
            worker.counted = worker.counted.plus(Counts(asked, failed))
        await asyncio.sleep(0)

    def text(self, serving: Serving) -> str:
        return (Path(serving[0]) / FILE).read_text(encoding="utf-8")

    async def call(self, worker: FakeWorker, verb: str, **arguments: Any) -> Mapping[str, Any]:
        self.disturb()
        if not worker.alive:
            raise WorkerGone(f"worker {worker.slot} has ended")
        self.calls.append((worker.slot, verb))
        done: Mapping[str, Any] = await getattr(self, f"_{verb}")(worker, **arguments)
        self.disturb()
        if not worker.alive:
            raise WorkerGone(f"worker {worker.slot} ended")
        return done

    async def _reload(
        self, worker: FakeWorker, *, config_dir: str, release: str | None, trusted: bool
    ) -> Mapping[str, Any]:
        text = self.text((config_dir, release))
        if "malformed" in text:
            return {"errors": [f"{config_dir}/{FILE}:1 budget: malformed. Expected another."]}
        if "bug" in text:
            raise WorkerBug("KeyError: 'x'")
        if "crash" in text:
            self.kill(worker)
        if "hang" in text:
            await asyncio.Event().wait()
        worker.before, worker.serving, worker.counted = worker.serving, (config_dir, release), Counts()
        worker.loaded.append(worker.serving)
        return {"errors": []}

    async def _restore(self, worker: FakeWorker) -> Mapping[str, Any]:
        if worker.before is None:
            return {"restored": False}
        worker.serving, worker.counted = worker.before, Counts()
        worker.before = None
        return {"restored": True}

    async def _commit(self, worker: FakeWorker) -> Mapping[str, Any]:
        worker.before = None
        return {}

    async def _rates(self, worker: FakeWorker) -> Mapping[str, Any]:
        return worker.counted._asdict()

    async def _drain(self, worker: FakeWorker) -> Mapping[str, Any]:
        self.kill(worker)
        raise WorkerGone("drained")


def served(fleet: FakeFleet) -> set[tuple[str, str | None]]:
    """What the ready workers serve: the text of the scene, and the release."""
    return {(fleet.text(worker.serving), worker.serving[1]) for worker in fleet.workers}


async def happens(condition: Callable[[], bool]) -> None:
    """Let the other tasks go on until it is so."""
    for _ in range(100_000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it doesn't happen")
