"""Pearson's chi-square: goodness of fit over many samples at once, and association of two codings."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special

from abtest.analysis.columns import Codes, Floats

ENOUGH: Final = 5.0
"""The least expected count of a cell at which the chi-square distribution is trusted (Cochran 1954)."""

PLENTY: Final = 100.0
"""The least expected count of a cell at which it is trusted in its far tail too, where the shares aren't equal.

Counts of a rare cell are skewed: over 14 days with shares of 10:90, p below 0.0005 / 14 comes eight times as often as
it should where 5 units are expected, three times with 10, twice with 25, and 1.1 times with 100.
"""


class Fit(NamedTuple):
    """`statistic` and `p` are f64[...], one per sample; NaN where an expected count is below `ENOUGH`.

    `exact` bool[...] says where p is that of binomial tests, not of the statistic.
    """

    statistic: Floats
    p: Floats
    df: int
    exact: npt.NDArray[np.bool_]


def goodness_of_fit(counts: npt.NDArray[np.int64], weights: Sequence[float]) -> Fit:
    """Compare counts i64[..., k] with the k shares that are proportional to `weights`.

    By the chi-square test; by exact binomial tests where the shares aren't equal and a cell expects fewer than
    `PLENTY`. A cell of zero weight has no part in the test, but a count in it refutes the shares: p is 0 there.
    Raises ValueError for negative weights, or where none is positive.
    """
    shares = np.asarray(weights, np.float64)
    if not np.all(shares >= 0) or not shares.sum() > 0:
        raise ValueError("weights are at least 0, and one is above")
    served = shares > 0
    strays = counts[..., ~served].any(-1)
    shares, counts = shares[served] / shares.sum(), counts[..., served]
    expected = counts.sum(-1, keepdims=True) * shares
    with np.errstate(divide="ignore", invalid="ignore"):
        statistic = ((counts - expected) ** 2 / expected).sum(-1)
    df = len(shares) - 1
    least = expected.min(-1)
    statistic = np.where(least < ENOUGH, np.nan, statistic)
    statistic = np.where(strays, np.inf, statistic)
    exact = np.isfinite(statistic) & (least < PLENTY) & (not np.allclose(shares, shares[0]))
    p = chi_square_tail(df, statistic)
    return Fit(statistic, np.where(exact, _binomial(counts, shares), p) if exact.any() else p, df, exact)


def _binomial(counts: npt.NDArray[np.int64], shares: Floats) -> Floats:
    """Return p f64[...] of each cell's count against all others: twice the smaller tail, of the least likely cell.

    Never below its level more often than it says: each cell's count is binomial, and more than two cells pay for their
    number (Bonferroni). Two cells have one count between them.
    """
    total = counts.sum(-1, keepdims=True)
    tail = np.minimum(special.bdtr(counts, total, shares), special.bdtrc(counts - 1, total, shares))
    tests = len(shares) if len(shares) > 2 else 1
    p: Floats = np.minimum(2 * tests * tail.min(-1), 1.0)
    return p


def chi_square_tail(df: int, statistic: Floats) -> Floats:
    """Return P(chi-square with `df` degrees > statistic); with no degree it is 1, or 0 at infinity."""
    if df > 0:
        tail: Floats = special.chdtrc(df, statistic)
        return tail
    return np.where(np.isnan(statistic), np.nan, np.where(statistic == np.inf, 0.0, 1.0))


class Association(NamedTuple):
    """Cramer's `v` in [0, 1], the chi-square `p`, `df` and the number of `rows` that it rests on.

    `v` and `p` are NaN where one side doesn't vary.
    """

    v: float
    p: float
    df: int
    rows: int


def cramers_v(left: Codes, right: Codes) -> Association:
    """Measure how two codings i64[n] of the same rows depend on each other.

    Source: Cramér 1946, "Mathematical Methods of Statistics", chapter 21. Values too rare for the
    chi-square distribution (so that a cell would expect fewer than `ENOUGH`) are pooled into one.
    """
    rows = len(left)
    table = np.zeros((_width(left), _width(right)))
    np.add.at(table, (left, right), 1.0)
    table = _pooled(_pooled(table).T).T
    lines, columns = table.shape
    df = (lines - 1) * (columns - 1)
    if min(lines, columns) < 2:
        return Association(np.nan, np.nan, 0, rows)
    expected = table.sum(1, keepdims=True) * table.sum(0, keepdims=True) / rows
    statistic = ((table - expected) ** 2 / expected).sum()
    v = float(np.sqrt(statistic / (rows * (min(lines, columns) - 1))))
    return Association(v, float(chi_square_tail(df, statistic)), df, rows)


def _width(codes: Codes) -> int:
    return int(codes.max()) + 1 if len(codes) else 0


def _pooled(table: Floats) -> Floats:
    """Pool the lines whose share is below sqrt(ENOUGH / n), and that pool with the rarest other if need be."""
    totals = table.sum(1)
    least = np.sqrt(ENOUGH * totals.sum())
    order = np.argsort(totals, kind="stable")
    table, totals = table[order], totals[order]
    pooled = int((totals < least).sum())
    while pooled < len(totals) and 0 < totals[:pooled].sum() < least:
        pooled += 1
    lines = table[pooled:]
    rest = table[:pooled].sum(0, keepdims=True)
    return np.concatenate([rest, lines]) if rest.sum() > 0 else lines
