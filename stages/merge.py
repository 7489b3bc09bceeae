"""Merging channels: one row per item, a source bit per channel, and each channel's score and rank as columns.

The merged score is reciprocal rank fusion (Cormack, Clarke and Buettcher, SIGIR 2009, k = 60): it orders the
list when no ranker runs, and decides who stays when the channels together exceed the limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from stages.arrays import best, descending, packed_sort, positions, run_starts
from stages.types import F32, Candidates, Column, ColumnSource, Hits, Index, Mask, Rows

FUSION_K = 60.0
_NO_ROWS: Rows = np.empty(0, np.int32)


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
    lengths = np.array([len(hit.rows) for hit in hits], np.int64)
    ends = np.cumsum(lengths)
    keys = packed_sort(np.concatenate([*(hit.rows for hit in hits), _NO_ROWS]))
    order, ordered = positions(keys), keys >> 32
    starts = run_starts(ordered)
    ranks = np.arange(1, len(order) + 1, dtype=np.float32)
    ranks -= (ends - lengths).repeat(lengths)
    bits = (np.uint64(1) << np.arange(len(hits), dtype=np.uint64)).repeat(lengths)
    score: F32 = np.add.reduceat((1.0 / (FUSION_K + ranks)).take(order), starts)
    source = np.bitwise_or.reduceat(bits.take(order), starts)
    columns = _ChannelColumns(hits, names, ends, order, starts)
    batch = Candidates(ordered.take(starts).astype(np.int32), score, source, columns, sources)
    if len(score) <= limit or not at_least:
        return batch.take(best(score, limit))
    must = np.zeros(len(score), np.bool_)
    for name, place in zip(names, columns.places, strict=True):
        must[place[: at_least.get(name, 0)]] = True
    return batch.take(_best(score, must, limit))


class _ChannelColumns(Mapping[str, Column]):
    """`channel.NAME.score` and `channel.NAME.rank`, made when asked for: a scene that reads none pays for none."""

    __slots__ = ("_ends", "_hits", "_names", "_order", "_places", "_starts")

    def __init__(
        self, hits: Sequence[Hits], names: Sequence[str], ends: NDArray[np.int64], order: Index, starts: Index
    ) -> None:
        self._hits = hits
        self._names = names
        self._ends = ends
        self._order = order
        self._starts = starts
        self._places: list[Index] | None = None

    @property
    def places(self) -> list[Index]:
        """For each channel the positions of its entries among the distinct rows."""
        if self._places is None:
            runs = np.diff(self._starts, append=len(self._order))
            place = np.empty(len(self._order), np.intp)
            place[self._order] = np.repeat(np.arange(len(runs)), runs)
            self._places = np.split(place, self._ends[:-1])[: len(self._hits)]
        return self._places

    def __getitem__(self, name: str) -> Column:
        kind, _, rest = name.partition(".")
        channel, _, what = rest.rpartition(".")
        if kind != "channel" or channel not in self._names or what not in ("score", "rank"):
            raise KeyError(name)
        at = self._names.index(channel)
        place = self.places[at]
        column = np.full(len(self._starts), np.nan, np.float32)
        column[place] = self._hits[at].scores if what == "score" else np.arange(1, len(place) + 1)
        return column

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.startswith("channel.") and name in tuple(self)

    def __iter__(self) -> Iterator[str]:
        return (f"channel.{name}.{what}" for name in self._names for what in ("score", "rank"))

    def __len__(self) -> int:
        return 2 * len(self._names)


def _best(score: F32, must: Mask, limit: int) -> Index:
    order = descending(score)
    kept = np.zeros(len(order), np.bool_)
    first = must.take(order)
    kept[np.flatnonzero(first)[:limit]] = True
    kept[np.flatnonzero(~first)[: max(limit - int(kept.sum()), 0)]] = True
    return order[kept]
