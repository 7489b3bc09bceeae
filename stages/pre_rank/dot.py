"""Pre-rank by the inner product of a user vector and an item vector (a two-tower model's last step)."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from stages.registry import component
from stages.roles import PreRanker, VectorColumn
from stages.types import F32, Candidates, View


@component("dot")
class Dot(PreRanker):
    """`user` . `item` for each candidate; an item without a vector comes last, a user without one keeps the order."""

    user: Annotated[VectorColumn, "request"]
    item: Annotated[VectorColumn, "item"]

    def score(self, view: View, batch: Candidates) -> F32:
        """O(n d)."""
        query = view.get(self.user)
        if query is None:
            return batch.score
        scores: F32 = batch[self.item] @ query
        missing = np.isnan(scores)
        return np.where(missing, np.float32(-np.inf), scores) if missing.any() else scores
