"""What the enrolled units did: a file of events (CSV, Parquet or JSON lines) in columns."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from app.ab.errors import AbError
from app.ab.lines import JsonLines, Tick, Unread, no_tick
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
    seconds, `value` f64[n] (NaN where there is none). `seen` counts all events of the file by name.
    """

    units: Sequence[str]
    unit: NDArray[np.int64]
    event: NDArray[np.int64]
    names: Sequence[str]
    time: NDArray[np.float64]
    value: NDArray[np.float64]
    seen: Mapping[str, int]
    unread: Unread

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


def read_events(path: Path, whose: Whose, mapping: Mapping[str, str], done: Tick = no_tick) -> Events:
    """The events of a file; `mapping` says which column is which field. Raises AbError."""
    strange = sorted(set(mapping) - set(FIELDS))
    if strange:
        raise AbError(f"--map {strange[0]}={mapping[strange[0]]}: no such field. Expected one of {', '.join(FIELDS)}.")
    try:
        if _is_lines(path):
            return _lines(path, whose, mapping, done)
        found = _table(open_source(path), whose, mapping)
        done(path.stat().st_size)
        return found
    except (BootstrapError, OSError) as error:
        raise AbError(str(error)) from None


def _is_lines(path: Path) -> bool:
    return any(path.name.removesuffix(".gz").endswith(ending) for ending in (".jsonl", ".ndjson", ".json"))


def _table(source: Source, whose: Whose, mapping: Mapping[str, str]) -> Events:
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
    codes: NDArray[Any]
    if whose.every:
        numbers, codes = np.unique(np.floor_divide(np.nan_to_num(time), whose.every), return_inverse=True)
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
    counts = np.bincount(event[event >= 0], minlength=len(names))
    rows = (unit >= 0) & (event >= 0) & ~np.isnan(time)
    unread = Unread()
    lost = int(((event < 0) | (codes < 0) | np.isnan(time)).sum())
    if lost:
        unread.count = lost
        unread.first.append(f"{source.file}: rows without {unit_name}, {time_name} or {event_name or ONE}")
    seen = {name: int(count) for name, count in zip(names, counts, strict=True)}
    return Events(units, unit[rows], event[rows].astype(np.int64), names, time[rows], value[rows], seen, unread)


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


def _lines(path: Path, whose: Whose, mapping: Mapping[str, str], done: Tick) -> Events:
    unit_field = [] if whose.every else [("unit", str | int)]
    kind: Any = msgspec.defstruct(
        "Event",
        [*unit_field, ("ts", float | str), ("event", str, ONE), ("value", float | None, None)],
        rename={"unit": whose.unit_type, **mapping},
    )
    place = {text: number for number, text in enumerate(whose.units or ())}
    everybody = whose.units is None
    unit, event, time, value = array("q"), array("q"), array("d"), array("d")
    names: dict[str, int] = {}
    seen: Counter[str] = Counter()
    unread = Unread()
    for block in JsonLines(path, kind, unread).read(done):
        for one in block:
            moment = _moment(one.ts)
            if moment is None:
                unread.add(str(path), f"{one.ts!r} is no time")
                continue
            seen[one.event] += 1
            text = str(int(moment // whose.every)) if whose.every else str(one.unit)
            at = place.setdefault(text, len(place)) if everybody else place.get(text)
            if at is None:
                continue
            unit.append(at)
            event.append(names.setdefault(one.event, len(names)))
            time.append(moment)
            value.append(np.nan if one.value is None else one.value)
    codes = np.array(unit, np.int64), np.array(event, np.int64)
    return Events(list(place), *codes, list(names), np.array(time), np.array(value), dict(seen), unread)


def _moment(said: float | str) -> float | None:
    """Epoch seconds; milliseconds are told by their size. A time without a zone is UTC."""
    if not isinstance(said, str):
        return said / 1e3 if said > 1e11 else said
    try:
        moment = datetime.fromisoformat(said)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
