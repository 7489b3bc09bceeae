"""Ids to row numbers and back, by sorted 64-bit hashes and a blob of ids that can be memory-mapped.

A row number means something inside one release only; outside, an item is its id or its id's hash.
A dict of a million ids costs 135 MB in every process; this costs 30 MB, shared by all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from features.ids import key_hash, key_hashes

Rows = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class IdTable:
    """Ids of one entity (items, users) in one release.

    keys u64[n] ascending; order i32[n], the row of the i-th key; offsets i64[n+1] into blob u8[*], by row.
    """

    version: str
    keys: NDArray[np.uint64]
    order: Rows
    offsets: NDArray[np.int64]
    blob: NDArray[np.uint8]

    @classmethod
    def build(cls, ids: Sequence[str], version: str = "") -> IdTable:
        """Row i is `ids[i]`. ValueError on a repeated id, or on two ids of one hash."""
        encoded = [i.encode() for i in ids]
        hashes = key_hashes(ids)
        order = np.argsort(hashes, kind="stable").astype(np.int32)
        keys = hashes[order]
        same = np.flatnonzero(keys[1:] == keys[:-1])
        if len(same):
            first, second = ids[order[same[0]]], ids[order[same[0] + 1]]
            raise ValueError(
                f"Id {first!r} stands twice."
                if first == second
                else f"Ids {first!r} and {second!r} share a 64-bit hash. Rename one of them."
            )
        offsets = np.zeros(len(ids) + 1, np.int64)
        np.cumsum([len(e) for e in encoded], out=offsets[1:])
        return cls(version, keys, order, offsets, np.frombuffer(b"".join(encoded), np.uint8))

    def __len__(self) -> int:
        return len(self.keys)

    def rows(self, ids: Sequence[str]) -> Rows:
        """Row of each id, i32[len(ids)]; -1 for an unknown one. Never inserts."""
        return self.rows_of_keys(key_hashes(ids))

    def rows_of_keys(self, keys: NDArray[np.uint64]) -> Rows:
        """Row of each 64-bit id hash, i32[n]; -1 for an unknown one. O(n log len(self))."""
        if not len(self.keys):
            return np.full(len(keys), -1, np.int32)
        at = self.keys.searchsorted(keys)
        rows: Rows = self.order.take(at, mode="clip")
        rows[self.keys.take(at, mode="clip") != keys] = -1
        return rows

    def row(self, identity: str) -> int:
        """Row of one id, -1 for an unknown one."""
        key = np.uint64(key_hash(identity.encode()))
        at = int(self.keys.searchsorted(key))
        return int(self.order[at]) if at < len(self.keys) and self.keys[at] == key else -1

    def ids(self, rows: Rows) -> list[str]:
        """The ids of rows; every row must be >= 0. O(n) strings: for what is returned, not for candidates."""
        starts, ends = self.offsets.take(rows).tolist(), self.offsets.take(rows + 1).tolist()
        blob = self.blob.data
        return [str(blob[a:b], "utf-8") for a, b in zip(starts, ends, strict=True)]
