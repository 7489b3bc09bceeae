"""What the enrolled units did: a file of events (CSV, Parquet or JSON lines) in columns."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite, nan
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from app.ab.errors import AbError
from app.ab.lines import JsonLines, Tick, Unread, no_tick
from app.ab.times import JsonTimes, latest, possible, why_impossible, why_unread
from bootstrap.coding import code, take, trimmed
from bootstrap.columns import events as event_codes
from bootstrap.columns import ids
from bootstrap.csv_source import open_source
from bootstrap.errors import BootstrapError
from bootstrap.mapping import ROLES, find, plain
from bootstrap.source import Source
from bootstrap.times import epoch_seconds

ONE = "event"
"""What rows are called in a file that has no column of events."""

FIELDS = ("unit", "ts", "event", "value")
"""What `--map FIELD=COLUMN` can name."""


@dataclass(frozen=True, slots=True)
class Events:
    """Events of some units, in any order: `unit` i64[n] into `units`, `event` i64[n] into `names`, `time` f64[n] epoch
    seconds, `value` f64[n] (NaN where there is none, else finite). `seen` counts all events of the file by name, and
    `last` is the time of its last one (-inf: there is none); `late` of these units' were cut off by `before`.
    """

    units: Sequence[str]
    unit: NDArray[np.int64]
    event: NDArray[np.int64]
    names: Sequence[str]
    time: NDArray[np.float64]
    value: NDArray[np.float64]
    seen: Mapping[str, int]
    unread: Unread
    last: float
    late: int = 0

    @property
    def read(self) -> int:
        """All events of the file, of whichever unit."""
        return sum(self.seen.values())

    def before(self, until: float) -> Events:
        """Those before `until` (epoch seconds)."""
        if until == np.inf:
            return self
        rows = self.time < until
        columns = {name: getattr(self, name)[rows] for name in ("unit", "event", "time", "value")}
        return replace(self, **columns, late=self.late + int((~rows).sum()))

    def of(self, name: str) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
        """Unit, time and value of the events called so."""
        rows = self.event == (self.names.index(name) if name in self.names else -1)
        return self.unit[rows], self.time[rows], self.value[rows]


@dataclass(frozen=True, slots=True)
class Whose:
    """Whose events are wanted: those of `units` (None: of everybody), whose column is called `unit_type`.

    With `every`, the units are time slices of so many seconds, and the time tells them.
    """

    units: Sequence[str] | None
    unit_type: str
    every: int | None = None


def read_events(
    path: Path, whose: Whose, mapping: Mapping[str, str], done: Tick = no_tick, *, now: float | None = None
) -> Events:
    """The events of a file; `mapping` says which column is which field. Raises AbError.

    What is dated before 1990 or more than a day after `now` (epoch seconds; None: by the clock) couldn't be read, and
    neither could an infinite value.
    """
    strange = sorted(set(mapping) - set(FIELDS))
    if strange:
        raise AbError(f"--map {strange[0]}={mapping[strange[0]]}: no such field. Expected one of {', '.join(FIELDS)}.")
    try:
        if _is_lines(path):
            return _lines(path, whose, mapping, done, latest(now))
        found = _table(open_source(path), whose, mapping, latest(now))
        done(path.stat().st_size)
        return found
    except (BootstrapError, OSError) as error:
        raise AbError(str(error)) from None


def _is_lines(path: Path) -> bool:
    return any(path.name.removesuffix(".gz").endswith(ending) for ending in (".jsonl", ".ndjson", ".json"))


def _table(source: Source, whose: Whose, mapping: Mapping[str, str], last: float) -> Events:
    unit_type = whose.unit_type
    usual = ROLES["user_id"] if unit_type == "user_id" else ()
    time_name = _column(source, "ts", mapping, ROLES["timestamp"])
    unit_name = time_name if whose.every else _column(source, "unit", mapping, (unit_type, *usual))
    if unit_name is None or time_name is None:
        field, name = ("unit", unit_type) if unit_name is None else ("ts", "ts")
        raise source.error(
            f"has no column {name}. Expected one, or --map {field}=COLUMN; there are {', '.join(source.names)}."
        )
    event_name = _column(source, "event", mapping, ROLES["event"])
    value_name = _column(source, "value", mapping, ("value",))
    time = epoch_seconds(source, time_name, source.column(time_name))
    timed = possible(time, last)
    codes: NDArray[Any]
    if whose.every:
        numbers, codes = np.unique(np.floor_divide(np.where(timed, time, 0.0), whose.every), return_inverse=True)
        texts = [str(int(number)) for number in numbers]
    else:
        codes, texts = ids(source, unit_name, source.column(unit_name))
    units = texts if whose.units is None else whose.units
    place = {text: number for number, text in enumerate(units)}
    unit = take(np.array([place.get(text, -1) for text in texts], np.int64), codes.astype(np.int32), np.int64(-1))
    if event_name is None:
        event, names = np.zeros(source.rows, np.int32), [ONE]
    else:
        event, names = event_codes(source, event_name, source.column(event_name))
    value = np.full(source.rows, np.nan) if value_name is None else _values(source, value_name)
    columns = {
        f"rows without {unit_name}, {time_name} or {event_name or ONE}": (event < 0) | (codes < 0) | np.isnan(time),
        f"column {time_name}: {_first(time, ~timed & ~np.isnan(time), why_impossible)}": ~timed,
        f"column {value_name}: {_first(value, np.isinf(value), _why_infinite)}": np.isinf(value),
    }
    good, unread = _readable(source, columns)
    counts = np.bincount(event[good], minlength=len(names))
    seen = {name: int(count) for name, count in zip(names, counts, strict=True)}
    end = float(time[good].max(initial=-np.inf))
    rows = good & (unit >= 0)
    return Events(units, unit[rows], event[rows].astype(np.int64), names, time[rows], value[rows], seen, unread, end)


def _readable(source: Source, wrong: Mapping[str, NDArray[np.bool_]]) -> tuple[NDArray[np.bool_], Unread]:
    """Which rows nothing is wrong with, and how many are unread for each reason; a row for the first that it has."""
    good, unread = np.ones(source.rows, np.bool_), Unread()
    for why, rows in wrong.items():
        count = int((good & rows).sum())
        good &= ~rows
        if count:
            unread.add(source.file, why, count)
    return good, unread


def _first(column: NDArray[np.float64], rows: NDArray[np.bool_], say: Callable[[float], str]) -> str:
    return say(float(column[rows][0])) if rows.any() else ""


def _why_infinite(value: float) -> str:
    return f"{value} is no finite number"


def _column(source: Source, field: str, mapping: Mapping[str, str], usual: Sequence[str]) -> str | None:
    if field in mapping:
        found = find(source, field, mapping[field])
        if found is None:
            raise source.error(f"has no column {mapping[field]!r} (--map). There are {', '.join(source.names)}.")
        return found
    by_plain = {plain(name): name for name in source.names}
    return next((by_plain[plain(name)] for name in usual if plain(name) in by_plain), None)


def _values(source: Source, name: str) -> NDArray[np.float64]:
    column = source.column(name)
    try:
        if pa.types.is_large_string(column.type):
            coded = code(column)
            return take(_numbers(trimmed(coded.values)), coded.codes, np.float64(np.nan))
        return _numbers(column)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise source.error(f"isn't numbers: {error}", column=name) from None


def _numbers(column: Any) -> NDArray[np.float64]:
    return np.array(column.cast(pa.float64()).to_numpy(zero_copy_only=False), np.float64)


def _lines(path: Path, whose: Whose, mapping: Mapping[str, str], done: Tick, last: float) -> Events:
    unit_field = [] if whose.every else [("unit", str | int)]
    kind: Any = msgspec.defstruct(
        "Event",
        [*unit_field, ("ts", float | str), ("event", str, ONE), ("value", float | None, None)],
        rename={"unit": whose.unit_type, **mapping},
    )
    rows = _Rows(str(path), whose, last)
    for block in JsonLines(path, kind, rows.unread).read(done):
        rows.take(block)
    return rows.events()


class _Rows:
    """Events of JSON lines, gathered block after block; only those of the wanted units are kept."""

    def __init__(self, where: str, whose: Whose, last: float) -> None:
        self.unread = Unread()
        self._where, self._whose, self._last = where, whose, last
        self._times = JsonTimes(where)
        self._place = {text: number for number, text in enumerate(whose.units or ())}
        self._unit, self._event, self._time, self._value = array("q"), array("q"), array("d"), array("d")
        self._names: dict[str, int] = {}
        self._seen: Counter[str] = Counter()
        self._end = -np.inf

    def take(self, block: Sequence[Any]) -> None:
        """Take the records of a block."""
        every, everybody = self._whose.every, self._whose.units is None
        place, names, seen = self._place, self._names, self._seen
        unit, event, times, values = self._unit.append, self._event.append, self._time.append, self._value.append
        time = self._times.read([one.ts for one in block])
        good = possible(time, self._last)
        self._end = max(self._end, float(time[good].max(initial=-np.inf)))
        for one, moment, timed in zip(block, time.tolist(), good.tolist(), strict=True):
            value = one.value
            if not timed or (value is not None and not isfinite(value)):
                self.unread.add(self._where, f"value {_why_infinite(value)}" if timed else why_unread(one.ts))
                continue
            name = one.event
            seen[name] += 1
            text = str(int(moment // every)) if every else str(one.unit)
            at = place.setdefault(text, len(place)) if everybody else place.get(text)
            if at is None:
                continue
            unit(at)
            event(names.setdefault(name, len(names)))
            times(moment)
            values(nan if value is None else value)

    def events(self) -> Events:
        """All that were taken."""
        codes = np.array(self._unit, np.int64), np.array(self._event, np.int64)
        columns = np.array(self._time), np.array(self._value)
        seen = dict(self._seen)
        return Events(list(self._place), *codes, list(self._names), *columns, seen, self.unread, self._end)
