"""How many units an experiment needs, and what it can see with those that it gets.

The normal approximation for two arms of unequal variance that `effect` tests by (van Belle 2008,
"Statistical Rules of Thumb", chapter 2, before its rounding).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from scipy import special

from abtest.analysis.anytime import TUNED_FOR
from abtest.analysis.anytime import critical as anytime_critical
from abtest.analysis.effect import cuped_gradient
from abtest.analysis.metrics import Metric
from abtest.analysis.moments import VALUE, Moments
from abtest.analysis.result import Result

_MOST: Final = 10**15
"""Where the search for a number of units ends."""


@dataclass(frozen=True, slots=True)
class Baseline(Result):
    """What is known of a metric before the experiment: its `mean`, and its `variance` per unit.

    A `binary` one has the variance mean * (1 - mean), also in the treatment, where the mean is another;
    any other keeps its variance. Raises ValueError for a mean of 0, a variance that isn't above 0, or a binary
    mean outside (0, 1).
    """

    mean: float
    variance: float
    binary: bool = False

    def __post_init__(self) -> None:
        if self.mean == 0 or not math.isfinite(self.mean) or not 0 < self.variance < math.inf:
            raise ValueError("a baseline needs a mean other than 0 and a variance above 0, both finite")
        if self.binary and not 0 < self.mean < 1:
            raise ValueError(f"the mean of a binary metric lies between 0 and 1, not at {self.mean}")


@dataclass(frozen=True, slots=True)
class Design(Result):
    """How the test will be run.

    `alpha` is two-sided and shared among `comparisons` (metrics x treatments that decide; Bonferroni, the
    cautious bound of the false discovery rate). `ratio` is treatment units per control unit. `anytime`
    plans for the anytime interval at the planned end: more units, and leave to stop earlier. `tuned_for` is
    what `compare` will be given, or its default. Raises ValueError for numbers out of range.
    """

    alpha: float = 0.05
    power: float = 0.8
    ratio: float = 1.0
    comparisons: int = 1
    anytime: bool = False
    tuned_for: float = TUNED_FOR

    def __post_init__(self) -> None:
        if not (0 < self.alpha < 1 and 0 < self.power < 1):
            raise ValueError("alpha and power lie between 0 and 1")
        if not (0 < self.ratio < math.inf and self.comparisons >= 1):
            raise ValueError("a design has a ratio above 0 and at least one comparison")
        if not 0 < self.tuned_for < math.inf:
            raise ValueError("a design is tuned for some units")

    def treatment(self, control: int) -> int:
        """Return how many units the treatment has where the control has `control`."""
        return math.ceil(control * self.ratio)

    def critical(self, control: int) -> float:
        """Return how many standard errors a difference must reach to be called one, with so many control units."""
        alpha = self.alpha / self.comparisons
        if self.anytime:
            return float(anytime_critical(control + self.treatment(control), alpha, self.tuned_for))
        return -float(special.ndtri(alpha / 2))

    def reach(self, control: int) -> float:
        """Return how many standard errors a true difference must be away from 0 to be found with `power`."""
        return max(self.critical(control) + float(special.ndtri(self.power)), 0.0)


@dataclass(frozen=True, slots=True)
class SampleSize(Result):
    """Units that are needed to see a `lift` (relative) or `difference` (absolute)."""

    control: int
    treatment: int
    lift: float
    difference: float


@dataclass(frozen=True, slots=True)
class Detectable(Result):
    """The least effect that `control` and `treatment` units show with the design's power."""

    control: int
    treatment: int
    lift: float
    difference: float


def binary(rate: float) -> Baseline:
    """Return the baseline of a metric that is 0 or 1 per unit; `rate` in (0, 1)."""
    return Baseline(rate, rate * (1 - rate), binary=True)


