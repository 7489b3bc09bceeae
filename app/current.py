"""What serves now, and how it is replaced: build aside, swap one reference, keep the one before until it is settled."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from abtest.ramp import judge
from app.build import Surroundings, build_snapshot
from app.config.load import load_config
from app.config.model import Config
from app.config.problems import ConfigError
from app.paths import DEFAULT_VAR, placed
from app.snapshot import Snapshot
from stages.errors import ReleaseError

logger = logging.getLogger("recserve.service")
# What connections, routes and processes were made with. Changing it takes new processes.
HELD = (
    "store_url",
    "store_timeout",
    "store_connections",
    "token",
    "releases",
    "workers",
    "memory",
    "drain",
    "admission_limit",
    "admission_wait",
    "clients",
    "push_watch",
    "push_canary",
    "push_share",
    "exposures_format",
)


@dataclass(frozen=True, slots=True)
class Source:
    """Where a snapshot is built from: a folder of configuration, the environment, `var` with the releases in it.

    `release` None: the active one.
    """

    directory: Path
    env: Mapping[str, str]
    var: Path = DEFAULT_VAR
    release: str | None = None

    def load(self) -> Config:
        """Read the configuration and check it. ConfigError carries every problem."""
        return placed(load_config(self.directory, env=self.env), self.var)


@dataclass(slots=True)
class Tally:
    """What became of the requests of one snapshot: how a push is judged.

    `errors` are those that the service failed, `degraded` those that a step failed, `empty` answers without any item;
    what the load's level left out doesn't count.
    """

    requests: int = 0
    errors: int = 0
    degraded: int = 0
    empty: int = 0


@dataclass(frozen=True, slots=True)
class Serving:
    """A snapshot with where it came from and what became of its requests."""

    snapshot: Snapshot
    source: Source
    tally: Tally


class Current:
    """The one that serves, and the one before it. Belongs to one event loop."""

    def __init__(self, source: Source, around: Surroundings) -> None:
        self._around = around
        self._source = source
        self._now: Serving | None = None
        self._before: Serving | None = None
        self._lock = asyncio.Lock()

    @property
    def ready(self) -> bool:
        """Whether anything serves."""
        return self._now is not None

    @property
    def serving(self) -> Serving:
        """What serves now; only while `ready`."""
        assert self._now is not None
        return self._now

    @property
    def snapshot(self) -> Snapshot | None:
        """The snapshot that serves, if any."""
        return None if self._now is None else self._now.snapshot

    async def start(self) -> None:
        """Load, warm, serve. Raises ConfigError or ReleaseError."""
        self._swap(await asyncio.to_thread(self._build, self._source, None))

    async def reload(
        self, directory: Path | None = None, release: str | None = None, *, trusted: bool = False
    ) -> list[str]:
        """Build what lies there aside and swap it in; on any error the old one stays. The errors.

        Without a directory, the one that it was started with. Until `commit`, the one before can be restored.
        `trusted`: that experiments stay true to themselves was checked elsewhere, or a person goes back.
        """
        async with self._lock:
            source = replace(self._source, directory=directory or self._source.directory, release=release)
            try:
                made = await asyncio.to_thread(self._build, source, self.snapshot, trusted=trusted)
            except ConfigError as error:
                return [str(problem) for problem in error.problems]
            except (ReleaseError, OSError, ValueError) as error:
                return [str(error)]
            self._swap(made)
            return []

    async def restore(self) -> bool:
        """Swap back to the one before; False when there is none."""
        async with self._lock:
            if self._before is None:
                return False
            dropped = [self._now]
            self._now, self._before = replace(self._before, tally=Tally()), None
            snapshot = self._now.snapshot
            logger.warning("back to configuration %s, release %s", snapshot.config_id, snapshot.release)
            await _destroy(dropped)
            return True

    async def commit(self) -> None:
        """Let go of the one before."""
        async with self._lock:
            dropped, self._before = [self._before], None
            await _destroy(dropped)

    def _build(self, source: Source, previous: Snapshot | None, *, trusted: bool = False) -> Serving:
        config = source.load()
        if previous is not None:
            held = [name for name in HELD if getattr(config.service, name) != getattr(previous.config.service, name)]
            if held:
                place = ("service.yaml", *held[0].split("_"))
                raise ConfigError([config.problem(place, "Read at start only. Put it back, or restart the service.")])
            if not trusted:
                self._keep_faith(config, previous)
        snapshot = build_snapshot(config, self._around, previous=previous, release=source.release)
        return Serving(snapshot, source, Tally())

    def _keep_faith(self, config: Config, previous: Snapshot) -> None:
        """ConfigError when running experiments would move people; a warning for what is only unwise."""
        changes = judge(previous.experiments.scenes, config.experiments.scenes, self._around.clock())
        if changes.refusals:
            raise ConfigError([config.problem(("abtest.yaml", *p.path), p.message) for p in changes.refusals])
        for problem in changes.warnings:
            logger.warning("%s", config.problem(("abtest.yaml", *problem.path), problem.message))

    def _swap(self, made: Serving) -> None:
        self._before, self._now = self._now, made
        gc.collect()
        gc.freeze()  # what a snapshot holds lives long: the collector needn't walk it while requests wait
        logger.info("serving configuration %s, release %s", made.snapshot.config_id, made.snapshot.release)


async def _destroy(last: list[Serving | None]) -> None:
    """Let go of it on another thread: ending a model's session takes up to 30 ms, unless a request still holds it."""
    await asyncio.to_thread(last.clear)
