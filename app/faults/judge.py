"""Figures of a run's windows, and how long a service takes until it is well again."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.load.result import Result
from app.load.samples import Samples
from app.load.summary import Summary

OK = 200
WELL_SECONDS = 1.0


def window(result: Result, start: float, end: float, kind: str | None = None) -> Summary:
    """The requests that were meant for [start, end), seconds on the machine's monotonic clock."""
    return result.between(start - result.started, end - result.started, kind)


def document(summary: Summary) -> dict[str, Any]:
    """A window as printed. Times are milliseconds of served answers, from the intended send.

    n             requests
    availability  share answered with a list
    full          share of those lists that are of level 0 with nothing degraded
    empty         lists without an item
    shed          refused with 503 or 429
    errors        answers of 500 and more, and requests without an answer; what was shed is left out
    p50 p99 p999  quantiles; None without an answer
    """
    latency = summary.latency
    times = (latency.p50, latency.p99, latency.p999) if latency.count else (math.nan,) * 3
    return {
        "n": summary.sent,
        "availability": plain(summary.availability),
        "full": plain(summary.full_share),
        "empty": summary.empty,
        "shed": summary.shed,
        "errors": errors(summary),
        **{name: plain(seconds * 1000) for name, seconds in zip(("p50", "p99", "p999"), times, strict=True)},
    }


def errors(summary: Summary) -> int:
    """Requests that went wrong: no answer, or a 5xx that isn't a refusal."""
    codes = {code for code in summary.outcomes if not code.isdecimal() or int(code) >= 500} - {"503"}
    return sum(summary.outcomes[code] for code in codes)


def full(samples: Samples) -> NDArray[np.bool_]:
    """Which were answered with a list of level 0 with nothing degraded, bool[n]."""
    return np.asarray((samples.outcome == OK) & (samples.level == 0) & (samples.degraded == 0))


def recovery(result: Result, healed: float, budget: float) -> float | None:
    """Seconds from `healed` (monotonic) to the begin of the first second in which all is well.

    Well is an answer in time and of full quality; a second without a request counts for nothing. None when no such
    second is seen to its end.
    """
    samples, since = result.samples, healed - result.started
    after = samples.take(np.asarray(samples.due >= since))
    if not len(after):
        return None
    unwell = after.due[~(full(after) & (after.latency <= budget))]
    begins = np.concatenate(([since], np.nextafter(unwell, math.inf)))
    ends = np.concatenate((unwell, [np.nextafter(after.due[-1], math.inf)]))
    counts = np.searchsorted(after.due, ends) - np.searchsorted(after.due, begins)
    found = np.flatnonzero((ends - begins >= WELL_SECONDS) & (counts > 0))
    return float(begins[found[0]] - since) if len(found) else None


def plain(value: Any) -> Any:
    """A figure as JSON has it: four digits after the point, None for NaN."""
    if isinstance(value, (float, np.floating)):
        return None if math.isnan(value) else round(float(value), 4)
    return value
