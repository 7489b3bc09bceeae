"""Leave out what the user already had."""

from __future__ import annotations

import numpy as np

from stages.registry import component
from stages.roles import ColumnName, Filter
from stages.types import Candidates, Mask, View


@component("seen")
class Seen(Filter):
    """Keeps items that do not stand in `history`, the user's whole history (not only the recent part)."""

    history: ColumnName = ColumnName("user.history")

    def keep(self, view: View, batch: Candidates) -> Mask:
        """O((n + m) log m)."""
        history = view.get(self.history)
        if history is None or not len(history):
            return np.ones(len(batch), np.bool_)
        return ~np.isin(batch.rows, history.rows)
