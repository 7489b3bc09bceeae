"""Lists of rows with scores, as CSR arrays: item-to-item neighbours by row, popular items by group name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int32]
F32 = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Lists:
    """indptr i64[g+1], rows i32[nnz], scores f32[nnz], best first in each list; `groups` names them if named."""

    indptr: NDArray[np.int64]
    rows: Rows
    scores: F32
    groups: tuple[str, ...] = ()
    _numbers: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_numbers", {name: i for i, name in enumerate(self.groups)})

    @classmethod
    def of_groups(cls, lists: Sequence[tuple[str, Rows, F32]]) -> Lists:
        """Named lists, each (name, rows, scores)."""
        indptr = np.zeros(len(lists) + 1, np.int64)
        np.cumsum([len(rows) for _, rows, _ in lists], out=indptr[1:])
        return cls(
            indptr,
            np.concatenate([rows for _, rows, _ in lists] or [np.empty(0, np.int32)]).astype(np.int32),
            np.concatenate([scores for _, _, scores in lists] or [np.empty(0, np.float32)]).astype(np.float32),
            tuple(name for name, _, _ in lists),
        )

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def slice(self, group: int) -> tuple[Rows, F32]:
        """Rows and scores of list number `group`, best first; views, nothing is copied. Empty past the last list."""
        if group >= len(self):
            return self.rows[:0], self.scores[:0]
        a, b = int(self.indptr[group]), int(self.indptr[group + 1])
        return self.rows[a:b], self.scores[a:b]

    def group(self, name: str) -> int:
        """The number of the list called `name`; -1 when there is none."""
        return self._numbers.get(name, -1)

    def gather(self, groups: Rows) -> tuple[Rows, F32, NDArray[np.int64]]:
        """All entries of several lists: rows i32[m], scores f32[m], and lengths i64[len(groups)]. O(m)."""
        starts = self.indptr.take(groups)
        lengths = self.indptr.take(groups + 1) - starts
        total = int(lengths.sum())
        # position of each entry: its list's start plus its offset inside the list, without a Python loop
        shifts = (starts - (lengths.cumsum() - lengths)).repeat(lengths)
        at = shifts + np.arange(total)
        return self.rows.take(at), self.scores.take(at), lengths
