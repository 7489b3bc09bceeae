"""Many comparisons: the false discovery rate."""

import numpy as np

from abtest.analysis.columns import Floats


def adjusted(p: Floats) -> Floats:
    """Return p-values f64[k] adjusted by Benjamini and Hochberg (1995), section 3.1.

    Calling those below q discoveries keeps the expected share of false ones among them at q or less, for
    independent or positively dependent tests. NaN stays NaN and doesn't count as a test.
    """
    result = np.full(len(p), np.nan)
    tested = np.flatnonzero(~np.isnan(p))
    order = tested[np.argsort(p[tested], kind="stable")]
    ranks = np.arange(1, len(order) + 1)
    # A larger p may not end up below a smaller one: the minimum over all that are at least as large.
    result[order] = np.minimum.accumulate((p[order] * len(order) / ranks)[::-1])[::-1]
    capped: Floats = np.minimum(result, 1.0)
    return capped
