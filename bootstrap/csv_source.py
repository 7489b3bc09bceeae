"""Input files as CSV (every value as written), and the opener that tells the formats apart."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from bootstrap.errors import InputError
from bootstrap.source import Parquet, Source, decodes, short

DELIMITERS = ",;\t|"
CODECS = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\x28\xb5\x2f\xfd": "zstd", b"\x04\x22\x4d\x18": "lz4"}
"""First bytes of a compressed file -> how it is compressed."""
BY_NAME = {".br": "brotli"}
UTF_16 = (b"\xff\xfe", b"\xfe\xff")


class Csv(Source):
    """A CSV file (comma, semicolon, tab or bar; plain or compressed), wholly in memory as text."""

    text = True

    def __init__(self, path: Path) -> None:
        self._path = path
        self.file = str(path)
        self._codec = _codec(path)
        head = self._head()
        if head[:4] == b"PAR1":
            raise InputError(self.file, None, None, "is compressed Parquet. Expected Parquet as it is, or CSV.")
        if head[:2] in UTF_16:
            raise InputError(self.file, None, None, "is UTF-16 text. Expected UTF-8; convert it with iconv.")
        if not head.strip():
            raise InputError(self.file, None, None, "is empty. Expected a header line and rows.")
        self._delimiter = max(DELIMITERS, key=head.partition(b"\n")[0].decode("utf-8", "replace").count)
        self._table = self._named(self._parse())
        super().__init__(str(path), self._table.column_names, self._table.num_rows)
        self._check_quotes()

    def read(self, name: str) -> Any:
        """The column as text."""
        return self._table.column(name)

    def line(self, row: int) -> int | None:
        """The line on which a row starts. Reads the file up to there."""
        for index, line, _ in self._records():
            if index == row:
                return line
        return None

    def _stream(self) -> Any:
        return pa.input_stream(str(self._path), compression=self._codec)

    def _head(self) -> bytes:
        try:
            with self._stream() as stream:
                return bytes(stream.read(65536))
        except OSError as error:
            raise self._undone(error) from None

    def _undone(self, error: Exception) -> InputError:
        how = f"can't be decompressed as {self._codec}" if self._codec else "can't be read"
        return InputError(self.file, None, None, f"{how}: {short(error)}. Expected a whole file.")

    def _named(self, table: Any) -> Any:
        """The table without its nameless empty columns, as a separator at the end of every line makes them.

        The first column may have no name: exports of data frames number their rows there.
        """
        nameless = [at for at, name in enumerate(table.column_names) if not name.strip()]
        empty = {at for at in nameless if pc.all(pc.equal(table.column(at), "")).as_py() is not False}
        filled = [at + 1 for at in nameless if at not in empty and at > 0]
        if filled:
            *others, last = map(str, filled)
            which = f"columns {', '.join(others)} and {last} have" if others else f"column {last} has"
            message = f"{which} no name. Expected a name for each in the header."
            raise InputError(self.file, None, None, message, line=1)
        return table.select([at for at in range(table.num_columns) if at not in empty])

    def _parse(self) -> Any:
        try:
            return self._load(threads=True)
        except (pa.ArrowInvalid, UnicodeDecodeError):
            try:
                self._load(threads=False)  # only a single-threaded reader names the row
            except pa.ArrowInvalid as error:
                raise self._broken(short(error)) from None
            except UnicodeDecodeError as error:
                raise self._broken(str(error)) from None
            raise
        except OSError as error:
            raise self._undone(error) from None

    def _load(self, *, threads: bool) -> Any:
        options = {
            "parse_options": pa_csv.ParseOptions(delimiter=self._delimiter, newlines_in_values=True),
            "read_options": pa_csv.ReadOptions(use_threads=threads),
        }
        with self._stream() as stream:
            names = pa_csv.open_csv(stream, **options).schema.names
        types = pa_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()))
        with self._stream() as stream:
            return pa_csv.read_csv(stream, convert_options=types, **options)

    def _records(self, encoding: str = "utf-8-sig") -> Iterator[tuple[int, int, list[str]]]:
        """(0-based row, line, values) of every data row; the slow reader, for error messages only."""
        csv.field_size_limit(1 << 30)
        with self._stream() as stream:
            text = io.TextIOWrapper(stream, encoding=encoding, errors="replace", newline="")
            reader = csv.reader(text, delimiter=self._delimiter)
            index, line = -1, 1
            for values in reader:
                if values:
                    if index >= 0:
                        yield index, line, values
                    index += 1
                line = reader.line_num + 1

    def _broken(self, message: str) -> InputError:
        head = self._head()
        if b"\0" in head and not decodes(head[:-4]):
            return InputError(self.file, None, None, "isn't text. Expected a Parquet or CSV file.")
        for index, line, values in self._records("latin-1"):
            for value in values:
                if not decodes(value.encode("latin-1")):
                    return InputError(
                        self.file,
                        index + 1,
                        None,
                        f"{value[:40]!a} isn't UTF-8 text. Expected UTF-8; convert the file, for example"
                        " with iconv -f latin1 -t utf-8.",
                        line=line,
                    )
        found = re.search(r"Row #(\d+): (Expected \d+ columns, got \d+)", message)
        if found is None:
            return InputError(self.file, None, None, f"isn't a readable CSV file: {message}")
        row = int(found[1]) - 2
        return self.error(f"{found[2]}. Expected as many values as the header has names.", row=row)

    def _check_quotes(self) -> None:
        """A quote that nobody closes swallows the rest of the file in one value: say so."""
        last = self._table.slice(self.rows - 1).to_pylist()[0]
        if not any("\n" in str(value) for value in last.values()):
            return
        with self._stream() as stream:
            text = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
            try:
                for _ in csv.reader(text, delimiter=self._delimiter, strict=True):
                    pass
            except csv.Error:
                message = "a quote opens here and never closes. Expected a closing quote."
                raise self.error(message, row=self.rows - 1) from None


def open_source(path: str | Path) -> Source:
    """Opens a Parquet or CSV file, told apart by content.

    Raises InputError when the file is missing, empty, of another kind, or has no rows.
    """
    path = Path(path)
    if not path.exists():
        raise InputError(str(path), None, None, "doesn't exist. Expected a Parquet or CSV file.")
    if not path.is_file():
        raise InputError(str(path), None, None, "isn't a file. Expected a Parquet or CSV file.")
    with path.open("rb") as stream:
        magic = stream.read(4)
    if not magic:
        raise InputError(str(path), None, None, "is empty. Expected a Parquet or CSV file.")
    if magic == b"PAR1":
        return Parquet(path)
    if magic[:2] == b"PK":
        raise InputError(str(path), None, None, "is a spreadsheet or zip archive. Expected Parquet or CSV.")
    if magic == b"\xfd7zX":
        known = ", ".join(CODECS.values())
        raise InputError(str(path), None, None, f"is compressed with xz. Expected {known} or none.")
    return Csv(path)


def _codec(path: Path) -> str | None:
    """The compression that a file's first bytes tell; brotli, which has none of its own, by the name."""
    with path.open("rb") as stream:
        magic = stream.read(4)
    return next((codec for start, codec in CODECS.items() if magic.startswith(start)), None) or BY_NAME.get(path.suffix)
