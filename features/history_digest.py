"""What one user's history says per item, worked out once per request and shared by the transforms."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from features.history import History

DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class PerItem:
    """One entry per distinct item of a history, rows ascending (i32[k]).

    `count` f32 events; `weight` f32 summed weights; `first`, `last` f64 epoch seconds; `days` f32 distinct
    UTC days.
    """

    rows: NDArray[np.int32]
    count: NDArray[np.float32]
    weight: NDArray[np.float32]
    first: NDArray[np.float64]
    last: NDArray[np.float64]
    days: NDArray[np.float32]


@dataclass(frozen=True)
class HistoryDigest:
    """A history seen from `now` (epoch seconds). Build it from `history.known()`: every row is at least 0."""

    history: History
    now: float

    @cached_property
    def age_days(self) -> NDArray[np.float64]:
        """Age of each event, f64[m], never negative. O(m)."""
        return np.maximum(self.now - self.history.ts, 0.0) / DAY

    @cached_property
    def per_item(self) -> PerItem:
        """Events grouped by item. O(m log m), about 60 us for 400 events."""
        history = self.history
        if len(history) == 0:
            none = np.empty(0, np.float32)
            return PerItem(history.rows, none, none, history.ts, history.ts, none)
        order = np.argsort(history.rows, kind="stable")
        rows, ts = history.rows[order], history.ts[order]
        starts = np.flatnonzero(np.diff(rows, prepend=-1))
        ends = np.append(starts[1:], rows.size)
        # Inside an item the order is still by time: a new day is where the day differs from the one before.
        day = np.floor(ts / DAY)
        fresh = np.diff(day, prepend=-np.inf) != 0
        fresh[starts] = True
        return PerItem(
            rows[starts],
            (ends - starts).astype(np.float32),
            np.add.reduceat(history.weight[order], starts),
            ts[starts],
            ts[ends - 1],
            np.add.reduceat(fresh.astype(np.float32), starts),
        )

    def decayed(self, half_life_days: float) -> NDArray[np.float32]:
        """Events per distinct item, each halved per `half_life_days` of age: f32[k], beside `per_item.rows`. O(m)."""
        rows = self.per_item.rows
        share = np.exp2(self.age_days * (-1.0 / half_life_days))
        at = np.searchsorted(rows, self.history.rows)
        return np.bincount(at, share, minlength=rows.size).astype(np.float32)

    def place(self, rows: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Where each of `rows` i32[n] stands in `per_item.rows`, and whether it does. O(n log k)."""
        own = self.per_item.rows
        if own.size == 0:
            return np.zeros(rows.size, np.int64), np.zeros(rows.size, np.bool_)
        at = np.searchsorted(own, rows)
        at[at == own.size] = 0
        return at, own.take(at) == rows
