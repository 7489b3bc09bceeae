"""Merging channels: one row per item, a source bit per channel, and each channel's score and rank as columns.

The merged score is reciprocal rank fusion (Cormack, Clarke and Buettcher, SIGIR 2009, k = 60): it orders the
list when no ranker runs, and decides who stays when the channels together exceed the limit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from stages.arrays import descending
from stages.types import F32, Candidates, Column, ColumnSource, Hits, Index, Rows

FUSION_K = 60.0


def merge(
    hits: Sequence[Hits],
    names: Sequence[str],
    sources: ColumnSource,
    *,
    limit: int,
    at_least: Mapping[str, int],
) -> Candidates:
    """Candidates of all channels, best fused score first, at most `limit`.

    `hits[i]` belongs to channel `names[i]` and to source bit i. A channel in `at_least` keeps that many of its
    best when the limit cuts. Columns `channel.NAME.score` and `channel.NAME.rank` (from 1) are NaN where the
    channel did not return the item. O(total log total).
    """
    rows, places = _union([h.rows for h in hits])
    n = len(rows)
    score = np.zeros(n, np.float32)
    source = np.zeros(n, np.uint64)
    columns: dict[str, Column] = {}
    must = np.zeros(n, np.bool_)
    for bit, (name, hit, at) in enumerate(zip(names, hits, places, strict=True)):
        ranks = np.arange(1, len(at) + 1, dtype=np.float32)
        score[at] += 1.0 / (FUSION_K + ranks)
        source[at] |= np.uint64(1 << bit)
        columns[f"channel.{name}.score"] = _scatter(n, at, hit.scores)
        columns[f"channel.{name}.rank"] = _scatter(n, at, ranks)
        must[at[: at_least.get(name, 0)]] = True
    batch = Candidates(rows, score, source, columns, sources)
    return batch.take(_best(score, must, limit))


def _union(parts: Sequence[Rows]) -> tuple[Rows, list[Index]]:
    """Distinct rows, ascending, and for each part the position of its entries among them.

    Row and position share one int64, so that a plain (vectorised) sort does the work of an argsort.
    """
    rows = np.concatenate([*parts, np.empty(0, np.int32)])
    total = len(rows)
    keys = (rows.astype(np.int64) << 32) | np.arange(total)
    keys.sort()
    ordered = (keys >> 32).astype(np.int32)
    first = np.empty(total, np.bool_)
    first[:1] = True
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    place = np.empty(total, np.intp)
    place[keys & 0xFFFFFFFF] = np.cumsum(first) - 1
    bounds = np.cumsum([len(p) for p in parts])[:-1]
    return ordered[first], np.split(place, bounds) if len(parts) else []


def _scatter(n: int, at: Index, values: F32) -> F32:
    column = np.full(n, np.nan, np.float32)
    column[at] = values
    return column


def _best(score: F32, must: np.ndarray[tuple[int], np.dtype[np.bool_]], limit: int) -> Index:
    order = descending(score)
    if len(order) <= limit:
        return order
    kept = np.zeros(len(order), np.bool_)
    first = must.take(order)
    kept[np.flatnonzero(first)[:limit]] = True
    kept[np.flatnonzero(~first)[: max(limit - int(kept.sum()), 0)]] = True
    return order[kept]
