"""The operator's hand on the service: what its listener shows and does, over all workers."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from app.observe import Metrics
from app.push.pusher import Pusher
from app.supervisor.fleet import Fleet
from app.supervisor.handle import WorkerHandle
from app.supervisor.metrics import exposition, families_of, merged

SUPERVISOR = "supervisor"
"""The label `worker` of the supervisor's own gauges."""


class Control:
    """Implements `app.ports.Operator` over the fleet and its pushes. `metrics` are the supervisor's own."""

    def __init__(self, fleet: Fleet, pusher: Pusher, metrics: Metrics) -> None:
        self.draining = False
        self._fleet = fleet
        self._pusher = pusher
        self._metrics = metrics
        metrics.counters("pushes", "Pushes of configurations and releases.", "outcome", lambda: pusher.outcomes)

    def workers(self) -> tuple[int, int]:
        """How many workers serve, and how many there should be."""
        return len(self._fleet.workers), self._fleet.wanted

    def waiting_for(self) -> Sequence[str]:
        """Why no worker serves."""
        if self.draining:
            return ["draining: the service was told to stop"]
        return [] if self._fleet.workers else ["a worker to be ready"]

    async def metrics(self) -> bytes:
        """All processes' figures."""
        gone, living = await self._fleet.figures()
        families = merged(gone, [*living, (SUPERVISOR, self._metrics.families())])
        return exposition([*families_of(self._about_workers()), *families])

    async def status(self) -> Mapping[str, Any]:
        """What serves, as the first worker tells it, and every worker's own state."""
        told = dict(await self._fleet.ask("status"))
        first = next(iter(told.values()), {})
        return {
            **first,
            "waiting_for": self.waiting_for(),
            "exposures": _summed([reply.get("exposures", {}) for reply in told.values()]),
            "last_reload": self._pusher.last,
            "push": self._pusher.status(),
            "restarts": dict(self._fleet.restarts),
            "workers": [self._state(worker, told.get(worker, {})) for worker in self._fleet.living],
        }

    async def config(self) -> Mapping[str, Any]:
        """The documents of the configuration that serves."""
        return next((reply for _, reply in await self._fleet.ask("config")), {})

    async def reload(self) -> Sequence[str]:
        """Push what lies on disk."""
        return await self._pusher.push()

    async def rollback(self) -> Sequence[str]:
        """Every worker goes back to what was committed before."""
        return await self._pusher.rollback()

    def _state(self, worker: WorkerHandle, told: Mapping[str, Any]) -> dict[str, Any]:
        beat = worker.beat
        return {
            "slot": worker.slot,
            "pid": worker.pid,
            "ready": worker.ready,
            "ending": worker.ending,
            "seconds": round(asyncio.get_running_loop().time() - worker.started, 3),
            "rss": beat.rss,
            "own": beat.own,
            "lag": beat.lag,
            "in_flight": beat.in_flight,
            "connections": beat.connections,
            "tasks": beat.tasks,
            "descriptors": beat.fds,
            "threads": beat.threads,
            **told,
        }

    def _about_workers(self) -> Iterator[Metric]:
        fleet = self._fleet
        ready = len(fleet.workers)
        count = GaugeMetricFamily("recserve_workers", "Worker processes.", labels=("state",))
        count.add_metric(("ready",), ready)
        count.add_metric(("other",), len(fleet.living) - ready)
        yield count
        yield GaugeMetricFamily("recserve_workers_wanted", "Workers that there should be.", value=fleet.wanted)
        restarts = CounterMetricFamily("recserve_worker_restarts", "Workers started again.", labels=("reason",))
        for reason, times in fleet.restarts.items():
            restarts.add_metric((reason,), times)
        yield restarts
        for name, help_text, read in _VITALS:
            family = GaugeMetricFamily(name, help_text, labels=("worker",))
            for worker in fleet.living:
                family.add_metric((str(worker.slot),), read(worker))
            yield family


def _summed(counts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for one in counts:
        total.update(one)
    return dict(total)


_VITALS: Sequence[tuple[str, str, Callable[[WorkerHandle], float]]] = (
    ("recserve_worker_rss_bytes", "Resident memory, mapped release files included.", lambda one: one.beat.rss),
    ("recserve_worker_own_bytes", "Resident memory without mapped files: the ceiling's.", lambda one: one.beat.own),
    ("recserve_worker_descriptors", "Open file descriptors.", lambda one: one.beat.fds),
    ("recserve_worker_tasks", "Tasks of the event loop.", lambda one: one.beat.tasks),
    ("recserve_worker_threads", "Threads that Python knows of.", lambda one: one.beat.threads),
    ("recserve_loop_lag_seconds", "The event loop's worst lateness of late.", lambda one: one.beat.lag),
)
