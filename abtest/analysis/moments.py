"""Means and covariances of a metric's columns, and what the delta method makes of them.

All functions take leading axes (`...`), so that thousands of samples are analysed at once.
"""

from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from abtest.analysis.columns import Floats

VALUE: Final = 0
"""Where the metric's numerator stands in a table; its denominator is the next column."""

COVARIATE: Final = 2
"""Where the covariate's numerator stands in a table; its denominator is the next column."""


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """Of samples of units: `count` f64[...], `mean` f64[..., 4] and `cov` f64[..., 4, 4] (over n - 1).

    The columns are those of `Metric.table`.
    """

    count: Floats
    mean: Floats
    cov: Floats

    @classmethod
    def of(cls, tables: Floats) -> Self:
        """Return the moments of tables f64[..., n, 4]; undefined ones (n < 2) are NaN."""
        rows = tables.shape[-2]
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = tables.sum(-2) / rows if rows else np.full(tables.shape[:-2] + tables.shape[-1:], np.nan)
            away = tables - mean[..., np.newaxis, :]
            cov = np.swapaxes(away, -1, -2) @ away / np.float64(rows - 1 if rows > 1 else np.nan)
        return cls(np.full(tables.shape[:-2], float(rows)), mean, cov)

    def __add__(self, other: "Moments") -> "Moments":
        """Return the moments of both samples together (pairwise update: Chan, Golub and LeVeque 1983)."""
        count = self.count + other.count
        away = other.mean - self.mean
        share = other.count / count
        between = away[..., :, np.newaxis] * away[..., np.newaxis, :]
        scatter = (
            _wide(self.count - 1) * self.cov + _wide(other.count - 1) * other.cov + _wide(self.count * share) * between
        )
        mean = self.mean + share[..., np.newaxis] * away
        return Moments(count, mean, scatter / _wide(count - 1))

    def ratio(self, column: int) -> Floats:
        """Return sum(numerator) / sum(denominator) of the pair that begins at `column`."""
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio: Floats = self.mean[..., column] / self.mean[..., column + 1]
        return ratio

    def gradient(self, column: int) -> Floats:
        """Return the derivatives f64[..., 4] of that ratio by the means.

        The ratio's variance is gradient' cov gradient / count: the delta method over units (Deng, Knoblich
        and Lu 2018, "Applying the Delta Method in Metric Analytics", KDD, on cluster randomisation).
        """
        gradient = np.zeros(self.mean.shape)
        with np.errstate(divide="ignore", invalid="ignore"):
            gradient[..., column] = 1.0 / self.mean[..., column + 1]
            gradient[..., column + 1] = -self.ratio(column) / self.mean[..., column + 1]
        return gradient

    def covariance(self, left: Floats, right: Floats) -> Floats:
        """Return left' cov right, f64[...]: per unit, to be divided by the count for a mean."""
        product: Floats = np.einsum("...i,...ij,...j->...", left, self.cov, right)
        return product


def _wide(values: Floats) -> Floats:
    return values[..., np.newaxis, np.newaxis]
