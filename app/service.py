"""The engine behind the edge: pins a snapshot, assigns, runs the funnel, records what happened; reloads and swaps."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from abtest import ExposureLog
from app.build import Surroundings, build_snapshot
from app.config.load import load_config
from app.config.model import Config
from app.config.problems import ConfigError
from app.observe import Metrics
from app.paths import DEFAULT_VAR, placed
from app.problems import Problem, unavailable
from app.snapshot import Snapshot
from app.wire import Event as WireEvent
from features.behaviour import Event
from stages.errors import ReleaseError, StepFailed
from stages.guard import Outcome
from stages.types import Answer, Request

logger = logging.getLogger("recserve.service")
CLOCKS_DIFFER = 86_400.0  # seconds; an event of the future would move the clock of its user's features
HELD = ("store_url", "store_timeout", "store_connections", "token")  # what connections and routes were made with


@dataclass(frozen=True, slots=True)
class Source:
    """Where configuration is read from: a folder and the environment; `var` is where releases lie."""

    directory: Path
    env: Mapping[str, str]
    var: Path = DEFAULT_VAR

    def load(self) -> Config:
        """Read and check it. ConfigError carries every problem."""
        return placed(load_config(self.directory, env=self.env), self.var)


class Service:
    """The engine and the operator's hand on it. Belongs to one event loop."""

    def __init__(
        self,
        source: Source,
        around: Surroundings,
        metrics: Metrics,
        exposures: ExposureLog,
        store_status: Callable[[], Mapping[str, Any]] = dict,
    ) -> None:
        self._source = source
        self._around = around
        self._metrics = metrics
        self._exposures = exposures
        self._store_status = store_status
        self._snapshot: Snapshot | None = None
        self._reload_lock = asyncio.Lock()
        self._last_reload: dict[str, Any] = {}
        self.waiting_for: list[str] = ["the release to be loaded"]
        metrics.counter("exposures_dropped", "Exposure records lost.", lambda: float(exposures.dropped))
        metrics.counter("live_undecoded", "Values of live views that did not decode.", self._live_undecoded)
        metrics.counter("behaviour_displaced", "Foreign values moved aside from our keys.", self._displaced)
        metrics.counter("behaviour_undecoded", "Behaviour values that did not decode.", self._undecoded)

    @property
    def snapshot(self) -> Snapshot:
        """What serves now; only while `ready`."""
        assert self._snapshot is not None
        return self._snapshot

    @property
    def ready(self) -> bool:
        """Whether a snapshot is loaded and warm."""
        return self._snapshot is not None

    async def start(self) -> None:
        """Load, warm, serve. Raises ConfigError or ReleaseError."""
        self._swap(await asyncio.to_thread(self._build))
        self.waiting_for = []

    async def recommend(self, request: Request) -> Answer:
        """Answer one request from one configuration, one release and one assignment."""
        snapshot = self.snapshot
        units = {
            "user_id": request.user_id,
            "device_id": request.device_id,
            "session_id": request.session_id,
            "request_id": request.request_id,
        }
        now = self._around.clock()
        assignment = snapshot.experiments.assign(request.scene, units, request.context, now)
        plan = snapshot.plans[request.scene]
        try:
            answer, outcome = await snapshot.pipeline.recommend(plan, request, assignment.params, assignment.buckets)
        except StepFailed as failure:
            self._metrics.observe_step(failure.step, 0.0, failure.reason)
            raise unavailable(
                "step-failed", f"{failure.step} failed ({failure.reason}); the scene says to fail"
            ) from None
        if outcome.reads:
            self._exposures.record(
                assignment, outcome.reads, request.request_id, request.scene, now, snapshot.config_id
            )
        self._observe(outcome)
        return answer

    def _observe(self, outcome: Outcome) -> None:
        observe = self._metrics.observe_step
        for record in outcome.records:
            observe(record.name, record.seconds, record.reason or ("missing" if record.missing else "ok"))
        if outcome.bugs:
            self._metrics.internal_error("step")

    async def record(self, events: Sequence[WireEvent]) -> None:
        """Append events to the users' behaviour, all or none."""
        snapshot = self.snapshot
        declared = () if snapshot.config.features.behaviour is None else snapshot.config.features.behaviour.events
        latest = self._around.clock() + CLOCKS_DIFFER
        for at, event in enumerate(events):
            if event.event not in declared:
                raise Problem(
                    "undeclared-event",
                    f"events[{at}].event: not declared. Declared: {', '.join(declared) or 'none'}.",
                    field=f"events[{at}].event",
                )
            if event.ts > latest:
                raise Problem(
                    "out-of-range",
                    f"events[{at}].ts: more than a day ahead of the service's clock. Expected epoch seconds up to now.",
                    field=f"events[{at}].ts",
                )
        await snapshot.behaviour.append(
            [Event(e.user_id, e.item_id, e.event, e.ts) for e in events], timeout=snapshot.config.service.store_timeout
        )

    def status(self) -> Mapping[str, Any]:
        """State for people: what serves, what it waits for, the last reload and its errors, the store."""
        facts = {} if self._snapshot is None else self._snapshot.facts()
        return {
            **facts,
            "waiting_for": self.waiting_for,
            "last_reload": self._last_reload,
            "exposures": {"written": self._exposures.written, "dropped": self._exposures.dropped},
            "store": self._store_status(),
        }

    def example_users(self) -> Sequence[str]:
        """A few users of the release that have a history, for people to try."""
        return [] if self._snapshot is None else list(self._snapshot.loaded.manifest.about.get("example_users", ()))

    def config(self) -> Mapping[str, Any]:
        """The documents of the configuration that serves."""
        return dict(self.snapshot.config.documents)

    async def reload(self) -> Sequence[str]:
        """Build the configuration on disk aside and swap it in; on any error the old one stays. The errors."""
        async with self._reload_lock:
            try:
                self._swap(await asyncio.to_thread(self._build))
                errors: list[str] = []
            except ConfigError as error:
                errors = [str(problem) for problem in error.problems]
            except (ReleaseError, OSError, ValueError) as error:
                errors = [str(error)]
            self._last_reload = {"at": self._around.clock(), "errors": errors}
            for line in errors:
                logger.error("reload refused: %s", line)
            return errors

    def _build(self) -> Snapshot:
        config = self._source.load()
        previous = self._snapshot
        if previous is not None:
            held = [name for name in HELD if getattr(config.service, name) != getattr(previous.config.service, name)]
            if held:
                place = ("service.yaml", *held[0].split("_"))
                raise ConfigError([config.problem(place, "Read at start only. Put it back, or restart the service.")])
            refused = config.experiments.refuses(previous.experiments)
            if refused:
                raise ConfigError([config.problem(("abtest.yaml", *p.path), p.message) for p in refused])
        return build_snapshot(config, self._around, previous=previous)

    def _swap(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        gc.collect()
        gc.freeze()  # what a snapshot holds lives long: the collector needn't walk it while requests wait
        logger.info("serving configuration %s, release %s", snapshot.config_id, snapshot.release)

    def _live_undecoded(self) -> float:
        return 0.0 if self._snapshot is None else float(sum(self._snapshot.store.undecoded.values()))

    def _displaced(self) -> float:
        return 0.0 if self._snapshot is None else float(self._snapshot.behaviour.displaced)

    def _undecoded(self) -> float:
        return 0.0 if self._snapshot is None else float(self._snapshot.behaviour.undecoded)
