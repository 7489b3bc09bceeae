"""Simulated experiments for the tests of the statistics."""

import numpy as np

from abtest.analysis import Exposures, Metric
from abtest.analysis.columns import Codes, Floats


def codes(*values: int) -> Codes:
    return np.array(values, np.int64)


def floats(*values: float) -> Floats:
    return np.array(values, np.float64)


def sessions(rng: np.random.Generator, units: int, lift: float = 0.0) -> tuple[Codes, dict[str, Floats]]:
    """Return buckets (0 or 1) and columns: sessions and orders per user, and what they were before.

    Users differ, so that sessions of one user depend on each other, and the past predicts the present.
    """
    bucket = rng.integers(0, 2, units)
    taste = rng.gamma(2.0, 0.5, units)
    columns = {
        "sessions": 1.0 + rng.poisson(2 * taste),
        "sessions_before": 1.0 + rng.poisson(2 * taste),
    }
    rate = np.minimum(0.2 * taste, 0.9)
    columns["orders"] = rng.binomial(columns["sessions"].astype(int), np.minimum(rate * (1 + lift * bucket), 1.0)) * 1.0
    columns["orders_before"] = rng.binomial(columns["sessions_before"].astype(int), rate) * 1.0
    return bucket, columns


def ratio(columns: dict[str, Floats], *, cuped: bool) -> Metric:
    before = (columns["orders_before"], columns["sessions_before"]) if cuped else (None, None)
    return Metric("orders per session", columns["orders"], columns["sessions"], *before)


def exposures(unit: Codes, bucket: Codes, **more: object) -> Exposures:
    return Exposures(unit, bucket, ("control", "variant"), np.arange(len(unit), dtype=np.float64), **more)  # type: ignore[arg-type]  # keyword columns of several types
