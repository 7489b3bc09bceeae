"""Selection over arrays, shared by the funnel's steps: deterministic on ties, vectorised."""

from __future__ import annotations

import numpy as np

from stages.types import F32, NO_HITS, Hits, Index, Rows


def descending(score: F32) -> Index:
    """Positions by descending score; equal scores keep their order. NaN comes last."""
    return np.argsort(-score, kind="stable")


def best(score: F32, keep: int) -> Index:
    """Positions of the `keep` highest scores, best first; ties by position, NaN last.

    O(n + keep log keep) when it cuts.
    """
    if keep >= len(score):
        return descending(score)
    if keep <= 0:
        return np.empty(0, np.intp)
    cut = np.partition(-score, keep - 1)[keep - 1]
    if cut != cut:  # the cut falls among NaN, which no comparison finds
        return descending(score)[:keep]
    above = np.flatnonzero(-score < cut)
    level = np.flatnonzero(-score == cut)[: keep - len(above)]
    chosen = np.concatenate([above, level])
    chosen.sort()
    return chosen[np.argsort(-score.take(chosen), kind="stable")]


def top(rows: Rows, scores: F32, k: int) -> Hits:
    """Sum scores by row, rows i32[m] and scores f32[m], and keep the best k. O(m log m); ties go to the lower row."""
    if not len(rows):
        return NO_HITS
    order = np.argsort(rows, kind="stable")
    ordered = rows.take(order)
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    sums = np.add.reduceat(scores.take(order), starts)
    chosen = best(sums, k)
    return Hits(ordered.take(starts.take(chosen)), sums.take(chosen))
