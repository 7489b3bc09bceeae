"""Maximal marginal relevance (Carbonell and Goldstein, SIGIR 1998, section 2)."""

from __future__ import annotations

from math import isfinite
from typing import Annotated

import numpy as np

from stages.registry import COUNT, SHARE, component
from stages.roles import Reranker, VectorColumn
from stages.types import F32, Candidates, Index, View


@component("mmr")
class Mmr(Reranker):
    """Picks one by one the item with the highest `relevance` * score - (1 - `relevance`) * similarity.

    Scores are brought to 0..1 over the best `window` candidates; similarity is the largest cosine of `similarity`
    vectors with an item already picked (0 for an item without a vector). `relevance` 1 keeps the order.
    """

    similarity: Annotated[VectorColumn, "item"]
    relevance: Annotated[float, SHARE] = 0.9
    window: Annotated[int, COUNT] = 150

    def order(self, view: View, batch: Candidates, size: int) -> Index:
        """O(window^2 d) for all similarities at once, then O(size window)."""
        n = min(len(batch), max(self.window, size))
        everyone = np.arange(len(batch))
        if self.relevance >= 1.0 or n < 2:
            return everyone
        head = batch.take(everyone[:n])
        gain = _unit(head.score) * np.float32(self.relevance)
        picked = _pick(gain, _cosines(head[self.similarity]), 1.0 - self.relevance, min(size, n))
        left = np.ones(len(batch), np.bool_)
        left[picked] = False
        return np.concatenate([picked, left.nonzero()[0]])


def _unit(score: F32) -> F32:
    """Scores in 0..1; an infinite one (the worst, of an item without a vector) goes to its end of the range."""
    low, high = score.min(), score.max()
    if not (isfinite(low) and isfinite(high)):
        finite = score[np.isfinite(score)]
        if not len(finite):
            return np.zeros_like(score)
        low, high = finite.min(), finite.max()
        score = np.clip(score, low, high)
    return (score - low) / (high - low) if high > low else np.zeros_like(score)


def _cosines(vectors: F32) -> F32:
    """f32[n, n]; 0 wherever a vector is missing."""
    squares = np.vecdot(vectors, vectors)
    usable = np.isfinite(squares) & (squares > 0)
    if not usable.all():
        vectors = np.where(usable[:, None], vectors, np.float32(0))
        squares = np.where(usable, squares, np.float32(1))
    unit = vectors / np.sqrt(squares)[:, None]
    cosines: F32 = unit @ unit.T
    return cosines


def _pick(value: F32, cosines: F32, weight: float, size: int) -> Index:
    """Greedy picks, i64[size]. What an item is worth after several picks is the least of what it is after each.

    So a pick costs an argmax and a minimum with one row of a matrix; `value` and `cosines` are overwritten.
    """
    after = cosines
    after *= np.float32(-weight)
    after += value
    after.reshape(-1)[:: len(after) + 1] = -np.inf  # the diagonal: nothing is picked twice
    picked = np.empty(size, np.intp)
    for position in range(size):
        picked[position] = chosen = value.argmax()
        np.minimum(value, after[chosen], out=value)
    return picked
