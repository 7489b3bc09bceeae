"""A run's samples, or some of them, as the figures that people compare."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hdrh.histogram import HdrHistogram
from numpy.typing import NDArray

from app.load.samples import OUTCOMES, UNKNOWN_LEVEL, Samples

LATE_AFTER = 0.01
"""Seconds: a generator whose 99th percentile of lateness is above this was late, and its latencies are its own."""

_HIGHEST_US = 3_600_000_000
_DIGITS = 3
_PERCENTILES = (50.0, 90.0, 99.0, 99.9)


@dataclass(frozen=True)
class Latency:
    """Percentiles in seconds out of an HdrHistogram (microseconds, three digits); all 0 when nothing was recorded.

    `encoded` is the histogram in HdrHistogram's own V2 format, for other tools and for adding runs up.
    """

    count: int
    mean: float
    p50: float
    p90: float
    p99: float
    p999: float
    most: float
    encoded: str

    @classmethod
    def of(cls, seconds: NDArray[np.floating[Any]]) -> Latency:
        """Record latencies in seconds, f[n]."""
        histogram = HdrHistogram(1, _HIGHEST_US, _DIGITS)
        micros = np.clip(np.rint(seconds * 1e6), 1, _HIGHEST_US).astype(np.int64)
        for value, count in zip(*np.unique(micros, return_counts=True), strict=True):
            histogram.record_value(int(value), int(count))
        found = histogram.get_percentile_to_value_dict(list(_PERCENTILES)) if len(micros) else {}
        p50, p90, p99, p999 = (found.get(percentile, 0) / 1e6 for percentile in _PERCENTILES)
        most = int(micros.max()) / 1e6 if len(micros) else 0.0
        mean = float(micros.mean()) / 1e6 if len(micros) else 0.0
        return cls(len(micros), mean, p50, p90, p99, p999, most, histogram.encode().decode())

    def as_json(self) -> dict[str, Any]:
        """Milliseconds, for people and programs."""
        names = {"mean": self.mean, "p50": self.p50, "p90": self.p90, "p99": self.p99, "p999": self.p999}
        figures = {name: round(value * 1e3, 3) for name, value in names.items()}
        return {"count": self.count, **figures, "max": round(self.most * 1e3, 3), "hdr": self.encoded}


@dataclass(frozen=True)
class Summary:
    """Requests whose intended time lies in a stretch of `seconds`.

    `served`: answered with 2xx. `good`: served within their class's budget. `full`: served at level 0 with nothing
    degraded. `empty`: served without an item. `shed`: answered 429 or 503. `outcomes` counts by status or by name
    (`timeout`, `reset`, ...); `levels` counts served answers that have a level. `latency` is of the served, from
    the intended time. `late_p99`, `late_most`: the generator's own lateness in seconds.
    """

    seconds: float
    sent: int
    answered: int
    served: int
    good: int
    full: int
    empty: int
    shed: int
    outcomes: Mapping[str, int]
    levels: Mapping[int, int]
    latency: Latency
    late_p99: float
    late_most: float

    @classmethod
    def of(cls, samples: Samples, budgets: Sequence[float], seconds: float) -> Summary:
        """Sum up. `budgets` in seconds, one for each class."""
        served = (samples.outcome >= 200) & (samples.outcome < 300)
        in_time = samples.latency <= np.asarray(budgets, np.float64)[samples.kind]
        outcomes = Counter(samples.outcome.tolist())
        levels = Counter(samples.level[served].tolist())
        levels.pop(UNKNOWN_LEVEL, None)
        late = samples.late[~np.isnan(samples.late)]
        return cls(
            seconds=seconds,
            sent=len(samples),
            answered=int((samples.outcome > 0).sum()),
            served=int(served.sum()),
            good=int((served & in_time).sum()),
            full=int((served & (samples.level <= 0) & (samples.degraded == 0)).sum()),
            empty=int((served & (samples.empty == 1)).sum()),
            shed=outcomes[429] + outcomes[503],
            outcomes={OUTCOMES.get(key, str(key)): count for key, count in sorted(outcomes.items())},
            levels=dict(sorted(levels.items())),
            latency=Latency.of(samples.latency[served]),
            late_p99=float(np.quantile(late, 0.99)) if len(late) else 0.0,
            late_most=float(late.max()) if len(late) else 0.0,
        )

    @property
    def late(self) -> bool:
        """Whether the generator was too late for its latencies to be the server's."""
        return self.late_p99 > LATE_AFTER

    @property
    def failed(self) -> int:
        """Requests that were neither served nor refused with 429 or 503."""
        return self.sent - self.served - self.shed

    @property
    def availability(self) -> float:
        """The served share of all that were sent; 1 when none was."""
        return self.served / self.sent if self.sent else 1.0

    @property
    def goodput(self) -> float:
        """Good answers per second."""
        return self.good / self.seconds if self.seconds else 0.0

    @property
    def full_share(self) -> float:
        """The share of full-quality answers among the served; 1 when none was served."""
        return self.full / self.served if self.served else 1.0

    def as_json(self) -> dict[str, Any]:
        """Counts, rates per second, shares, milliseconds."""
        return {
            "seconds": round(self.seconds, 3),
            "sent": self.sent,
            "answered": self.answered,
            "served": self.served,
            "good": self.good,
            "full": self.full,
            "empty": self.empty,
            "shed": self.shed,
            "failed": self.failed,
            "rate": round(self.sent / self.seconds, 3) if self.seconds else 0.0,
            "goodput": round(self.goodput, 3),
            "availability": round(self.availability, 6),
            "full_share": round(self.full_share, 6),
            "outcomes": dict(self.outcomes),
            "levels": {str(level): count for level, count in self.levels.items()},
            "latency_ms": self.latency.as_json(),
            "generator": {
                "late": self.late,
                "p99_ms": round(self.late_p99 * 1e3, 3),
                "max_ms": round(self.late_most * 1e3, 3),
            },
        }
