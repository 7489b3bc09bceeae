"""Columns of a behaviour log that describe its items or its users rather than the single event."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bootstrap.coding import Coded
from bootstrap.data import Column
from bootstrap.mapping import ATTRIBUTES, attribute_names
from bootstrap.source import Source
from bootstrap.typed import PRICE, Unusable, attribute, typed

SHARE = 0.95
"""A column belongs to an entity when so many of its rows have their entity's most frequent value."""
FEW = 20
"""So many different values may describe users whatever their number."""


@dataclass(frozen=True)
class Groups:
    """Who each kept row is about: `code` i32[n] below `size`."""

    code: NDArray[np.int32]
    size: int


@dataclass
class Attached:
    """What became of the log's further columns."""

    items: dict[str, Column] = field(default_factory=dict)
    users: dict[str, Column] = field(default_factory=dict)
    used: dict[str, str] = field(default_factory=dict)
    ignored: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def attach(
    source: Source,
    names: Sequence[str],
    mapping: Mapping[str, str],
    items: Groups,
    users: Groups,
) -> Attached:
    """Gives each further column to the items or to the users, or to nobody.

    A column that `mapping` names goes to whichever it fits better; `price` becomes the median over an item's rows;
    any other needs SHARE, and must tell much more than the column's own most frequent value does (a country that
    97% of rows share belongs to nobody). The rows of `source` are those that `items` and `users` are about,
    ascending in time.
    """
    out = Attached()
    for name, column in attribute_names(names, source, mapping, of_items=True).items():
        try:
            found = attribute(source, column, name, mapped=name in mapping)
        except Unusable as why:
            out.ignored[column] = str(why)
            continue
        if name == PRICE:
            prices = typed(source, column, found.coded, found.coded.codes)
            out.items[name] = medians(np.asarray(prices, np.float32), items)
            out.used[name] = column
        else:
            _give(out, source, (name, column), found.coded, items, users, forced=name in mapping)
        if name in out.used:
            out.notes += found.notes
    return out


def _give(
    out: Attached,
    source: Source,
    names: tuple[str, str],
    values: Coded,
    items: Groups,
    users: Groups,
    *,
    forced: bool,
) -> None:
    name, column = names
    of_item, item_share = modes(values.codes, items, len(values.values))
    of_user, user_share = modes(values.codes, users, len(values.values))
    known = values.codes[values.codes >= 0]
    common = float(np.bincount(known).max() / len(known))
    share = max(item_share, user_share)
    forced = forced or (name in ATTRIBUTES and item_share == 0)  # no item has two rows that could disagree
    if not forced and (share < SHARE or 1 - share > (1 - common) / 2 or common == 1):
        out.ignored[column] = "is the same everywhere" if common == 1 else "describes neither items nor users"
        return
    if not forced and user_share > item_share and len(values.values) > max(users.size / 2, FEW):
        out.ignored[column] = "tells single users apart"
        return
    out.used[name] = column
    if user_share > item_share:
        out.users[name] = typed(source, column, values, of_user)
    else:
        out.items[name] = typed(source, column, values, of_item)


def modes(codes: NDArray[np.int32], groups: Groups, size: int) -> tuple[NDArray[np.int32], float]:
    """Each group's most frequent code (i32[groups.size], -1: none; the later one of equals), and the share of
    rows that hold it, over groups with two rows or more (0 without any). O(n log n)."""
    known = codes >= 0
    pairs, counts = np.unique(groups.code[known].astype(np.int64) * size + codes[known], return_counts=True)
    order = np.argsort(counts, kind="stable")  # so that the most frequent is written last
    pairs, counts = pairs[order], counts[order]
    group = pairs // size
    best = np.full(groups.size, -1, np.int32)
    best[group] = pairs % size
    agreeing = np.zeros(groups.size, np.int64)
    agreeing[group] = counts
    rows = np.bincount(groups.code[known], minlength=groups.size)
    several = rows > 1
    total = int(rows[several].sum())
    return best, float(agreeing[several].sum() / total) if total else 0.0


def medians(values: NDArray[np.float32], groups: Groups) -> NDArray[np.float32]:
    """f32[groups.size]: the lower median of each group's positive finite values, NaN without any."""
    known = np.isfinite(values) & (values > 0)
    code, values = groups.code[known], values[known]
    values = values[np.lexsort((values, code))]
    counts = np.bincount(code, minlength=groups.size)
    out = np.full(groups.size, np.nan, np.float32)
    present = counts > 0
    starts = np.cumsum(counts) - counts
    out[present] = values[(starts + (counts - 1) // 2)[present]]
    return out
