"""Spread out items that share a value, such as a category or a brand."""

from __future__ import annotations

from collections import Counter, deque
from typing import Annotated

import numpy as np

from expression import Strings
from stages.registry import COUNT, component
from stages.roles import Reranker, ScalarColumn
from stages.types import Candidates, Index, View


@component("spread")
class Spread(Reranker):
    """At most `max` items of one value of `by` among any `within` in a row, as long as others are left.

    Greedy: each place goes to the best item that fits, else to the best one left. A missing value is never limited.
    """

    by: Annotated[ScalarColumn, "item"]
    max: Annotated[int, COUNT] = 2
    within: Annotated[int, COUNT] = 5

    def order(self, view: View, batch: Candidates, size: int) -> Index:
        """O(size * deferred); only the first `size` places are arranged, the rest keeps its order."""
        column = batch[self.by]
        codes = (column.codes if isinstance(column, Strings) else column).tolist()
        picked = _arrange(codes, min(size, len(codes)), self.max, self.within)
        left = np.ones(len(codes), np.bool_)
        left[picked] = False
        return np.concatenate([np.asarray(picked, np.intp), np.flatnonzero(left)])


def _arrange(codes: list[float], size: int, most: int, within: int) -> list[int]:
    waiting: deque[int] = deque()
    recent: deque[float] = deque(maxlen=within - 1)
    counts: Counter[float] = Counter()
    upcoming = iter(range(len(codes)))
    picked: list[int] = []

    def fits(at: int) -> bool:
        code = codes[at]
        return code == -1 or code != code or counts[code] < most

    while len(picked) < size:
        at = next((w for w in waiting if fits(w)), None)
        if at is not None:
            waiting.remove(at)
        else:
            for candidate in upcoming:
                if fits(candidate):
                    at = candidate
                    break
                waiting.append(candidate)
        if at is None:
            at = waiting.popleft()
        picked.append(at)
        if recent.maxlen:
            if len(recent) == recent.maxlen:
                counts[recent[0]] -= 1
            recent.append(codes[at])
            counts[codes[at]] += 1
    return picked
