"""Implicit-feedback alternating least squares on plain numpy and scipy.

Hu, Koren, Volinsky, "Collaborative filtering for implicit feedback datasets" (ICDM 2008), sections 4 and 5:
preference is 1 where a pair was seen, its confidence is 1 + alpha * r. Here r is the pair's decayed weight
relative to the mean over all pairs, so that one alpha fits counts, quantities and any half-life.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

BATCH_FLOATS = 4_000_000
"""Bound of one batch's largest intermediate array, in floats (16 MB)."""


@dataclass(frozen=True)
class AlsSettings:
    """Hyperparameters. `iterations` are pairs of half steps; items below `min_support` users are folded in."""

    factors: int = 64
    alpha: float = 2.0
    regularisation: float = 30.0
    iterations: int = 6
    min_support: int = 3
    seed: int = 1


@dataclass(frozen=True)
class Factors:
    """`users` f32[u, d], `items` f32[n, d] of one space; a score is the inner product. All zeros: unknown."""

    users: np.ndarray
    items: np.ndarray


def confidence(matrix: sp.csr_matrix, alpha: float) -> sp.csr_matrix:
    """Turns pair weights r into extra confidence `alpha * log2(1 + r / mean r)`: CSR f32, same pattern."""
    if matrix.nnz == 0:
        return matrix.copy()
    mean = float(matrix.data.mean())
    data = (alpha / np.log(2.0)) * np.log1p(matrix.data / mean)
    return sp.csr_matrix((data.astype(np.float32), matrix.indices, matrix.indptr), shape=matrix.shape)


def train(matrix: sp.csr_matrix, settings: AlsSettings, progress: Callable[[], None] = lambda: None) -> Factors:
    """Factorises pair weights (CSR, users x items; see `matrix.decayed_matrix`).

    Iterates on the items with at least `min_support` users, then folds every item in by one half step, so
    that the long tail gets vectors but costs one solve each. `progress` is called once per iteration.
    Deterministic for a seed and a number of BLAS threads. O(nnz d^2 + (u + n) d^3) per iteration.
    """
    trust = confidence(matrix, settings.alpha)
    support = np.bincount(matrix.indices, minlength=matrix.shape[1])
    core = np.flatnonzero(support >= settings.min_support)
    if core.size == 0:
        core = np.arange(matrix.shape[1])
    by_user = sp.csr_matrix(trust[:, core])
    by_item = sp.csr_matrix(by_user.T)
    random = np.random.default_rng(settings.seed)
    items = (random.standard_normal((core.size, settings.factors)) * 0.1).astype(np.float32)
    users = np.zeros((matrix.shape[0], settings.factors), dtype=np.float32)
    for _ in range(settings.iterations):
        users = fold_in(by_user, items, settings.regularisation)
        items = fold_in(by_item, users, settings.regularisation)
        progress()
    everything = fold_in(sp.csr_matrix(trust.T), users, settings.regularisation)
    users = fold_in(trust, everything, settings.regularisation)
    return Factors(users=users, items=everything)


def fold_in(trust: sp.csr_matrix, other: np.ndarray, regularisation: float) -> np.ndarray:
    """Solves one side against the fixed `other` f32[n, d]: one half step, also for rows unseen in training.

    `trust` is CSR f32 (rows to solve x n) of extra confidence as `confidence` gives it. Returns f32[rows, d];
    an empty row is all zeros. Rows are batched by length; a row shorter than d is solved in its own size by
    the Woodbury identity, which is exact.
    """
    factors = other.shape[1]
    base = other.T.astype(np.float64) @ other.astype(np.float64) + regularisation * np.eye(factors)
    inverse = np.linalg.inv(base)
    half = (other @ inverse).astype(np.float32)
    out = np.zeros((trust.shape[0], factors), dtype=np.float32)
    lengths = np.diff(trust.indptr)
    base32 = base.astype(np.float32)
    for rows, width in _batches(lengths, factors):
        columns, value = _padded(trust, rows, width)
        near = other[columns]
        if width < factors:
            out[rows] = _solve_short(near, half[columns], value)
        else:
            out[rows] = _solve_long(near, value, base32)
    return out


def _solve_short(near: np.ndarray, half: np.ndarray, value: np.ndarray) -> np.ndarray:
    """x = H'(p - (C^-1 + P)^-1 P p) with P = Y B^-1 Y', H = Y B^-1, p = 1 + c; padding has c = p = 0."""
    gram = near @ half.transpose(0, 2, 1)
    target = (1.0 + value) * (value > 0)
    root = np.sqrt(value)
    inner = root[:, :, None] * gram * root[:, None, :]
    width = near.shape[1]
    inner[:, np.arange(width), np.arange(width)] += 1.0
    seen = (gram @ target[:, :, None]) * root[:, :, None]
    correction = root * np.linalg.solve(inner, seen)[:, :, 0]
    solved: np.ndarray = ((target - correction)[:, None, :] @ half)[:, 0, :]
    return solved


def _solve_long(near: np.ndarray, value: np.ndarray, base: np.ndarray) -> np.ndarray:
    """x = (B + Y' C Y)^-1 Y' (1 + c)."""
    normal = near.transpose(0, 2, 1) @ (near * value[:, :, None])
    normal += base
    target = (1.0 + value) * (value > 0)
    right = target[:, None, :] @ near
    solved: np.ndarray = np.linalg.solve(normal, right.transpose(0, 2, 1))[:, :, 0]
    return solved


def _batches(lengths: np.ndarray, factors: int) -> Iterator[tuple[np.ndarray, int]]:
    """Row batches of similar length with the width to pad to; empty rows are in none."""
    order = np.argsort(lengths, kind="stable")
    order = order[lengths[order] > 0]
    start = 0
    while start < order.size:
        shortest = int(lengths[order[start]])
        limit = shortest + max(1, shortest // 8)
        stop = int(np.searchsorted(lengths[order], limit, side="right"))
        room = max(1, BATCH_FLOATS // (max(limit, factors) * factors))
        stop = min(stop, start + room)
        rows = order[start:stop]
        yield rows, int(lengths[rows[-1]])
        start = stop


def _padded(matrix: sp.csr_matrix, rows: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Columns i64[b, width] and values f32[b, width] of `rows`; padding points at column 0 with value 0."""
    lengths = matrix.indptr[rows + 1] - matrix.indptr[rows]
    offset = np.arange(width)
    inside = offset[None, :] < lengths[:, None]
    at = np.where(inside, matrix.indptr[rows][:, None] + offset[None, :], 0)
    return np.where(inside, matrix.indices[at], 0), np.where(inside, matrix.data[at], 0).astype(np.float32)
