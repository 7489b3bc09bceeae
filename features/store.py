"""The feature store: what a stage needs, in one round trip, with missing and error told apart.

Missing is a value like any other: defaults stand in for it, and it may be cached. An
error is neither; it carries the reason that the answer's `degraded` gives.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from features.behaviour import Behaviour, RowsOf
from features.codec import DecodedRows, decode_rows
from features.commands import Commands, Reply
from features.errors import CommandError, StoreError, StoreUnavailable
from features.history import History
from features.ids import byte_key_hashes
from features.live import Column, LiveView, Value
from features.user_cache import UserCache


@dataclass(frozen=True, slots=True, eq=False)
class ViewRead:
    """One live view of one user.

    outcome  `values`: the row is there; `missing`: it isn't; `error`: nobody knows
    values   every field of the view, defaults filled in whatever the outcome, None where there is none
    reason   of an error (`StoreError.reason`), else None
    """

    outcome: Literal["values", "missing", "error"]
    values: Mapping[str, Value]
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class UserPlan:
    """What a scene reads of its user: cut once, at load."""

    views: tuple[LiveView, ...] = ()
    behaviour: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class UserRead:
    """A user as read for one request; `history_error` is a reason, and the history empty then."""

    history: History
    history_error: str | None
    views: Mapping[str, ViewRead]


@dataclass(frozen=True, slots=True, eq=False)
class Fetched:
    """Live values of n items: name -> typed column of n with defaults filled in, and bool[n]."""

    columns: Mapping[str, Column]
    present: NDArray[np.bool_]


_NO_HISTORY = History.empty()


class FeatureStore:
    """Reads users and live views through `Commands`; owns the user caches and the counters.

    `undecoded` counts, per view, fields and rows that were there but could not be
    decoded; they are treated as missing. Belongs to one event loop.
    """

    def __init__(self, commands: Commands, behaviour: Behaviour, clock: Callable[[], float]) -> None:
        self._commands = commands
        self._behaviour = behaviour
        self._clock = clock
        self.caches: dict[LiveView, UserCache[ViewRead]] = {}
        self.undecoded: dict[str, int] = {}

    def prepare(self, plans: Sequence[UserPlan]) -> None:
        """Make the caches of the plans' views, keep those of views that didn't change, drop the rest."""
        wanted = {view: view.cache for plan in plans for view in plan.views if view.cache}
        self.caches = {
            view: self.caches.get(view) or UserCache(policy.capacity, policy.ttl, self._clock)
            for view, policy in wanted.items()
        }

    async def user(self, plan: UserPlan, user_id: str | None, *, rows_of: RowsOf, timeout: float) -> UserRead:
        """Read behaviour and all live views of a user in one round trip.

        None is an anonymous user: nothing is read, everything is missing. Views may
        come from the cache, behaviour never does. Raises nothing for the store's
        sake: what failed says so in its own outcome.
        """
        views: dict[str, ViewRead] = {}
        asked: list[LiveView] = []
        for view in plan.views:
            cached = None
            if user_id is not None and (cache := self.caches.get(view)) is not None:
                cached = cache.get(user_id)
            if cached is not None:
                views[view.name] = cached
            elif user_id is None:
                views[view.name] = ViewRead("missing", view.defaults())
            else:
                asked.append(view)
        history, error = _NO_HISTORY, None
        if user_id is None or not (asked or plan.behaviour):
            return UserRead(history, error, views)
        identity = user_id.encode()
        commands = [view.command(identity) for view in asked]
        if plan.behaviour:
            commands += self._behaviour.read_commands(user_id)
        try:
            replies = await self._commands.execute(commands, timeout=timeout)
            if plan.behaviour:
                history, error = self._history(replies[len(asked) :], rows_of)
            for view, reply in zip(asked, replies, strict=False):
                views[view.name] = self._read(view, user_id, reply)
        except StoreError as failure:
            error = failure.reason if plan.behaviour else None
            views.update({v.name: ViewRead("error", v.defaults(), failure.reason) for v in asked})
        return UserRead(history, error, views)

    async def fetch(self, views: Sequence[LiveView], ids: Sequence[str], *, timeout: float) -> list[Fetched]:
        """Read live views of n items, all in one round trip: per view one MGET, or n pipelined HMGETs.

        Raises StoreError.
        """
        if not ids:
            return [self._from_fields(view, []) for view in views]
        identities = [text.encode() for text in ids]
        batches = [view.commands(identities) for view in views]
        replies = await self._commands.execute([c for batch in batches for c in batch], timeout=timeout)
        ends = np.cumsum([len(batch) for batch in batches]).tolist()
        parts = [replies[end - len(batch) : end] for batch, end in zip(batches, ends, strict=True)]
        return [self._fetched(view, identities, part) for view, part in zip(views, parts, strict=True)]

    def _fetched(self, view: LiveView, identities: Sequence[bytes], replies: Sequence[Reply]) -> Fetched:
        if view.schema is None:
            return self._from_fields(view, [self._fields(view, reply) for reply in replies])
        return self._from_rows(view, self._decode(view, identities, _list(replies[0])))

    def _history(self, replies: Sequence[Reply], rows_of: RowsOf) -> tuple[History, str | None]:
        try:
            return self._behaviour.decode(replies, rows_of), None
        except CommandError as refused:
            return History.empty(), refused.reason

    def _read(self, view: LiveView, user_id: str, reply: Reply) -> ViewRead:
        try:
            if view.schema is None:
                parsed = self._fields(view, reply)
            else:
                parsed = self._row(view, user_id.encode(), reply)
        except CommandError as refused:
            return ViewRead("error", view.defaults(), refused.reason)
        values = view.defaults()
        if parsed is None:
            read = ViewRead("missing", values)
        else:
            values.update({name: value for name, value in parsed.items() if value is not None})
            read = ViewRead("values", values)
        cache = self.caches.get(view)
        if cache is not None:
            cache.put(user_id, read, _size(values))
        return read

    def _fields(self, view: LiveView, reply: Reply) -> dict[str, Value] | None:
        """Return the parsed fields of an HMGET, None when the hash has none of them."""
        if isinstance(reply, CommandError) and str(reply).startswith("WRONGTYPE"):
            self._count(view, 1)
            return None
        raws = _list(reply)
        parsed: dict[str, Value] = {}
        found = False
        for f, parse, raw in zip(view.fields, view.parsers, raws, strict=True):
            parsed[f.name] = None
            if isinstance(raw, bytes):
                found = True
                try:
                    parsed[f.name] = parse(raw)
                except ValueError:
                    self._count(view, 1)
        return parsed if found else None

    def _row(self, view: LiveView, identity: bytes, reply: Reply) -> dict[str, Value] | None:
        if isinstance(reply, CommandError) and str(reply).startswith("WRONGTYPE"):
            self._count(view, 1)
            return None
        if isinstance(reply, CommandError):
            raise reply
        rows = self._decode(view, [identity], [reply])
        if not rows.present[0]:
            return None
        values: dict[str, Value] = {}
        for f in view.fields:
            value = rows.columns[f.stored_as][0]
            values[f.name] = None if np.isnan(value).any() else value if f.width else float(value)
        return values

    def _decode(self, view: LiveView, identities: Sequence[bytes], replies: Sequence[Reply]) -> DecodedRows:
        assert view.schema is not None
        values = [reply if isinstance(reply, bytes) else None for reply in replies]
        rows = decode_rows(values, byte_key_hashes(identities), view.schema)
        self._count(view, rows.failures)
        return rows

    def _from_rows(self, view: LiveView, rows: DecodedRows) -> Fetched:
        columns: dict[str, Column] = {}
        for f in view.fields:
            column = rows.columns[f.stored_as]
            if f.default is not None and (absent := np.isnan(column)).any():
                column = np.where(absent, np.float32(f.default), column)
            columns[f.name] = column
        return Fetched(columns, rows.present)

    def _from_fields(self, view: LiveView, rows: Sequence[dict[str, Value] | None]) -> Fetched:
        columns = {f.name: f.column([None if row is None else row[f.name] for row in rows]) for f in view.fields}
        return Fetched(columns, np.fromiter((row is not None for row in rows), np.bool_, len(rows)))

    def _count(self, view: LiveView, failures: int) -> None:
        if failures:
            self.undecoded[view.name] = self.undecoded.get(view.name, 0) + failures


def _list(reply: Reply) -> list[Reply]:
    if isinstance(reply, CommandError):
        raise reply
    if not isinstance(reply, list):
        raise StoreUnavailable(f"a list was expected, the store answered {type(reply).__name__}")
    return reply


def _size(values: Mapping[str, Value]) -> int:
    """Estimate of a row's memory in bytes: CPython's objects and the dictionary around them."""
    total = 250 + 100 * len(values)
    for value in values.values():
        if isinstance(value, np.ndarray):
            total += value.nbytes
        elif isinstance(value, str):
            total += 2 * len(value)
    return total
