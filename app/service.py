"""The engine behind the edge: pins a snapshot, assigns, runs the funnel, records what happened."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from abtest import ExposureLog, ForcedError
from app.current import Current
from app.ladder import Ladder
from app.lag import LoopLag
from app.observe import Metrics
from app.problems import Problem, unavailable
from app.snapshot import Snapshot
from app.turns import Turns
from app.wire import Event as WireEvent
from features.behaviour import Event
from stages.errors import StepFailed
from stages.guard import LEVEL, Outcome
from stages.types import Answer, Request

logger = logging.getLogger("recserve.service")
CLOCKS_DIFFER = 86_400.0  # seconds; an event of the future would move the clock of its user's features


class Service:
    """The engine and the operator's hand on it. Belongs to one event loop."""

    def __init__(
        self,
        current: Current,
        clock: Callable[[], float],
        metrics: Metrics,
        exposures: ExposureLog,
        store_status: Callable[[], Mapping[str, Any]],
        ladder: Ladder,
        lag: LoopLag,
    ) -> None:
        self.current = current
        self._clock = clock
        self._metrics = metrics
        self._exposures = exposures
        self._store_status = store_status
        self._ladder = ladder
        self._lag = lag
        self._turns = Turns(lambda seconds: lag.saw(seconds, "turn"))
        self.waiting_for: list[str] = ["the release to be loaded"]
        metrics.counter("exposures_dropped", "Exposure records lost.", lambda: float(exposures.dropped))
        metrics.counter("live_undecoded", "Values of live views that did not decode.", self._live_undecoded)
        metrics.counter("behaviour_displaced", "Foreign values moved aside from our keys.", self._displaced)
        metrics.counter("behaviour_undecoded", "Behaviour values that did not decode.", self._undecoded)

    @property
    def snapshot(self) -> Snapshot:
        """What serves now; only while `ready`."""
        return self.current.serving.snapshot

    @property
    def ready(self) -> bool:
        """Whether a snapshot is loaded and warm."""
        return self.current.ready

    async def start(self) -> None:
        """Load, warm, serve. Raises ConfigError or ReleaseError."""
        await self.current.start()
        self.waiting_for = []

    async def recommend(self, request: Request) -> Answer:
        """Answer one request from one configuration, one release and one assignment."""
        serving = self.current.serving
        snapshot, tally = serving.snapshot, serving.tally
        units = {
            "user_id": request.user_id,
            "device_id": request.device_id,
            "session_id": request.session_id,
            "request_id": request.request_id,
        }
        now = self._clock()
        try:
            assignment = snapshot.experiments.assign(request.scene, units, request.context, now, request.forced)
        except ForcedError as error:
            field = f"force.{error.layer}"
            raise Problem("out-of-range", f"{field}: {error}", field=field) from None
        plan, pipeline = snapshot.plans[request.scene], snapshot.pipeline
        quality = self._ladder.quality(request.scene)
        # Under overload answers are cheap, and reading the store for many at once makes them cheaper.
        turn = None if quality.level else await self._turns.begin()
        tally.requests += 1
        try:
            answer, outcome = await pipeline.recommend(plan, request, assignment.params, assignment.buckets, quality)
        except StepFailed as failure:
            tally.errors += 1
            self._metrics.observe_step(failure.step, 0.0, failure.reason)
            raise unavailable(
                "step-failed", f"{failure.step} failed ({failure.reason}); the scene says to fail"
            ) from None
        except Exception:  # counted for whoever judges a push, and raised again
            tally.errors += 1
            raise
        finally:
            if turn is not None:
                turn.end()
        if outcome.reads:
            self._exposures.record(
                assignment, outcome.reads, request.request_id, request.scene, now, snapshot.config_id
            )
        if answer.degraded and any(reason != LEVEL for _, reason in answer.degraded):
            tally.degraded += 1
        if not len(answer.ids):
            tally.empty += 1
        self._observe(outcome)
        self._ladder.saw(request.scene, pipeline.clock() - request.arrived, plan.budget)
        return answer

    def _observe(self, outcome: Outcome) -> None:
        observe = self._metrics.observe_step
        for record in outcome.records:
            observe(record.name, record.seconds, record.reason or ("missing" if record.missing else "ok"))
            if record.queued:
                self._lag.saw(record.queued, "pool")
        if outcome.bugs:
            self._metrics.internal_error("step")

    async def record(self, events: Sequence[WireEvent]) -> None:
        """Append events to the users' behaviour, all or none."""
        snapshot = self.snapshot
        declared = () if snapshot.config.features.behaviour is None else snapshot.config.features.behaviour.events
        latest = self._clock() + CLOCKS_DIFFER
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
        """State for people: what serves, what it waits for, exposures, the store."""
        snapshot = self.current.snapshot
        facts = {} if snapshot is None else snapshot.facts()
        return {
            **facts,
            "waiting_for": self.waiting_for,
            "exposures": {"written": self._exposures.written, "dropped": self._exposures.dropped},
            "store": self._store_status(),
        }

    def example_users(self) -> Sequence[str]:
        """A few users of the release that have a history, for people to try."""
        snapshot = self.current.snapshot
        return [] if snapshot is None else list(snapshot.loaded.manifest.about.get("example_users", ()))

    def config(self) -> Mapping[str, Any]:
        """The documents of the configuration that serves."""
        return dict(self.snapshot.config.documents)

    def rates(self) -> Mapping[str, Any]:
        """What became of the requests of the snapshot that serves: how a push is judged."""
        serving = self.current.serving
        return {"config": serving.snapshot.config_id, "release": serving.snapshot.release, **asdict(serving.tally)}

    def _live_undecoded(self) -> float:
        snapshot = self.current.snapshot
        return 0.0 if snapshot is None else float(sum(snapshot.store.undecoded.values()))

    def _displaced(self) -> float:
        snapshot = self.current.snapshot
        return 0.0 if snapshot is None else float(snapshot.behaviour.counts.displaced)

    def _undecoded(self) -> float:
        snapshot = self.current.snapshot
        return 0.0 if snapshot is None else float(snapshot.behaviour.counts.undecoded)
