"""Recall by embedding: the items nearest to a vector of the user."""

from __future__ import annotations

from typing import Annotated

from stages.registry import COUNT, Ref, component
from stages.roles import Recaller, VectorColumn, VectorIndex
from stages.types import NO_HITS, Hits, View


@component("vector")
class Vector(Recaller):
    """The `k` items of `index` nearest to `query`. Nothing for a user without the vector.

    `effort` is the index's own knob per search (nprobe for IVF); None takes the one measured at build.
    """

    index: Ref[VectorIndex]
    query: VectorColumn
    k: Annotated[int, COUNT] = 300
    effort: Annotated[int, COUNT] | None = None

    def recall(self, view: View) -> Hits:
        """One search of one query; sub-millisecond, so it runs in place."""
        query = view.get(self.query)
        if query is None:
            return NO_HITS
        return Hits(*self.index.search(query, self.k, effort=self.effort))
