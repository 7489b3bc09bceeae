"""Intervals and p-values that hold however often one looks.

An asymptotic confidence sequence: Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas, "Time-uniform central
limit theory and asymptotic confidence sequences" (arXiv 2103.06476; Annals of Statistics 2024), theorem
2.2. After n units with standard error s the boundary lies at s * sqrt((1 + 1/r) (2 log(1/alpha) + log(1 +
r))), r = n rho^2; rho only says at which n the sequence is tightest, and must be chosen before the data are
seen. As every central limit theorem it wants a burn-in: the first look should come after some hundred units
of each bucket, and each unit's outcome should be complete when it is first counted.
"""

from typing import Final

import numpy as np
from scipy import special

from abtest.analysis.columns import Floats

TUNED_FOR: Final = 10_000
"""The default number of units (all buckets that are compared) at which the sequence is tightest."""

# Where `critical` is least for alpha 0.05: its derivative vanishes at r = 2 log(1/alpha) + log(1 + r).
_BEST_R: Final = -float(special.lambertw(-(0.05**2) / np.e, -1).real) - 1


def critical(count: float | Floats, alpha: float, tuned_for: float = TUNED_FOR) -> Floats:
    """Return how many standard errors the boundary is away after `count` units, f64[...]."""
    r = _progress(count, tuned_for)
    reach: Floats = np.sqrt((1 + 1 / r) * (2 * np.log(1 / alpha) + np.log1p(r)))
    return reach


def p_value(count: Floats, statistic: Floats, tuned_for: float = TUNED_FOR) -> Floats:
    """Return the least alpha whose boundary `statistic` (standard errors) has crossed, at most 1."""
    r = _progress(count, tuned_for)
    log_p = 0.5 * np.log1p(r) - 0.5 * statistic**2 * r / (1 + r)
    p: Floats = np.exp(np.minimum(log_p, 0.0))
    return p


def _progress(count: float | Floats, tuned_for: float) -> float | Floats:
    """Return r = n rho^2. One rho for every alpha keeps intervals and p-values two faces of one sequence."""
    return count * (_BEST_R / tuned_for)
