"""Item-to-item neighbours from pruned co-occurrence.

Shrunk cosine over recency-weighted users (Sarwar et al., "Item-based collaborative filtering recommendation
algorithms", WWW 2001, section 3.1), with two changes: long histories are discounted, since someone who buys
everything says little about any pair, and the neighbour's norm has an exponent below 1, which favours the popular
(Deshpande and Karypis, "Item-based top-N recommendation algorithms", TOIS 2004, section 4.1.2).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from bootstrap.matrix import keep_heaviest

BLOCK_PAIRS = 20_000_000
"""Co-occurrences held at once (240 MB)."""


@dataclass(frozen=True)
class ItemToItemSettings:
    """`top` bounds an item's list, `history` a user's items (the heaviest are kept).

    `shrinkage` is in users; `discount` is the exponent on history length in a user's weight on a pair;
    `popularity` is the exponent on the neighbour's norm: 1 is cosine.
    """

    top: int = 100
    history: int = 300
    min_support: int = 2
    shrinkage: float = 2.0
    discount: float = 1.5
    popularity: float = 0.6


def neighbours(
    matrix: sp.csr_matrix, settings: ItemToItemSettings, progress: Callable[[], None] = lambda: None
) -> sp.csr_matrix:
    """Each item's `top` most similar items: CSR f32 (n x n), a row's columns in descending score.

    `matrix` is CSR f32 (users x items) of decayed weights. An item is never its own neighbour, and an item with
    fewer than `min_support` users has no list and is in none. The indices of a row are not sorted by column:
    read `indptr`, `indices`, `data` as a list of lists. `progress` is called per block.
    O(sum over users of history^2) time, `BLOCK_PAIRS` memory.
    """
    kept = keep_heaviest(matrix, settings.history)
    support = np.bincount(kept.indices, minlength=kept.shape[1])
    core = np.flatnonzero(support >= settings.min_support)
    weights = _user_weighted(sp.csr_matrix(kept[:, core]), settings.discount)
    by_item = sp.csr_matrix(weights.T)
    norms = np.sqrt(np.asarray(by_item.multiply(by_item).sum(axis=1)).ravel())
    cost = np.concatenate([[0], np.cumsum(np.diff(weights.indptr) @ (weights > 0))])
    columns, values, lengths = [], [], np.zeros(kept.shape[1], dtype=np.int64)
    start = 0
    while start < core.size:
        stop = int(np.searchsorted(cost, cost[start] + BLOCK_PAIRS, side="right")) - 1
        stop = min(max(stop, start + 1), core.size)
        block = sp.csr_matrix(by_item[start:stop] @ weights)
        owner = np.repeat(np.arange(start, stop), np.diff(block.indptr))
        score = block.data / (norms[owner] * norms[block.indices] ** settings.popularity + settings.shrinkage)
        score[owner == block.indices] = 0
        for row in range(stop - start):
            low, high = block.indptr[row], block.indptr[row + 1]
            best = _best(score[low:high], settings.top)
            columns.append(core[block.indices[low + best]])
            values.append(score[low + best])
            lengths[core[start + row]] = best.size
        start = stop
        progress()
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    flat = np.concatenate(columns) if columns else np.empty(0, dtype=np.int64)
    data = np.concatenate(values) if values else np.empty(0)
    shape = (kept.shape[1], kept.shape[1])
    return sp.csr_matrix((data.astype(np.float32), flat.astype(np.int32), indptr), shape=shape)


def _user_weighted(matrix: sp.csr_matrix, discount: float) -> sp.csr_matrix:
    """Dampens counts, scales to mean square 1, and divides a user by history length ** (discount / 2)."""
    if matrix.nnz == 0:
        return matrix
    lengths = np.diff(matrix.indptr)
    scale = np.maximum(lengths, 1).astype(np.float64) ** (-0.5 * discount)
    data = np.log1p(matrix.data / matrix.data.mean()) * np.repeat(scale, lengths)
    # In these units a user adds 1 to a squared norm on average, so that shrinkage counts users.
    data /= np.sqrt(np.square(data).mean())
    return sp.csr_matrix((data.astype(np.float32), matrix.indices, matrix.indptr), shape=matrix.shape)


def _best(score: np.ndarray, top: int) -> np.ndarray:
    """Positions of the `top` positive scores, descending, ties by position."""
    if score.size > top:
        cut = np.partition(score, score.size - top)[score.size - top]
        near = np.flatnonzero(score >= cut)
    else:
        near = np.arange(score.size)
    near = near[score[near] > 0]
    return near[np.argsort(-score[near], kind="stable")[:top]]
