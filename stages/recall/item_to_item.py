"""Recall by neighbours: items that go with what the user had lately (Linden, Smith and York, IEEE Internet
Computing 2003), with triggers weighted by recency."""

from __future__ import annotations

import numpy as np

from stages.arrays import top
from stages.registry import Duration, Ref, component
from stages.types import NO_HITS, ColumnName, Hits, Recaller, Table, View

DAY = 86_400.0


@component("item_to_item")
class ItemToItem(Recaller):
    """Sum over triggers of the neighbour's score times the trigger's weight, best `k`.

    A trigger weighs 0.5 ** (age / half_life), summed over its events; `triggers` is a history column.
    """

    table: Ref[Table]
    triggers: ColumnName
    k: int = 300
    half_life: Duration = Duration(90 * DAY)
    max_triggers: int = 200

    def recall(self, view: View) -> Hits:
        """O(neighbours of all triggers)."""
        history = view.get(self.triggers)
        if history is None:
            return NO_HITS
        history = history.known().last(self.max_triggers)
        if not len(history):
            return NO_HITS
        weights = np.exp2((history.ts - view.now) / self.half_life).astype(np.float32)
        rows, scores, lengths = self.table.gather(history.rows)
        return top(rows, scores * np.repeat(weights, lengths), self.k)
