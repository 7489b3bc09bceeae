"""Sample-ratio mismatch: do the buckets hold the shares that the weights promise?

If not, units went missing in one bucket more than in another, and no comparison can be trusted (Fabijan
et al. 2019, "Diagnosing Sample Ratio Mismatch in Online Controlled Experiments", which is also where the
chi-square test and the strict threshold come from). Units are counted once, at their first exposure.

The threshold is that of a family of tests: all units, all days, all values of an attribute. A sound experiment raises
an alarm in one of 2,000 looks for each of them, so overall and by day in one of 1,000. Looking again is another chance:
who tests all units daily for a month sees an alarm in one of 200 sound experiments.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from abtest.analysis.chisquare import goodness_of_fit
from abtest.analysis.columns import NOTHING, Attribute, Codes, Exposures
from abtest.analysis.metrics import Enrolment, enrol
from abtest.analysis.result import Result

THRESHOLD: Final = 0.0005
"""The p below which the split is held to be broken: one false alarm in 2,000 sound experiments, per family and look."""


@dataclass(frozen=True, slots=True)
class SampleRatio(Result):
    """One test: the counts of each bucket in one group of units, against the weights.

    `family` is `overall`, `day` or an attribute, `group` its value ("" overall). `p` is NaN where too few
    units were expected in a bucket. `adjusted_p` is p times the number of tested groups of the family
    (Bonferroni), so that many days raise no more false alarms than one; `mismatch` says that it lies below
    the threshold. `exact` says that p comes from binomial tests, as with uneven weights and few units, instead
    of from `chi_square`.
    """

    family: str
    group: str
    counts: tuple[int, ...]
    expected: tuple[float, ...]
    chi_square: float
    df: int
    p: float
    adjusted_p: float
    mismatch: bool
    exact: bool = False


@dataclass(frozen=True, slots=True)
class SrmReport(Result):
    """Every test of one experiment; `crossed` units were in two buckets or more and count in none."""

    buckets: tuple[str, ...]
    threshold: float
    units: int
    crossed: int
    overall: SampleRatio
    groups: tuple[SampleRatio, ...]

    @property
    def mismatch(self) -> bool:
        """Whether any test found other shares than the weights promise."""
        return self.overall.mismatch or any(group.mismatch for group in self.groups)

    @property
    def sound(self) -> bool:
        """Whether there is neither a mismatch nor a unit in two buckets."""
        return not self.mismatch and self.crossed == 0

    def as_json(self) -> dict[str, object]:
        """Return plain data, with `mismatch` and `sound`."""
        return {**super(SrmReport, self).as_json(), "mismatch": self.mismatch, "sound": self.sound}


def check_srm(exposures: Exposures | Enrolment, weights: Sequence[float], threshold: float = THRESHOLD) -> SrmReport:
    """Test the split overall, by day of first exposure and by each attribute.

    `weights` follow `exposures.buckets` (any scale). Raises ValueError for as many weights as there
    aren't buckets, or weights that `goodness_of_fit` refuses.
    """
    enrolment = enrol(exposures) if isinstance(exposures, Exposures) else exposures
    buckets = enrolment.buckets
    if len(weights) != len(buckets):
        raise ValueError(f"{len(weights)} weights for {len(buckets)} buckets")
    counts = np.bincount(enrolment.bucket, minlength=len(buckets))[np.newaxis]
    (overall,) = _tests("overall", ("",), counts, weights, threshold)
    columns: dict[str, Attribute] = dict(enrolment.attributes)
    if enrolment.day is not None:
        columns = {"day": enrolment.day, **columns}
    groups = [
        test
        for family, column in columns.items()
        for test in _tests(
            family, (NOTHING, *column.values), _table(column, enrolment.bucket, len(buckets)), weights, threshold
        )
        if any(test.counts)
    ]
    return SrmReport(buckets, threshold, len(enrolment), len(enrolment.crossed), overall, tuple(groups))


def _table(column: Attribute, bucket: Codes, buckets: int) -> npt.NDArray[np.int64]:
    """Return i64[values + 1, buckets]; the first line counts the rows without value."""
    lines = len(column.values) + 1
    return np.bincount((column.codes + 1) * buckets + bucket, minlength=lines * buckets).reshape(lines, buckets)


def _tests(
    family: str,
    groups: Sequence[str],
    counts: npt.NDArray[np.int64],
    weights: Sequence[float],
    threshold: float,
) -> Iterator[SampleRatio]:
    fit = goodness_of_fit(counts, weights)
    tested = max(int(np.isfinite(fit.p).sum()), 1)
    shares = np.asarray(weights, np.float64) / np.sum(weights)
    for group, line, statistic, p, exact in zip(groups, counts, fit.statistic, fit.p, fit.exact, strict=True):
        adjusted = float(np.minimum(p * tested, 1.0))
        yield SampleRatio(
            family,
            group,
            tuple(line.tolist()),
            tuple((line.sum() * shares).tolist()),
            float(statistic),
            fit.df,
            float(p),
            adjusted,
            adjusted < threshold,
            bool(exact),
        )
