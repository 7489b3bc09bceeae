"""A/A: the same units split at random again and again, where every difference is a false one.

If a metric's test is sound, 5% of the splits have p < 0.05 and the p-values are uniform. If not, its
intervals are wrong on these data: outliers, too few units, or rows that aren't the randomised units (Kohavi,
Tang and Xu 2020, "Trustworthy Online Controlled Experiments", chapter 19).
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy import special

from abtest.analysis.chisquare import ENOUGH
from abtest.analysis.columns import Floats
from abtest.analysis.effect import effect
from abtest.analysis.metrics import Metric
from abtest.analysis.moments import Moments
from abtest.analysis.result import Result

TOO_MANY: Final = "too many false positives"
"""More splits than `alpha` have p < `alpha`: intervals are too narrow."""
TOO_FEW: Final = "too few false positives"
"""Fewer splits have: intervals are too wide, and effects are missed."""
NOT_UNIFORM: Final = "p-values not uniform"
"""At other levels than `alpha` there are too many or too few."""
NO_P: Final = "no p-values"
"""The metric doesn't vary."""

_CHUNK = 8_000_000
_COLUMNS = 4
_FEW_VALUES = 10


@dataclass(frozen=True, slots=True)
class AaReport(Result):
    """What the splits of one metric gave.

    `false_positives` is the share with p < `alpha`, `low` and `high` its exact 99% interval (Clopper and
    Pearson 1934); `uniformity_p` is that of Kolmogorov and Smirnov for the p-values being uniform.
    `histogram` counts them in 20 equal classes. `undefined` splits had no p and count nowhere else.
    `share` is the probability of the treatment. `discrete` says that units differ in a few values only, as in a
    conversion, so that p-values come in steps: the larger, the rarer the metric.
    """

    metric: str
    units: int
    splits: int
    undefined: int
    alpha: float
    false_positives: float
    low: float
    high: float
    uniformity_p: float
    histogram: tuple[int, ...]
    share: float
    discrete: bool

    @property
    def failed(self) -> tuple[str, ...]:
        """What isn't as it should be: `alpha` outside the interval, p-values that aren't uniform (p < 0.001), or none.

        Steps aren't uniform, and may leave out `alpha`, without anything being wrong: a discrete metric only
        fails by too many false positives.
        """
        if np.isnan(self.false_positives):
            return (NO_P,)
        if self.low > self.alpha:
            return (TOO_MANY, NOT_UNIFORM) if self.uniformity_p < 0.001 else (TOO_MANY,)
        if self.discrete:
            return ()
        signs = {TOO_FEW: self.high < self.alpha, NOT_UNIFORM: self.uniformity_p < 0.001}
        return tuple(name for name, found in signs.items() if found)

    @property
    def sound(self) -> bool:
        """Whether nothing `failed`."""
        return not self.failed

    def as_json(self) -> dict[str, object]:
        """Return plain data, with `failed` and `sound`."""
        return {**super(AaReport, self).as_json(), "failed": list(self.failed), "sound": self.sound}


def check_aa(
    metric: Metric, rng: np.random.Generator, splits: int = 1_000, share: float = 0.5, alpha: float = 0.05
) -> AaReport:
    """Split the metric's units `splits` times, each unit into the treatment with probability `share`.

    O(units * splits), without keeping the splits. Raises ValueError for fewer than 4 units or 1 split.
    """
    if len(metric) < 4 or splits < 1 or not 0 < share < 1:
        raise ValueError("A/A needs 4 units, a split and a share between 0 and 1")
    p = split_p_values(metric, rng, splits, share)
    p = np.sort(p[~np.isnan(p)])
    defined = len(p)
    hits = int((p < alpha).sum())
    low, high = exact_interval(hits, defined, 0.99)
    return AaReport(
        metric.name,
        len(metric),
        splits,
        splits - defined,
        alpha,
        hits / defined if defined else np.nan,
        low,
        high,
        uniformity(p),
        tuple(np.histogram(p, bins=20, range=(0.0, 1.0))[0].tolist()),
        share,
        _discrete(metric, share),
    )


def _discrete(metric: Metric, share: float) -> bool:
    """Say whether units have few values, and the smaller arm enough units that don't have the most frequent one.

    With fewer a single unit decides about each p, which is no test at all.
    """
    values, counts = np.unique(metric.table(), axis=0, return_counts=True)
    others = len(metric) - counts.max()
    return len(values) <= _FEW_VALUES and bool(others * min(share, 1 - share) >= ENOUGH)


def split_p_values(metric: Metric, rng: np.random.Generator, splits: int, share: float) -> Floats:
    """Return the p-values f64[splits] of random splits of the metric's units."""
    table = metric.table()
    centre = table.mean(0)
    away = table - centre
    upper = np.triu_indices(_COLUMNS)
    features = np.column_stack([np.ones(len(table)), away, away[:, upper[0]] * away[:, upper[1]]])
    totals = features.sum(0)
    values = []
    left = splits
    while left:
        size = min(left, max(_CHUNK // len(table), 1))
        treated = (rng.random((size, len(table)), np.float32) < share).astype(np.float64) @ features
        values.append(effect(_moments(totals - treated, centre), _moments(treated, centre)).p)
        left -= size
    return np.concatenate(values)


def exact_interval(hits: int, trials: int, level: float) -> tuple[float, float]:
    """Return the interval of a binomial share by Clopper and Pearson."""
    tail = (1 - level) / 2
    low = float(special.betaincinv(hits, trials - hits + 1, tail)) if hits else 0.0
    high = float(special.betaincinv(hits + 1, trials - hits, 1 - tail)) if hits < trials else 1.0
    return low, high


def uniformity(ascending: Floats) -> float:
    """Return the p of Kolmogorov and Smirnov for sorted values f64[k] being uniform on [0, 1].

    With the correction for finite k of Stephens 1970, "Use of the Kolmogorov-Smirnov, Cramer-von Mises and
    Related Statistics Without Extensive Tables", table 1A. NaN without values.
    """
    count = len(ascending)
    if count == 0:
        return np.nan
    steps = np.arange(count + 1) / count
    distance = max((steps[1:] - ascending).max(), (ascending - steps[:-1]).max())
    root = np.sqrt(count)
    return float(special.kolmogorov((root + 0.12 + 0.11 / root) * distance))


def _moments(sums: Floats, centre: Floats) -> Moments:
    """Return moments from sums f64[k, 15]: count, centred columns, their products."""
    count = sums[:, 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        away = sums[:, 1 : 1 + _COLUMNS] / count[:, np.newaxis]
        products = np.empty((len(sums), _COLUMNS, _COLUMNS))
        row, column = np.triu_indices(_COLUMNS)
        products[:, row, column] = products[:, column, row] = sums[:, 1 + _COLUMNS :]
        scatter = products - count[:, np.newaxis, np.newaxis] * away[:, :, np.newaxis] * away[:, np.newaxis, :]
        degrees = np.where(count > 1, count - 1, np.nan)
        return Moments(count, centre + away, scatter / degrees[:, np.newaxis, np.newaxis])
