"""What the readers hand to the rest of bootstrap: columnar, frozen, free of file formats."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from bootstrap.errors import printable

Column = NDArray[np.generic] | list[str | None]
"""One attribute: f32 (NaN is missing), i32 or bool (nothing is missing), f64 epoch seconds (a time, NaN is
missing), or a list of str and None."""


@dataclass(frozen=True)
class Report:
    """What one input file gave: printed to the person who runs bootstrap."""

    file: str
    read: int
    kept: int
    dropped: Mapping[str, int] = field(default_factory=dict)
    """Reason -> rows."""
    used: Mapping[str, str] = field(default_factory=dict)
    """Field -> source column."""
    ignored: Mapping[str, str] = field(default_factory=dict)
    """Source column -> why it isn't used."""
    span: tuple[float, float] | None = None
    """First and last timestamp kept, epoch seconds."""
    users: int | None = None
    items: int | None = None
    events: Mapping[str, int] = field(default_factory=dict)
    """Event -> rows kept."""
    notes: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """The report as text, one fact a line."""
        kept = f"{self.file}: {self.read:,} rows read, {self.kept:,} kept"
        if self.span is not None:
            kept += f", {_day(self.span[0])} to {_day(self.span[1])}"
        out = [kept]
        counts = {"users": self.users, "items": self.items}
        shown = [f"{n:,} {name}" for name, n in counts.items() if n is not None]
        shown += [f"{n:,} {name} events" for name, n in self.events.items()]
        if shown:
            out.append("  " + ", ".join(shown))
        out += [f"  dropped {n:,}: {why}" for why, n in self.dropped.items()]
        if self.used:
            out.append("  columns: " + ", ".join(f"{name}={column}" for name, column in self.used.items()))
        out += [f"  ignored {column}: {why}" for column, why in self.ignored.items()]
        out += [f"  note: {note}" for note in self.notes]
        return [printable(line) for line in out]


def _day(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")


@dataclass(frozen=True)
class Entities:
    """Items or users: `ids[i]` has the attribute values `columns[name][i]`."""

    ids: list[str]
    columns: Mapping[str, Column]
    report: Report | None = None

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class Interactions:
    """A behaviour log by columns, rows ascending in time (rows of one time keep the file's order).

    `user`, `item` and `event` are codes into `user_ids`, `item_ids` and `events`, which are sorted by their
    UTF-8 bytes and hold nothing but what some row names. `users` and `items` are what the log's own columns
    say about them, in the order of the codes.
    """

    user: NDArray[np.int32]
    item: NDArray[np.int32]
    ts: NDArray[np.float64]
    event: NDArray[np.int16]
    weight: NDArray[np.float32]
    user_ids: list[str]
    item_ids: list[str]
    events: list[str]
    users: Entities
    items: Entities
    report: Report

    def __len__(self) -> int:
        return len(self.user)


@dataclass(frozen=True)
class Inputs:
    """Everything that a release is built from. `items` holds every id of the log and of the items file;
    `users` likewise; both are sorted by UTF-8 bytes. `kind` is the item column that lists are spread over, where
    there is one of this name and items differ in it."""

    interactions: Interactions
    items: Entities
    users: Entities
    reports: tuple[Report, ...]
    kind: str = "category"


def merged(*parts: Entities) -> Entities:
    """The union of the ids; where two parts have a column of one name, the first part's stands.

    An i32 or bool column becomes f32 where an id lacks a value. O(ids x columns).
    """
    ids = sorted({i for part in parts for i in part.ids})
    place = {text: row for row, text in enumerate(ids)}
    columns: dict[str, Column] = {}
    for part in parts:
        rows = np.fromiter((place[i] for i in part.ids), np.int64, len(part.ids))
        for name, column in part.columns.items():
            if name not in columns:
                columns[name] = _spread(column, rows, len(ids))
    return Entities(ids, columns)


def _spread(column: Column, rows: NDArray[np.int64], n: int) -> Column:
    """`column`'s values at `rows` of a column of n; missing elsewhere."""
    if isinstance(column, list):
        texts: list[str | None] = [None] * n
        for row, text in zip(rows.tolist(), column, strict=True):
            texts[row] = text
        return texts
    whole = len(rows) == n
    if whole or column.dtype == np.float64:
        out = np.full(n, np.nan, column.dtype) if column.dtype.kind == "f" else np.zeros(n, column.dtype)
    else:
        out = np.full(n, np.nan, np.float32)
    out[rows] = column
    return out


def count(pairs: Iterable[tuple[str, int]]) -> dict[str, int]:
    """The pairs whose count isn't zero."""
    return {name: n for name, n in pairs if n}
