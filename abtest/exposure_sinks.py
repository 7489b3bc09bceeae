"""Where exposures end up: a rotated file of JSON lines, or Parquet files that are written whole.

A sink isn't thread-safe. `write` takes requests' records, `close` writes what has gathered; both return how many
records have now reached a file and how many were lost to a disk that refused, and never raise OSError.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Protocol

from abtest.exposure_record import FIELDS, Entry, LineEncoder, Row, exposed, rows
from abtest.rotation import RotatingFile, Shelf

Outcome = tuple[int, int]
"""Records written, and records lost."""

_MOST_FILES: Final = 10_000
_TYPES: Final = MappingProxyType(
    dict.fromkeys(FIELDS, "string")
    | {"time": "float64", "version": "int32", "layer_slot": "int16", "bucket_slot": "int16", "forced": "bool_"}
)
_REPEATED: Final = frozenset(("params",))


class Sink(Protocol):
    """Takes the records of requests in batches."""

    @property
    def waiting(self) -> int:
        """How many records have gathered and are in no file yet."""

    def write(self, entries: Sequence[Entry]) -> Outcome:
        """Take records; an empty batch gives the sink an occasion to write what has grown old."""

    def close(self) -> Outcome:
        """Write what has gathered."""


class JsonLines:
    """One JSON object a line."""

    waiting = 0

    def __init__(self, path: Path, clock: Callable[[], float], rotate_bytes: int, keep: int) -> None:
        self._file = RotatingFile(path, clock, rotate_bytes, keep)
        self._encoder = LineEncoder()

    def write(self, entries: Sequence[Entry]) -> Outcome:
        """Append lines and hand them to the system."""
        if not entries:
            return 0, 0
        try:
            self._file.write(lines := self._encoder.lines(entries))
        except OSError:
            return 0, sum(len(exposed(entry)) for entry in entries)
        return len(lines), 0

    def close(self) -> Outcome:
        """Close the file."""
        self._file.close()
        return 0, 0


class ParquetFiles:
    """Whole Parquet files, each of at most `rotate_rows` rows, none started with a row older than `rotate_seconds`.

    Rows gather as Arrow record batches. A file is written under a hidden name, forced to the disk and renamed,
    so that what has its name is complete. The newest files of together at most `keep_bytes` stay.
    """

    def __init__(
        self,
        path: Path,
        clock: Callable[[], float],
        rotate_rows: int,
        rotate_seconds: float,
        keep_bytes: int,
    ) -> None:
        if rotate_rows < 1:
            raise ValueError(f"a Parquet file needs room for a row, not {rotate_rows}")
        # Imported here: it takes some 50 MB and half a second, which JSON lines shall not cost.
        self._arrow: Any = import_module("pyarrow")
        self._parquet: Any = import_module("pyarrow.parquet")
        self._path = path
        self._clock = clock
        self._rotate_rows = rotate_rows
        self._rotate_seconds = rotate_seconds
        self._shelf = Shelf(path, clock, _MOST_FILES, keep_bytes)
        self._schema = _schema(self._arrow)
        self._batches: list[Any] = []
        self._rows = 0
        self._since = 0.0
        self._batch([()] * len(FIELDS))  # the first array is slow (it looks for pandas): not while requests wait

    @property
    def waiting(self) -> int:
        """How many rows have gathered."""
        return self._rows

    def write(self, entries: Sequence[Entry]) -> Outcome:
        """Gather rows; write a file for as long as there is one to fill, or what has gathered is old."""
        new = [row for entry in entries for row in rows(entry)]
        written = lost = at = 0
        while at < len(new) or self._due():
            taken = new[at : at + self._rotate_rows - self._rows]
            at += len(taken)
            if taken:
                self._gather(taken)
            if self._due():
                done, failed = self.close()
                written, lost = written + done, lost + failed
        return written, lost

    def close(self) -> Outcome:
        """Write what has gathered; a later write begins anew."""
        batches, count = self._batches, self._rows
        self._batches, self._rows = [], 0
        if not count:
            return 0, 0
        try:
            self._save(batches)
        except OSError:
            return 0, count
        return count, 0

    def _due(self) -> bool:
        if not self._rows:
            return False
        # A clock that was set back must not keep rows from the disk.
        return self._rows >= self._rotate_rows or not 0 <= self._clock() - self._since < self._rotate_seconds

    def _gather(self, new: Sequence[Row]) -> None:
        if not self._rows:
            self._since = self._clock()
        columns = list(zip(*new, strict=True))
        try:
            batch = self._batch(columns)
        except UnicodeEncodeError:  # a lone surrogate in a request's id: JSON has a form for it, UTF-8 has none
            batch = self._batch([_encodable(column) for column in columns])
        self._batches.append(batch)
        self._rows += len(new)

    def _batch(self, columns: Sequence[Sequence[object]]) -> Any:
        arrays = [self._arrow.array(column, field.type) for column, field in zip(columns, self._schema, strict=True)]
        return self._arrow.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _save(self, batches: Sequence[Any]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        part = self._path.with_name(f".{self._path.name}.part")
        table = self._arrow.Table.from_batches(batches, schema=self._schema).combine_chunks()
        try:
            with part.open("wb") as file:
                self._parquet.write_table(table, file, compression="zstd")
                file.flush()
                os.fsync(file.fileno())
            self._shelf.take(part)
        except OSError:
            part.unlink(missing_ok=True)
            raise


def _schema(arrow: Any) -> Any:
    plain = {name: getattr(arrow, kind)() for name, kind in _TYPES.items()}
    return arrow.schema([(name, arrow.list_(kind) if name in _REPEATED else kind) for name, kind in plain.items()])


def _encodable(column: Sequence[object]) -> list[object]:
    return [value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value for value in column]
