"""All metrics of an experiment, every arm against the control, with one word for each."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from abtest.analysis import multiple
from abtest.analysis.anytime import TUNED_FOR
from abtest.analysis.columns import Codes, check_codes, check_length
from abtest.analysis.effect import Bounds, Effect, effect
from abtest.analysis.metrics import Goal, Metric
from abtest.analysis.moments import Moments
from abtest.analysis.result import Result

BETTER: Final = "better"
"""The metric moved towards its goal."""
WORSE: Final = "worse"
"""The metric moved away from its goal."""
HIGHER: Final = "higher"
"""A metric without a goal rose."""
LOWER: Final = "lower"
"""A metric without a goal fell."""
NO_DIFFERENCE: Final = "no detectable difference"
"""Not proof of no effect: see how wide the interval is."""
TOO_LITTLE: Final = "too little data"
"""An arm has fewer than two units, or no variance."""

_WORDS: Final = {"increase": (BETTER, WORSE), "decrease": (WORSE, BETTER), "none": (HIGHER, LOWER)}


@dataclass(frozen=True, slots=True)
class Interval(Result):
    """A confidence interval; its level is that of the analysis."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Arm(Result):
    """One bucket in one metric: how many units, and the value (adjusted where there is a covariate)."""

    bucket: str
    units: int
    value: float


@dataclass(frozen=True, slots=True)
class Comparison(Result):
    """One metric of one treatment against the control; see `Effect` for the numbers.

    `adjusted_p` comes from Benjamini and Hochberg over all comparisons of the analysis, from the anytime p
    where the analysis is one for peeking; `verdict` follows from it, and from the sign of the difference. There
    is a lift only where the control is clearly above 0; else it and its intervals are NaN. `variance_reduction` is
    CUPED's in these two arms, 0 without a covariate, None where there is no variance to reduce.
    """

    metric: str
    goal: Goal
    control: Arm
    treatment: Arm
    difference: float
    difference_interval: Interval
    lift: float
    lift_interval: Interval
    statistic: float
    p: float
    anytime_difference_interval: Interval
    anytime_lift_interval: Interval
    anytime_p: float
    variance_reduction: float | None
    adjusted_p: float = np.nan
    verdict: str = TOO_LITTLE


@dataclass(frozen=True, slots=True)
class Analysis(Result):
    """All comparisons, metric by metric and within one arm by arm; `alpha` is also the false discovery rate."""

    control: str
    alpha: float
    peeking: bool
    comparisons: tuple[Comparison, ...]


def compare(
    bucket: Codes,
    buckets: Sequence[str],
    metrics: Sequence[Metric],
    control: str,
    *,
    alpha: float = 0.05,
    peeking: bool = False,
    tuned_for: float = TUNED_FOR,
) -> Analysis:
    """Compare every other bucket with `control` in every metric.

    `bucket` i64[m] holds each unit's code into `buckets` (see `enrol`), each metric a value for each unit.
    With `peeking` the verdicts rest on the anytime p-values: right while the experiment runs and is looked
    at. Without, they are right once, at the end that was planned. `tuned_for`: see `effect`. Check the
    sample ratio first: this function doesn't. Raises ValueError for an unknown control, a code out of range
    or a metric of another length.
    """
    if control not in buckets:
        raise ValueError(f"{control} is none of the buckets: {', '.join(buckets)}")
    check_codes("bucket", bucket, len(buckets))
    rows = [np.flatnonzero(bucket == code) for code in range(len(buckets))]
    base = list(buckets).index(control)
    comparisons = []
    for metric in metrics:
        check_length(f"of metric {metric.name}", len(metric), len(bucket))
        table = metric.table()
        everyone = Moments.of(table)
        arms = [Moments.of(table[each]) for each in rows]
        for code, name in enumerate(buckets):
            if code != base:
                found = effect(arms[base], arms[code], alpha, tuned_for, everyone)
                units = (len(rows[base]), len(rows[code]))
                comparisons.append(_comparison(metric, (control, name), units, found))
    deciding = [each.anytime_p if peeking else each.p for each in comparisons]
    adjusted = multiple.adjusted(np.asarray(deciding, np.float64))
    judged = tuple(
        replace(each, adjusted_p=float(p), verdict=_verdict(each, float(p), alpha))
        for each, p in zip(comparisons, adjusted, strict=True)
    )
    return Analysis(control, alpha, peeking, judged)


def _comparison(metric: Metric, names: tuple[str, str], units: tuple[int, int], found: Effect) -> Comparison:
    return Comparison(
        metric=metric.name,
        goal=metric.goal,
        control=Arm(names[0], units[0], float(found.control)),
        treatment=Arm(names[1], units[1], float(found.treatment)),
        difference=float(found.difference),
        difference_interval=_interval(found.difference_bounds),
        lift=float(found.lift),
        lift_interval=_interval(found.lift_bounds),
        statistic=float(found.statistic),
        p=float(found.p),
        anytime_difference_interval=_interval(found.anytime_difference_bounds),
        anytime_lift_interval=_interval(found.anytime_lift_bounds),
        anytime_p=float(found.anytime_p),
        variance_reduction=float(found.reduction) if np.isfinite(found.reduction) else None,
    )


def _interval(bounds: Bounds) -> Interval:
    return Interval(float(bounds.low), float(bounds.high))


def _verdict(comparison: Comparison, adjusted_p: float, alpha: float) -> str:
    if np.isnan(adjusted_p):
        return TOO_LITTLE
    if not adjusted_p < alpha:
        return NO_DIFFERENCE
    rose, fell = _WORDS[comparison.goal]
    return rose if comparison.difference > 0 else fell
