"""Which events of a unit count."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Window:
    """Which events count: those less than `within` seconds after the first exposure, and for the covariate those of
    the `before` seconds before it (0: no covariate).
    """

    within: float = np.inf
    before: float = 0.0
