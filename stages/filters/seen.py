"""Leave out what the user already had."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from features.behaviour import event_code
from stages.registry import component
from stages.roles import ColumnName, EventName, Filter, HistoryColumn
from stages.types import Candidates, Mask, View


@component("seen")
class Seen(Filter):
    """Keeps items that do not stand in `history`, the user's whole history (not only the recent part).

    `events` names the events that count, such as `[purchase]`; empty: every event does.
    """

    history: HistoryColumn = ColumnName("user.history")
    events: tuple[EventName, ...] = ()

    def keep(self, view: View, batch: Candidates) -> Mask:
        """O((n + m) log m)."""
        history = view.get(self.history)
        if history is None or not len(history):
            return np.ones(len(batch), np.bool_)
        if self._codes:
            history = history.of_events(self._codes)
        return ~np.isin(batch.rows, history.rows)

    @cached_property
    def _codes(self) -> tuple[int, ...]:
        return tuple(event_code(name) for name in self.events)
