"""Metrics: plain Python cells on the hot path, turned into Prometheus families when scraped.

prometheus_client's own histogram costs several microseconds per observation (labels, a lock); a cell costs
one dictionary look-up, a bisection and three additions. Cells belong to the event loop: observe from there.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from app.supervisor.messages import Family
from app.supervisor.metrics import families_of
from stages.types import Answer

REQUEST_BOUNDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0, 2.5)
STEP_BOUNDS = (0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Histogram:
    """Counts per bucket, and the sum, of durations in seconds."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, seconds: float) -> None:
        """Count one duration."""
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.total += seconds

    def buckets(self) -> list[tuple[str, float]]:
        """Cumulative counts by upper bound, as Prometheus has them."""
        total, cumulative = 0, []
        for bound, count in zip((*map(str, self.bounds), "+Inf"), self.counts, strict=True):
            total += count
            cumulative.append((bound, float(total)))
        return cumulative


class Metrics(Collector):
    """All of one process's metrics, with a registry of their own.

    Labels come from closed sets (routes, step names, reasons): never pass user input as a label.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.internal_errors: Counter[str] = Counter()
        self.disconnects = 0
        self._requests: dict[tuple[str, int], int] = {}
        self._latency: dict[str, Histogram] = {}
        self._steps: dict[str, Histogram] = {}
        self._outcomes: dict[tuple[str, str], int] = {}
        self._degraded: Counter[tuple[str, str]] = Counter()
        self._short: Counter[tuple[str, str]] = Counter()
        self._levels: dict[tuple[str, int], int] = {}
        self._gauges: list[tuple[str, str, Callable[[], float]]] = []
        self._counters: list[tuple[str, str, Callable[[], float]]] = []
        self._labelled: list[tuple[str, str, str, Callable[[], Mapping[str, float]]]] = []
        self.registry.register(self)
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)

    def observe_request(self, route: str, status: int, seconds: float) -> None:
        """Count an answered request. `route` is a route's pattern, `other` for no route."""
        key = (route, status)
        self._requests[key] = self._requests.get(key, 0) + 1
        cell = self._latency.get(route)
        if cell is None:
            cell = self._latency[route] = Histogram(REQUEST_BOUNDS)
        cell.observe(seconds)

    def observe_step(self, name: str, seconds: float, outcome: str) -> None:
        """Count one run of a step (`recall.vector`) and its outcome (`ok`, or a reason). About 0.4 us."""
        cell = self._steps.get(name)
        if cell is None:
            cell = self._steps[name] = Histogram(STEP_BOUNDS)
        cell.counts[bisect_left(STEP_BOUNDS, seconds)] += 1
        cell.total += seconds
        key = (name, outcome)
        self._outcomes[key] = self._outcomes.get(key, 0) + 1

    def answered(self, answer: Answer) -> None:
        """Count an answer, its level, and what it gave up."""
        key = (answer.scene, answer.level)
        self._levels[key] = self._levels.get(key, 0) + 1
        for pair in answer.degraded:
            self._degraded[pair] += 1
        if answer.short is not None:
            self._short[answer.scene, answer.short] += 1

    def internal_error(self, where: str) -> None:
        """Count one of our own bugs. Alerts hang on this counter; it has no other use."""
        self.internal_errors[where] += 1

    def gauge(self, name: str, help_text: str, read: Callable[[], float]) -> None:
        """Expose `recserve_<name>`, read when scraped."""
        self._gauges.append((f"recserve_{name}", help_text, read))

    def counter(self, name: str, help_text: str, read: Callable[[], float]) -> None:
        """Expose `recserve_<name>_total`, a count kept elsewhere, read when scraped."""
        self._counters.append((f"recserve_{name}", help_text, read))

    def counters(self, name: str, help_text: str, label: str, read: Callable[[], Mapping[str, float]]) -> None:
        """Expose `recserve_<name>_total` by the values of `label`, counts kept elsewhere, read when scraped."""
        self._labelled.append((f"recserve_{name}", help_text, label, read))

    def exposition(self) -> bytes:
        """The Prometheus text format."""
        return generate_latest(self.registry)

    def families(self) -> list[Family]:
        """The figures as a message to another process."""
        return families_of(self.registry.collect())

    def collect(self) -> Iterator[Metric]:
        """Build the metric families (called by the registry)."""
        requests = ((key, float(count)) for key, count in self._requests.items())
        yield _counts(
            "recserve_requests",
            "Answered requests.",
            ("route", "status"),
            (((route, str(status)), count) for (route, status), count in requests),
        )
        yield _histograms("recserve_request_seconds", "From arrival to the last byte.", "route", self._latency)
        yield _histograms("recserve_step_seconds", "Run time of a step.", "step", self._steps)
        outcomes = self._outcomes.items()
        yield _counts("recserve_steps", "Runs of a step by outcome.", ("step", "outcome"), outcomes)
        degraded = self._degraded.items()
        yield _counts("recserve_degraded", "Steps that answers name as degraded.", ("step", "reason"), degraded)
        short = self._short.items()
        yield _counts("recserve_short_answers", "Answers with fewer items than asked.", ("scene", "reason"), short)
        levels = (((scene, str(level)), float(count)) for (scene, level), count in self._levels.items())
        yield _counts("recserve_answers", "Answers by the ladder's level.", ("scene", "level"), levels)
        bugs = [((where,), count) for where, count in self.internal_errors.items()]
        yield _counts("recserve_internal_errors", "Bugs of the service itself. Alert on any.", ("where",), bugs)
        gone = [((), self.disconnects)]
        yield _counts("recserve_client_disconnects", "Clients gone before their answer.", (), gone)
        for name, help_text, read in self._gauges:
            yield GaugeMetricFamily(name, help_text, value=read())
        for name, help_text, read in self._counters:
            yield CounterMetricFamily(name, help_text, value=read())
        for name, help_text, label, read_all in self._labelled:
            yield _counts(name, help_text, (label,), (((value,), count) for value, count in read_all().items()))


def _counts(
    name: str, help_text: str, labels: Sequence[str], cells: Iterable[tuple[Sequence[str], float]]
) -> CounterMetricFamily:
    family = CounterMetricFamily(name, help_text, labels=labels)
    for values, count in cells:
        family.add_metric(values, count)
    return family


def _histograms(name: str, help_text: str, label: str, cells: dict[str, Histogram]) -> HistogramMetricFamily:
    family = HistogramMetricFamily(name, help_text, labels=(label,))
    for value, cell in cells.items():
        family.add_metric((value,), cell.buckets(), cell.total)
    return family
