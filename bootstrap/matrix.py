"""Interactions as sparse matrices: who took what, how often and how lately."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

DAY = 86_400.0


def decayed_matrix(
    users: np.ndarray,
    items: np.ndarray,
    ts: np.ndarray,
    weight: np.ndarray,
    shape: tuple[int, int],
    now: float,
    half_life_days: float,
) -> sp.csr_matrix:
    """Sums every pair's weights, each halved per `half_life_days` of age.

    `users`, `items` i32[m] row numbers, `ts` f64[m] epoch seconds, `weight` f32[m].
    Returns CSR f32 of `shape` (users, items), indices sorted; pairs whose sum isn't positive are left out.
    An infinite half-life counts without decay. Events after `now` count as if they were at `now`.
    """
    age = np.maximum(now - ts, 0.0) / DAY
    value = np.asarray(weight, dtype=np.float64) * np.exp2(-age / half_life_days)
    matrix = sp.coo_matrix((value, (users, items)), shape=shape).tocsr()
    matrix.data[~(matrix.data > 0)] = 0
    matrix.eliminate_zeros()
    matrix.sort_indices()
    return sp.csr_matrix(matrix, dtype=np.float32)


def keep_heaviest(matrix: sp.csr_matrix, most: int) -> sp.csr_matrix:
    """Keeps the `most` largest values of each row (ties: the lower column), to bound a row's cost."""
    lengths = np.diff(matrix.indptr)
    if lengths.size == 0 or lengths.max() <= most:
        return matrix
    owner = np.repeat(np.arange(matrix.shape[0]), lengths)
    order = np.lexsort((matrix.indices, -matrix.data, owner))
    place = np.empty(matrix.nnz, dtype=np.int64)
    place[order] = np.arange(matrix.nnz) - np.repeat(matrix.indptr[:-1], lengths)
    keep = place < most
    indptr = np.concatenate([[0], np.cumsum(np.bincount(owner[keep], minlength=matrix.shape[0]))])
    return sp.csr_matrix((matrix.data[keep], matrix.indices[keep], indptr), shape=matrix.shape)
