"""Input files as named Arrow columns; this file has Parquet, which is read column by column."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from bootstrap.errors import LONGEST_SHOWN, InputError, NotTextError


class Source(ABC):
    """A table under a file's name; `text` tells that values came without types (CSV).

    `row` in its methods is 0-based; errors show it from 1, with the CSV line beside it.
    """

    text = False

    def __init__(self, file: str, names: Sequence[str], rows: int) -> None:
        self.file, self.rows = file, rows
        self.names = [name for name in names if not name.startswith("__index_level_")]
        twice = sorted({name for name in self.names if self.names.count(name) > 1})
        if twice:
            raise self.error(
                f"{', '.join(twice)} names more than one column. Expected every name once.", column=twice[0]
            )
        if rows == 0:
            raise self.error("has no rows. Expected at least one row of data.")

    @abstractmethod
    def read(self, name: str) -> Any:
        """The column as a pyarrow.ChunkedArray of its stored type."""

    def column(self, name: str) -> Any:
        """The column as a ChunkedArray: dictionaries decoded, text as large_string.

        Raises InputError for text that isn't UTF-8, NotTextError where the type doesn't say that it is text.
        """
        column = self.read(name)
        kind = column.type
        if pa.types.is_dictionary(kind):
            column, kind = column.cast(kind.value_type), kind.value_type
        if _is_text(kind):
            try:
                column = column.cast(pa.large_binary()).cast(pa.large_string())
            except pa.ArrowInvalid:
                raise self._not_utf8(column, name, kind) from None
        return column

    def error(self, message: str, *, row: int | None = None, column: str | None = None) -> InputError:
        """The error of this file, with the CSV line of the row where there is one."""
        line = None if row is None else self.line(row)
        return InputError(self.file, None if row is None else row + 1, column, message, line=line)

    @abstractmethod
    def line(self, row: int) -> int | None:
        """The line on which a row starts, or None where rows have no lines. May read the file."""

    def _not_utf8(self, column: Any, name: str, kind: Any) -> InputError:
        values = column.cast(pa.large_binary()).to_pylist()
        row, value = next((r, v) for r, v in enumerate(values) if v is not None and not decodes(v))
        error = self.error(f"{value[:40]!r} isn't UTF-8 text. Expected UTF-8.", row=row, column=name)
        if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
            return error
        return NotTextError(self.file, error.row, name, error.message, line=error.line)


class Memory(Source):
    """A table that is already in memory, under the name of where it came from."""

    def __init__(self, file: str, table: Any) -> None:
        self._table = table
        super().__init__(file, table.column_names, table.num_rows)

    def read(self, name: str) -> Any:
        """The column, uncopied."""
        return self._table.column(name)

    def line(self, row: int) -> None:
        """Rows have no lines."""


class Selected(Source):
    """Some rows of another source, in an order of their own; errors name that source's rows."""

    def __init__(self, source: Source, rows: NDArray[np.int64]) -> None:
        self.file, self.names, self.rows, self.text = source.file, source.names, len(rows), source.text
        self._source, self._at = source, rows
        self._whole = len(rows) == source.rows and bool((np.diff(rows) > 0).all())

    def read(self, name: str) -> Any:
        """The column's rows; not copied when they are all rows, in order."""
        column = self._source.column(name)
        return column if self._whole else column.take(pa.array(self._at))

    def error(self, message: str, *, row: int | None = None, column: str | None = None) -> InputError:
        """The error of the source itself."""
        return self._source.error(message, row=None if row is None else int(self._at[row]), column=column)

    def line(self, row: int) -> int | None:
        """The line of the row in the source."""
        return self._source.line(int(self._at[row]))


class Parquet(Source):
    """A Parquet file; a column is read when asked for, and not kept."""

    def __init__(self, path: Path) -> None:
        try:
            self._file = pq.ParquetFile(path)
        except (pa.ArrowInvalid, OSError) as error:
            raise InputError(str(path), None, None, f"isn't a readable Parquet file: {short(error)}") from None
        super().__init__(str(path), self._file.schema_arrow.names, self._file.metadata.num_rows)

    def read(self, name: str) -> Any:
        """Reads the column from the file."""
        try:
            return self._file.read(columns=[name]).column(name)
        except (pa.ArrowInvalid, OSError) as error:
            raise self.error(f"can't be read: {short(error)}", column=name) from None

    def line(self, row: int) -> None:
        """Rows have no lines."""


def _is_text(kind: Any) -> bool:
    return any(
        test(kind)
        for test in (
            pa.types.is_string,
            pa.types.is_large_string,
            pa.types.is_string_view,
            pa.types.is_binary,
            pa.types.is_large_binary,
            pa.types.is_binary_view,
            pa.types.is_fixed_size_binary,
        )
    )


def decodes(value: bytes) -> bool:
    """Whether the bytes are UTF-8."""
    try:
        value.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def short(error: Exception) -> str:
    """The first line of an error's text, no longer than a few names."""
    text = str(error).splitlines()[0] if str(error) else type(error).__name__
    return text if len(text) <= 2 * LONGEST_SHOWN else text[: 2 * LONGEST_SHOWN] + "..."


def type_text(kind: Any) -> str:
    """An Arrow type as people write it: list<string>, without the names of list elements."""
    return re.sub(r"(list(?:_view)?<)\w+: ", r"\1", str(kind))[:LONGEST_SHOWN]
