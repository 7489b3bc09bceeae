"""Bootstrap's own view of its input: rows of one item table and one user table, and attributes as columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bootstrap.data import Entities, Inputs
from bootstrap.errors import BootstrapError
from bootstrap.recipe import Found
from expression import Strings
from features.behaviour import event_codes
from features.event_codec import EVENT
from features.history import History
from features.ids import key_hashes
from features.manifest import Column, type_name

GROUP_NAMES = ("region", "country", "state", "city", "store", "segment")
MAX_CODES = 2_000  # more values than this say little about an item's kind
ITEMS_OF_A_CODE = 10  # with so many items for each value on average, more values still tell what a user likes
ITEMS_OF_A_KIND = 2  # with fewer items for each value on average, no list could be spread over the values
MAX_GROUPS = 50


@dataclass(frozen=True)
class Dataset:
    """Interactions by row, ascending in time: user i32[m], item i32[m], ts f64[m], event u16[m] codes, weight f32[m].

    `user_rows` [u+1] bounds each user's events in `by_user`, which sorts them by user and time.
    """

    user_ids: list[str]
    item_ids: list[str]
    user: NDArray[np.int32]
    item: NDArray[np.int32]
    ts: NDArray[np.float64]
    event: NDArray[np.uint16]
    weight: NDArray[np.float32]
    item_columns: dict[str, Column]
    user_columns: dict[str, Column]
    found: Found
    as_of: float
    by_user: NDArray[np.int64] = field(init=False, repr=False)
    bounds: NDArray[np.int64] = field(init=False, repr=False)
    item_keys: NDArray[np.uint64] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        order = np.argsort(self.user, kind="stable")
        object.__setattr__(self, "by_user", order)
        bounds = np.searchsorted(self.user[order], np.arange(len(self.user_ids) + 1))
        object.__setattr__(self, "bounds", bounds)
        object.__setattr__(self, "item_keys", key_hashes(self.item_ids))

    @classmethod
    def of(cls, inputs: Inputs, *, as_of: float | None = None) -> Dataset:
        """Put the input's ids into rows and type its attributes. `as_of` defaults to the newest event's time."""
        log = inputs.interactions
        if not len(log):
            raise BootstrapError("The interactions have no rows. Expected purchases or clicks of users.")
        user_at, item_at = _places(log.user_ids, inputs.users.ids), _places(log.item_ids, inputs.items.ids)
        item_columns, user_columns = _columns(inputs.items), _columns(inputs.users)
        codes = _codes(log.events)
        most = max(MAX_CODES, len(inputs.items.ids) // ITEMS_OF_A_CODE)
        item_kinds = {
            n: _kind(c)
            for n, c in item_columns.items()
            if n == "title" or not isinstance(c, Strings) or 1 < len(c.vocab) <= most
        }
        found = Found(
            item_columns=item_kinds,
            user_columns={n: _kind(c) for n, c in user_columns.items()},
            events=tuple(log.events),
            group=_group(user_columns),
            kind=_divider(inputs.kind, {n: c for n, c in item_columns.items() if n in item_kinds and n != "title"}),
        )
        user, item, ts, event = user_at[log.user], item_at[log.item], np.floor(log.ts), codes[log.event]
        once = _once(user, item, ts, event)
        return cls(
            user_ids=inputs.users.ids,
            item_ids=inputs.items.ids,
            user=user[once],
            item=item[once],
            ts=ts[once],
            event=event[once],
            weight=log.weight[once],
            item_columns={n: item_columns[n] for n in item_kinds},
            user_columns=user_columns,
            found=found,
            as_of=float(np.floor(log.ts[-1])) if as_of is None else as_of,
        )

    def before(self, cut: float) -> Dataset:
        """The same tables with the events before `cut` only, and as_of there."""
        known = self.ts < cut
        return replace(
            self,
            user=self.user[known],
            item=self.item[known],
            ts=self.ts[known],
            event=self.event[known],
            weight=self.weight[known],
            as_of=cut,
        )

    def history(self, user: int) -> History:
        """One user's events."""
        at = self.by_user[self.bounds[user] : self.bounds[user + 1]]
        rows = self.item[at]
        return History(rows, self.item_keys[rows], self.ts[at], self.event[at], self.weight[at])

    def records(self, user: int) -> NDArray[np.void]:
        """One user's events as the store keeps them."""
        at = self.by_user[self.bounds[user] : self.bounds[user + 1]]
        made = np.empty(len(at), EVENT)
        made["item"] = self.item_keys[self.item[at]]
        made["ts"] = self.ts[at].astype(np.int64)
        made["event"] = self.event[at]
        made["weight"] = self.weight[at]
        return made

    def taken_in(self, start: float, end: float) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Distinct (user, item) pairs of the events in [start, end), by user."""
        inside = (self.ts >= start) & (self.ts < end)
        pairs = np.unique(self.user[inside].astype(np.int64) * len(self.item_ids) + self.item[inside])
        return (pairs // len(self.item_ids)).astype(np.int32), (pairs % len(self.item_ids)).astype(np.int32)


def _once(
    user: NDArray[np.int32], item: NDArray[np.int32], ts: NDArray[np.float64], event: NDArray[np.uint16]
) -> NDArray[np.intp]:
    """The first of each (user, item, second, event), in the order given: the store counts such repeats once too."""
    order = np.lexsort((event, ts, item, user))
    repeated = np.ones(max(len(order) - 1, 0), np.bool_)
    for column in (user, item, ts, event):
        ordered = column[order]
        repeated &= ordered[1:] == ordered[:-1]
    fresh = np.concatenate([np.ones(min(len(order), 1), np.bool_), ~repeated])
    return np.sort(order[fresh])


def _places(names: Sequence[str], ids: Sequence[str]) -> NDArray[np.int32]:
    at = {name: place for place, name in enumerate(ids)}
    return np.array([at[name] for name in names], np.int32)


def _codes(events: Sequence[str]) -> NDArray[np.uint16]:
    try:
        return np.array(list(event_codes(events).values()), np.uint16)
    except ValueError as error:
        raise BootstrapError(f"The interactions: {error}") from None


def _columns(entities: Entities) -> dict[str, Column]:
    return {n: Strings.encode(c) if isinstance(c, list) else np.asarray(c) for n, c in entities.columns.items()}


def _kind(column: Any) -> str:
    if isinstance(column, Strings):
        return "str"
    kind = type_name(column)
    return "time" if kind == "f64" else kind


def _divider(wanted: str, columns: dict[str, Column]) -> str | None:
    """The column wanted, else the string column with the most values, the finest division of the catalogue; one with
    hardly more items than values divides nothing."""
    texts = {name: column for name, column in columns.items() if isinstance(column, Strings)}
    if wanted in texts:
        return wanted
    sizes = {name: len(column.vocab) for name, column in texts.items() if _groups(column)}
    return max(sizes, key=lambda name: (sizes[name], name)) if sizes else None


def _groups(column: Strings) -> bool:
    values = len(column.vocab)
    return values <= MAX_CODES and values * ITEMS_OF_A_KIND <= int(np.count_nonzero(column.codes >= 0))


def _group(columns: dict[str, Column]) -> str | None:
    for name in GROUP_NAMES:
        column = columns.get(name)
        if isinstance(column, Strings) and 1 < len(column.vocab) <= MAX_GROUPS:
            return name
    return None
