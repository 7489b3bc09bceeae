"""Recall by neighbours: items that go with what the user had lately (Linden, Smith and York, IEEE Internet
Computing 2003), with triggers weighted by recency."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from stages.arrays import top
from stages.registry import AGE, COUNT, Duration, Ref, component
from stages.roles import HistoryColumn, Recaller, Table
from stages.types import NO_HITS, Hits, View

DAY = 86_400.0


@component("item_to_item")
class ItemToItem(Recaller):
    """Sum over triggers of the neighbour's score times the trigger's weight, best `k`.

    A trigger is an item of `triggers`, a history column; it weighs the sum of 0.5 ** (age / half_life) over its
    events, and the `max_triggers` heaviest count.
    """

    table: Annotated[Ref[Table], "items"]
    triggers: HistoryColumn
    k: Annotated[int, COUNT] = 300
    half_life: Annotated[Duration, AGE] = Duration(30 * DAY)
    max_triggers: Annotated[int, COUNT] = 100

    def recall(self, view: View) -> Hits:
        """O(m log m) in the neighbours of all triggers."""
        history = view.get(self.triggers)
        if history is None:
            return NO_HITS
        history = history.known()
        weights = np.exp2((history.ts - view.now) / self.half_life).astype(np.float32)
        triggers = top(history.rows, weights, self.max_triggers)
        rows, scores, lengths = self.table.gather(triggers.rows)
        return top(rows, scores * triggers.scores.repeat(lengths), self.k)
