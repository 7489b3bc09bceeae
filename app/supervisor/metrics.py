"""The metrics of many processes as one text: counters and histograms are summed, gauges told apart by worker."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from app.supervisor.messages import Family, Sample

SUMMED = frozenset({"counter", "histogram"})


def families_of(metrics: Iterable[Metric]) -> list[Family]:
    """Prometheus' families as messages."""
    return [
        Family(
            metric.name,
            metric.documentation,
            metric.type,
            [Sample(s.name, s.labels, s.value if math.isfinite(s.value) else None) for s in metric.samples],
        )
        for metric in metrics
    ]


class Sums:
    """Sums of counters and histograms by name and labels; other kinds are left out.

    Histograms of one name have the same bounds everywhere, so their cumulative buckets add up.
    """

    def __init__(self) -> None:
        self._families: dict[str, tuple[Family, dict[tuple[str, tuple[tuple[str, str], ...]], float]]] = {}

    def add(self, families: Iterable[Family]) -> None:
        """Add one process's figures."""
        for family in families:
            if family.kind not in SUMMED:
                continue
            _, cells = self._families.setdefault(family.name, (family, {}))
            for sample in family.samples:
                key = (sample.name, tuple(sample.labels.items()))
                cells[key] = cells.get(key, 0.0) + (sample.value or 0.0)

    def families(self) -> list[Family]:
        """The sums, families and samples in the order in which they came first."""
        return [
            Family(
                family.name,
                family.help,
                family.kind,
                [Sample(name, dict(labels), value) for (name, labels), value in cells.items()],
            )
            for family, cells in self._families.values()
        ]


def merged(gone: Sequence[Family], living: Iterable[tuple[str, Sequence[Family]]]) -> list[Family]:
    """`gone` (sums of processes that ended) and `living` (label, figures) as one list of families."""
    sums = Sums()
    sums.add(gone)
    gauges: dict[str, Family] = {}
    for label, families in living:
        sums.add(families)
        for family in families:
            if family.kind not in SUMMED:
                cell = gauges.setdefault(family.name, Family(family.name, family.help, family.kind, []))
                cell.samples.extend(Sample(s.name, {**s.labels, "worker": label}, s.value) for s in family.samples)
    return [*sums.families(), *gauges.values()]


def exposition(families: Iterable[Family]) -> bytes:
    """The Prometheus text format."""
    registry = CollectorRegistry()
    registry.register(_Ready(families))
    return generate_latest(registry)


class _Ready(Collector):
    def __init__(self, families: Iterable[Family]) -> None:
        self._families = families

    def describe(self) -> Iterator[Metric]:
        """Nothing: the registry would collect twice to find the names."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        for family in self._families:
            metric = Metric(family.name, family.help, family.kind)
            for sample in family.samples:
                metric.add_sample(sample.name, sample.labels, math.nan if sample.value is None else sample.value)
            yield metric