def baseline(metric: Metric) -> Baseline:
    """Return the baseline of units observed before: the ratio by the delta method, CUPED if it has a covariate.

    A metric without denominator whose values are all 0 or 1 is binary. Raises ValueError for a metric of mean 0,
    or without variance.
    """
    moments = Moments.of(metric.table())
    mean = float(moments.ratio(VALUE))
    gradient = cuped_gradient(moments, moments)
    rate = metric.denominator is None and metric.covariate is None
    is_binary = rate and bool(((metric.numerator == 0) | (metric.numerator == 1)).all()) and 0 < mean < 1
    variance = float(moments.covariance(gradient, gradient))
    if mean == 0 or not math.isfinite(mean):
        raise ValueError(f"metric {metric.name} can't be planned for: its mean is {mean:g}")
    if not 0 < variance < math.inf:
        raise ValueError(f"metric {metric.name} can't be planned for: it doesn't vary between units")
    return binary(mean) if is_binary else Baseline(mean, variance)


def sample_size(baseline: Baseline, lift: float, design: Design | None = None) -> SampleSize:
    """Return how many units show a relative `lift` (0.02 is +2%) with the design's power.

    Raises ValueError for a lift of 0, one that takes a binary metric out of [0, 1], or one so small that no
    number of units shows it.
    """
    design = design or Design()
    difference = lift * baseline.mean
    if difference == 0:
        raise ValueError("no number of units shows a lift of 0")
    deviation = math.sqrt(baseline.variance + _treated(baseline, difference) / design.ratio) / abs(difference)
    # Anytime, what a difference must reach depends on the units; still more units always show more.
    control = _least(lambda units: math.sqrt(units) >= design.reach(units) * deviation)
    if control > _MOST:
        raise ValueError(f"no number of units shows a lift of {lift:g}")
    return SampleSize(control, design.treatment(control), lift, difference)


def detectable(
    baseline: Baseline, control: int, design: Design | None = None, direction: Literal[1, -1] = 1
) -> Detectable:
    """Return the least rise (`direction` -1: fall) that `control` units, and the treatment's, show.

    NaN where not even the whole way to 0 or 1 of a binary metric would be seen. Raises ValueError for no
    units.
    """
    if control < 1:
        raise ValueError("a design needs units")
    design = design or Design()
    part = design.reach(control) ** 2 / control
    if baseline.binary:
        # d^2 = part (v + (p + d) (1 - p - d) / ratio), solved for d.
        a = 1 + part / design.ratio
        b = -part * (1 - 2 * baseline.mean) / design.ratio
        c = -part * baseline.variance * (1 + 1 / design.ratio)
        difference = (-b + direction * math.sqrt(b * b - 4 * a * c)) / (2 * a)
        if not 0 <= baseline.mean + difference <= 1:
            difference = math.nan
    else:
        difference = direction * math.sqrt(part * baseline.variance * (1 + 1 / design.ratio))
    return Detectable(control, design.treatment(control), difference / baseline.mean, difference)


def power(baseline: Baseline, lift: float, control: int, design: Design | None = None) -> float:
    """Return the probability that `control` units, and the treatment's, show a relative `lift`.

    The design's own `power` isn't used. Raises ValueError as `sample_size` and `detectable` do.
    """
    if control < 1:
        raise ValueError("a design needs units")
    design = design or Design()
    difference = lift * baseline.mean
    scale = math.sqrt((baseline.variance + _treated(baseline, difference) / design.ratio) / control)
    away = abs(difference) / scale
    critical = design.critical(control)
    return float(special.ndtr(away - critical) + special.ndtr(-away - critical))


def _least(enough: Callable[[int], bool]) -> int:
    """Return the least number from 1 on that is enough, as all greater ones are; one above `_MOST` if none is."""
    low, high = 0, 1
    while high <= _MOST and not enough(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _treated(baseline: Baseline, difference: float) -> float:
    """Return the variance per unit of the treatment."""
    if not baseline.binary:
        return baseline.variance
    mean = baseline.mean + difference
    if not 0 <= mean <= 1:
        raise ValueError(f"the lift takes a rate of {baseline.mean} to {mean}")
    return mean * (1 - mean)
