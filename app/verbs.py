"""What the supervisor may ask of a worker, and what a worker tells of itself."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from app.current import Current
from app.observe import Metrics
from app.server import Stop
from app.service import Service
from app.supervisor.agent import Verb
from app.supervisor.messages import Beat
from app.supervisor.vitals import descriptors, memory

# Listing the descriptors of many connections takes a while.
COUNT_EVERY = 8

logger = logging.getLogger("recserve.worker")


@dataclass(frozen=True, slots=True)
class State:
    """What a beat tells, read when it is due; `lag`: the loop's worst lateness since it was last asked, in seconds;
    `stuck`: for how many seconds jobs that nobody waits for have held every thread of the pool.
    """

    in_flight: Callable[[], int]
    connections: Callable[[], int]
    lag: Callable[[], float]
    stuck: Callable[[], float]


class Duties:
    """The verbs of the control channel by name, over the worker's parts. Belongs to the event loop.

    `drain` is how many seconds a drain with `linger` gives connections to be closed by their clients.
    """

    def __init__(
        self,
        service: Service,
        current: Current,
        metrics: Metrics,
        stop: Stop,
        state: State,
        *,
        drain: float,
    ) -> None:
        self._service = service
        self._current = current
        self._metrics = metrics
        self._stop = stop
        self._state = state
        self._drain = drain
        self._beats = 0
        self._fds = 0

    def verbs(self) -> Mapping[str, Verb]:
        """The table."""
        return {
            "reload": self.reload,
            "restore": self.restore,
            "commit": self.commit,
            "rates": self.rates,
            "status": self.status,
            "config": self.config,
            "metrics": self.metrics,
            "drain": self.drain,
        }

    async def reload(
        self, config_dir: str | None = None, release: str | None = None, trusted: bool = False
    ) -> Mapping[str, Any]:
        """Build a configuration aside and swap it in; `errors` say why not. `trusted`: it may move people."""
        directory = None if config_dir is None else Path(config_dir)
        return {"errors": await self._current.reload(directory, release, trusted=trusted), **self.facts()}

    async def restore(self) -> Mapping[str, Any]:
        """Go back to what served before the last reload; `restored` says whether there was anything."""
        return {"restored": await self._current.restore(), **self.facts()}

    async def commit(self) -> Mapping[str, Any]:
        """Let go of what served before the last reload."""
        await self._current.commit()
        return self.facts()

    async def rates(self) -> Mapping[str, Any]:
        """Requests, errors and degraded answers since what serves now began to."""
        return self._service.rates()

    async def status(self) -> Mapping[str, Any]:
        """State for people."""
        return self._service.status()

    async def config(self) -> Mapping[str, Any]:
        """The documents of the configuration that serves."""
        return self._service.config()

    async def metrics(self) -> Mapping[str, Any]:
        """The figures of this process."""
        return {"families": msgspec.to_builtins(self._metrics.families())}

    async def drain(self, linger: bool = False) -> Mapping[str, Any]:
        """Begin to end; once more cuts it short."""
        logger.info("draining: requests in flight have %g s", self._drain)
        self._stop.linger = self._drain if linger else 0.0
        self._stop.set()
        return {}

    def left_alone(self) -> None:
        """End, for nobody would keep this process or show its figures."""
        logger.warning("the supervisor is gone; draining")
        if not self._stop.is_set():
            self._stop.set()

    def facts(self) -> dict[str, Any]:
        """What serves now."""
        snapshot = self._service.snapshot
        return {
            "config": snapshot.config_id,
            "release": snapshot.release,
            "scenes": sorted(snapshot.scenes),
            "example_users": list(self._service.example_users())[:8],
        }

    def vitals(self) -> Beat:
        """A sign of life."""
        if self._beats % COUNT_EVERY == 0:
            self._fds = descriptors()
        self._beats += 1
        resident, own = memory()
        return Beat(
            lag=self._state.lag(),
            stuck=self._state.stuck(),
            in_flight=self._state.in_flight(),
            connections=self._state.connections(),
            rss=resident,
            own=own,
            tasks=len(asyncio.all_tasks()),
            fds=self._fds,
            threads=threading.active_count(),
        )
