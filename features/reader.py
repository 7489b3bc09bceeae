"""A request's user and its live item columns, as the funnel wants them: full names, defaults, reasons of failure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from features.item_table import IdTable
from features.live import Column, LiveView
from features.resident import ResidentUsers
from features.store import FeatureStore, UserPlan

HISTORY = "user.history"
Rows = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class UserColumns:
    """`user.*` by full name, missing ones absent; `failed` gives the reason for columns that could not be read."""

    columns: Mapping[str, Any]
    failed: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Recent:
    """The bounded history column: its full name, and how many of the newest events it holds."""

    column: str
    last: int


class UserReader:
    """The release's user rows, the live views and the behaviour of one user: one round trip at most."""

    def __init__(
        self,
        items: IdTable,
        users: ResidentUsers,
        store: FeatureStore,
        views: Sequence[LiveView],
        recent: Recent | None,
    ) -> None:
        self._rows_of = items.rows_of_keys
        self._users = users
        self._store = store
        self._plan = UserPlan(tuple(views), behaviour=recent is not None)
        self._recent = recent
        self._names = {view.name: {f.name: f"user.{f.name}" for f in view.fields} for view in views}

    async def read(self, user_id: str | None, *, timeout: float) -> UserColumns:
        """Never raises for an outage: what could not be read stands in `failed`. Anonymous users have no columns."""
        columns: dict[str, Any] = {} if user_id is None else self._users.values(user_id)
        failed: dict[str, str] = {}
        read = await self._store.user(self._plan, user_id, rows_of=self._rows_of, timeout=timeout)
        for view, names in self._names.items():
            outcome = read.views[view]
            for field, value in outcome.values.items():
                if value is not None:
                    columns[names[field]] = value
            if outcome.reason is not None:
                failed.update(dict.fromkeys(names.values(), outcome.reason))
        if self._recent is not None:
            if read.history_error is not None:
                failed.update({HISTORY: read.history_error, self._recent.column: read.history_error})
            elif len(read.history):
                columns[HISTORY] = read.history
                columns[self._recent.column] = read.history.last(self._recent.last)
        return UserColumns(columns, failed)


class ItemFetcher:
    """Live item columns, one round trip for all views of a segment."""

    def __init__(self, items: IdTable, store: FeatureStore, views: Mapping[str, LiveView]) -> None:
        self._items = items
        self._store = store
        self._views = views
        self._fields = {f"item.{f.name}": f for view in views.values() for f in view.fields}

    async def fetch(self, wanted: Mapping[str, Sequence[str]], rows: Rows, *, timeout: float) -> Mapping[str, Column]:
        """The columns `wanted` of each view, over `rows`. Raises StoreError."""
        views = [self._views[view] for view in wanted]
        fetched = await self._store.fetch(views, self._items.ids(rows), timeout=timeout)
        return {
            name: found.columns[self._fields[name].name]
            for names, found in zip(wanted.values(), fetched, strict=True)
            for name in names
        }

    def absent(self, names: Sequence[str], n: int) -> Mapping[str, Column]:
        """The same columns when nothing could be read: defaults, else missing."""
        return {name: self._fields[name].column([None] * n) for name in names}
