"""How much each item sells, lately and again: columns for the ranker and lists for the channel.

Everything counts backwards from `as_of`, the moment that ages in features are measured from. Events after it
are ignored, so a caller that passes an earlier `as_of` gets what would have been known then.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

DAY = 86_400.0
WINDOWS = (7, 14, 30, 60, 180)


def popularity_columns(
    users: np.ndarray,
    items: np.ndarray,
    ts: np.ndarray,
    n_items: int,
    as_of: float,
    windows: Sequence[int] = WINDOWS,
) -> dict[str, np.ndarray]:
    """Item columns from interactions (`users`, `items` i32[m]; `ts` f64[m] epoch seconds).

    - `sold_<w>d` f32: interactions in the last w days; `buyers` f32: distinct users ever,
      `buyers_<w>d` f32: distinct users in the last w days
    - `new_buyers_<w>d` f32: users whose first interaction with the item lies in the last w days
    - `first_seen`, `last_seen` f64: epoch seconds, NaN for an item never seen
    - `repeat_share` f32: share of the item's users who came back for it on a later day, shrunk to the mean of
      all items by 5 users
    - `repurchase_days` f32: mean gap between one user's days with the item; NaN where nobody returned
    """
    known = ts <= as_of
    users, items, ts = users[known], items[known], ts[known]
    columns: dict[str, np.ndarray] = {}
    first_items, first_ts = _first_times(users, items, ts, n_items)
    for window in windows:
        recent = ts > as_of - window * DAY
        columns[f"sold_{window}d"] = _count(items[recent], n_items)
        pairs = _distinct(users[recent], items[recent], n_items)
        columns[f"buyers_{window}d"] = _count(pairs % n_items, n_items)
        columns[f"new_buyers_{window}d"] = _count(first_items[first_ts > as_of - window * DAY], n_items)
    columns["buyers"] = _count(_distinct(users, items, n_items) % max(n_items, 1), n_items)
    first, last = np.full(n_items, np.inf), np.full(n_items, -np.inf)
    np.minimum.at(first, items, ts)
    np.maximum.at(last, items, ts)
    columns["first_seen"] = np.where(np.isfinite(first), first, np.nan)
    columns["last_seen"] = np.where(np.isfinite(last), last, np.nan)
    columns.update(_returns(users, items, ts, n_items))
    return columns


def sold_of_codes(sold: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """For each item the sum of `sold` f32[n] over the items of its code: f32[n]; NaN without one (`codes` < 0)."""
    coded = codes >= 0
    known, at = np.unique(codes[coded], return_inverse=True)
    out = np.full(sold.size, np.nan, np.float32)
    out[coded] = np.bincount(at, sold[coded], minlength=known.size)[at]
    return out


def popularity_lists(
    items: np.ndarray,
    ts: np.ndarray,
    n_items: int,
    as_of: float,
    half_life_days: float = 7.0,
    top: int = 500,
    groups: np.ndarray | None = None,
    n_groups: int = 0,
    prior: float = 200.0,
) -> sp.csr_matrix:
    """Recently popular items: CSR f32 ((1 + n_groups) x n_items), a row in descending score, `top` at most.

    Row 0 is everyone; row 1 + g is group g of `groups` i32[m] (each event's group, -1 for none). A score is a
    share of decayed interactions; a group's is shrunk to everyone's with the weight of `prior` decayed
    interactions, so that a small group differs from everyone only where it has evidence.
    """
    known = ts <= as_of
    weight = np.exp2(-(as_of - ts) / DAY / half_life_days) * known
    overall = np.bincount(items, weight, minlength=n_items)
    share = overall / max(overall.sum(), 1e-12)
    rows = [_top(share, top)]
    for group in range(n_groups):
        member = (groups == group) if groups is not None else np.zeros(items.size, dtype=bool)
        mine = np.bincount(items[member], weight[member], minlength=n_items)
        rows.append(_top((mine + prior * share) / (mine.sum() + prior), top))
    indptr = np.concatenate([[0], np.cumsum([row.size for row, _ in rows])])
    flat = np.concatenate([row for row, _ in rows]).astype(np.int32)
    data = np.concatenate([score for _, score in rows]).astype(np.float32)
    return sp.csr_matrix((data, flat, indptr), shape=(1 + n_groups, n_items))


def _top(score: np.ndarray, top: int) -> tuple[np.ndarray, np.ndarray]:
    order = np.argsort(-score, kind="stable")[:top]
    order = order[score[order] > 0]
    return order, score[order]


def _count(items: np.ndarray, n_items: int) -> np.ndarray:
    return np.bincount(items, minlength=n_items).astype(np.float32)


def _distinct(users: np.ndarray, items: np.ndarray, n_items: int) -> np.ndarray:
    return np.unique(users.astype(np.int64) * n_items + items)


def _first_times(users: np.ndarray, items: np.ndarray, ts: np.ndarray, n_items: int) -> tuple[np.ndarray, np.ndarray]:
    """Item and time of each distinct pair's first interaction."""
    pair = users.astype(np.int64) * n_items + items
    order = np.lexsort((ts, pair))
    start = np.flatnonzero(np.diff(pair[order], prepend=-1))
    return items[order[start]], ts[order[start]]


def _returns(users: np.ndarray, items: np.ndarray, ts: np.ndarray, n_items: int) -> dict[str, np.ndarray]:
    pair = users.astype(np.int64) * n_items + items
    day = np.floor(ts / DAY).astype(np.int64)
    order = np.lexsort((day, pair))
    pair, day = pair[order], day[order]
    same = pair[1:] == pair[:-1]
    gap = np.diff(day)
    later = same & (gap > 0)
    item = (pair[1:] % max(n_items, 1))[later]
    gaps = np.bincount(item, gap[later], minlength=n_items)
    times = np.bincount(item, minlength=n_items)
    came_back = _count(np.unique(pair[1:][later]) % max(n_items, 1), n_items)
    buyers = _count(np.unique(pair) % max(n_items, 1), n_items)
    mean = came_back.sum() / max(buyers.sum(), 1.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        days = np.where(times > 0, gaps / times, np.nan)
    share = (came_back + 5.0 * mean) / (buyers + 5.0)
    return {"repeat_share": share.astype(np.float32), "repurchase_days": days.astype(np.float32)}
