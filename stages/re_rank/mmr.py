"""Maximal marginal relevance (Carbonell and Goldstein, SIGIR 1998, section 2)."""

from __future__ import annotations

import numpy as np

from stages.registry import component
from stages.types import F32, Candidates, ColumnName, Index, Reranker, View


@component("mmr")
class Mmr(Reranker):
    """Picks one by one the item with the highest `relevance` * score - (1 - `relevance`) * similarity.

    Scores are brought to 0..1 over the best `window` candidates; similarity is the largest cosine of `similarity`
    vectors with an item already picked (0 for an item without a vector). `relevance` 1 keeps the order.
    """

    similarity: ColumnName
    relevance: float = 0.9
    window: int = 150

    def order(self, view: View, batch: Candidates, size: int) -> Index:
        """O(window^2 d) for all similarities at once, then O(size window)."""
        n = min(len(batch), max(self.window, size))
        everyone = np.arange(len(batch))
        if self.relevance >= 1.0 or n < 2:
            return everyone
        head = batch.take(everyone[:n])
        picked = _pick(_unit(head.score), _cosines(head[self.similarity]), self.relevance, min(size, n))
        left = np.ones(len(batch), np.bool_)
        left[picked] = False
        return np.concatenate([picked, everyone[left]])


def _unit(score: F32) -> F32:
    """Scores in 0..1; an infinite one (the worst, of an item without a vector) goes to its end of the range."""
    finite = score[np.isfinite(score)]
    if not len(finite):
        return np.zeros_like(score)
    low, high = finite.min(), finite.max()
    return (np.clip(score, low, high) - low) / (high - low) if high > low else np.zeros_like(score)


def _cosines(vectors: F32) -> F32:
    norms = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    usable = np.isfinite(norms) & (norms > 0)
    unit = np.where(usable[:, None], vectors, 0) / np.where(usable, norms, 1)[:, None]
    cosines = unit @ unit.T
    return cosines.astype(np.float32, copy=False)


def _pick(relevance: F32, cosines: F32, weight: float, size: int) -> Index:
    gain = relevance * np.float32(weight)
    penalty = cosines * np.float32(1.0 - weight)
    nearest = np.zeros_like(gain)
    value = np.empty_like(gain)
    picked = np.empty(size, np.intp)
    for position in range(size):
        np.subtract(gain, nearest, out=value)
        chosen = int(value.argmax())
        picked[position] = chosen
        gain[chosen] = -np.inf
        np.maximum(nearest, penalty[chosen], out=nearest)
    return picked
