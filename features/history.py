"""One user's behaviour as columns: what was done, to what, when."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """Events of one user, oldest first; all columns have the same length m and are read-only.

    rows    i32[m]  row in the pinned release's item table, -1 when the release doesn't know the item
    keys    u64[m]  `features.ids.key_hash` of the item's id
    ts      f64[m]  epoch seconds, ascending
    event   u16[m]  event code (`features.behaviour.event_code`)
    weight  f32[m]  what the event counts (quantity, amount), 1 by default

    Raises ValueError when the columns' lengths differ.
    """

    rows: NDArray[np.int32]
    keys: NDArray[np.uint64]
    ts: NDArray[np.float64]
    event: NDArray[np.uint16]
    weight: NDArray[np.float32]

    def __post_init__(self) -> None:
        m = len(self.rows)
        for column in (self.rows, self.keys, self.ts, self.event, self.weight):
            if len(column) != m:
                raise ValueError(f"columns of a history differ in length: {len(column)} and {m}")
            column.setflags(write=False)

    @classmethod
    def empty(cls) -> Self:
        """Return a history without events."""
        return cls(
            np.empty(0, np.int32),
            np.empty(0, np.uint64),
            np.empty(0, np.float64),
            np.empty(0, np.uint16),
            np.empty(0, np.float32),
        )

    def __len__(self) -> int:
        return len(self.rows)

    def last(self, n: int) -> "History":
        """Return the newest n events, or all when there are fewer (views, no copies)."""
        if n >= len(self):
            return self
        return self._take(slice(len(self) - max(n, 0), None))

    def known(self) -> "History":
        """Return the events whose item is in the release (row not -1)."""
        known = self.rows >= 0
        return self if known.all() else self._take(known)

    def of_events(self, codes: Iterable[int]) -> "History":
        """Return the events whose code is one of `codes`."""
        wanted = np.fromiter(codes, np.uint16)
        if wanted.size == 1:
            return self._take(self.event == wanted[0])
        return self._take(np.isin(self.event, wanted))

    def _take(self, index: slice | NDArray[np.bool_]) -> "History":
        return History(self.rows[index], self.keys[index], self.ts[index], self.event[index], self.weight[index])
