"""Recall by popularity: the head of a prepared list of the user's group."""

from __future__ import annotations

from typing import Annotated

from stages.registry import COUNT, Ref, component
from stages.roles import Recaller, ScalarColumn, Table
from stages.types import NO_HITS, Hits, View

EVERYONE = "all"


@component("popular")
class Popular(Recaller):
    """The first `k` of the list named by the value of `by`, or of the list `all` when there is none of that name."""

    table: Annotated[Ref[Table], "group"]
    by: ScalarColumn | None = None
    k: Annotated[int, COUNT] = 100

    def recall(self, view: View) -> Hits:
        """O(k); the arrays are views of the mapped list."""
        name = None if self.by is None else view.get(self.by)
        group = -1 if name is None else self.table.group(str(name))
        if group < 0:
            group = self.table.group(EVERYONE)
        if group < 0:
            return NO_HITS
        rows, scores = self.table.slice(group)
        return Hits(rows[: self.k], scores[: self.k])
