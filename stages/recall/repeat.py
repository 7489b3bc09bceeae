"""Recall by repetition: what the user had before, by decayed personal frequency."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated

import numpy as np

from features.behaviour import event_code
from stages.arrays import top
from stages.registry import AGE, COUNT, Duration, component
from stages.roles import EventName, HistoryColumn, Recaller
from stages.types import NO_HITS, Hits, View

DAY = 86_400.0


@component("repeat")
class Repeat(Recaller):
    """The user's own items, each scored by the sum of 0.5 ** (age / half_life) over its events, best `k`.

    `events` names the events that count, such as `[purchase]`; empty: every event does.
    """

    history: HistoryColumn
    k: Annotated[int, COUNT] = 300
    half_life: Annotated[Duration, AGE] = Duration(60 * DAY)
    events: tuple[EventName, ...] = ()

    def recall(self, view: View) -> Hits:
        """O(history log history)."""
        history = view.get(self.history)
        if history is None:
            return NO_HITS
        history = history.known()
        if self._codes:
            history = history.of_events(self._codes)
        weights = np.exp2((history.ts - view.now) / self.half_life).astype(np.float32)
        return top(history.rows, weights, self.k)

    @cached_property
    def _codes(self) -> tuple[int, ...]:
        return tuple(event_code(name) for name in self.events)
