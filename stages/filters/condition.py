"""Keep what satisfies an expression over columns."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from expression import Expression
from stages.registry import component
from stages.roles import Filter
from stages.types import Candidates, Mask, View


@component("expression")
class Condition(Filter):
    """Keeps items for which `keep` is true; a comparison with a missing value is false."""

    condition: Annotated[Expression, "bool"]

    def keep(self, view: View, batch: Candidates) -> Mask:
        """O(n) for each operator of the expression."""
        mask = self.condition(batch.columns)
        return np.full(len(batch), bool(mask)) if np.ndim(mask) == 0 else mask
