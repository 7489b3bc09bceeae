"""Logs of JSON lines, plain or gzipped, read in blocks: what can't be read is counted and named, never fatal."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import msgspec

T = TypeVar("T")

Tick = Callable[[int], object]
"""Is told how many bytes were read since it was told last."""

BLOCK = 4 << 20
LONGEST = 1 << 20
"""Bytes of a line; no record is as long, and a file without line breaks must not fill the memory."""

_NAMED = 5


def no_tick(_: int) -> None:
    """Nobody watches."""


class Readable(Protocol):
    """A file, or what unpacks one."""

    def read1(self, size: int, /) -> bytes:
        """At most so many bytes, of what is at hand first: what comes before damaged data is read; none at the end."""


@dataclass
class Unread:
    """What was left out of the logs: how often, and the first few with file, line and reason (`named` of all)."""

    count: int = 0
    first: list[str] = field(default_factory=list)
    named: int = 0

    def add(self, where: str, why: str, count: int = 1) -> None:
        """Count one, or as many as there are of one kind."""
        self.count += count
        if len(self.first) < _NAMED:
            self.first.append(f"{where}: {why}" + (f" ({count:,} times)" if count > 1 else ""))
            self.named += count


class JsonLines(Generic[T]):
    """The records of one file, in blocks. `read` is told how many bytes of the file were done, for a progress bar."""

    def __init__(self, path: Path, kind: type[T], unread: Unread) -> None:
        self._path = path
        self._decoder = msgspec.json.Decoder(kind)
        self._unread = unread

    def read(self, done: Tick = no_tick) -> Iterator[list[T]]:
        """The records, block by block. Raises OSError when the file can't be opened or read."""
        line, before = 1, 0
        with self._path.open("rb") as raw:
            for block in self._whole_lines(_opened(raw)):
                yield self._records(block, line)
                line += block.count(b"\n")
                at = raw.tell()
                done(at - before)
                before = at

    def _whole_lines(self, source: Readable) -> Iterator[bytes]:
        rest = b""
        while True:
            try:
                block = source.read1(BLOCK)
            except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                self._unread.add(str(self._path), f"the compressed data end early or are damaged ({error})")
                block = b""
            if not block:
                break
            whole, newline, tail = (rest + block).rpartition(b"\n")
            if newline:
                yield whole + newline
            elif len(tail) > LONGEST + BLOCK:
                tail = tail[: LONGEST + 1]  # too long already, so it is cut to what still counts as that
            rest = tail
        if rest:
            yield rest

    def _records(self, block: bytes, first: int) -> list[T]:
        try:
            return self._decoder.decode_lines(block)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return list(self._one_by_one(block, first))

    def _one_by_one(self, block: bytes, first: int) -> Iterator[T]:
        for number, line in enumerate(block.split(b"\n"), first):
            if not line.strip():
                continue
            try:
                if len(line) > LONGEST:
                    raise msgspec.DecodeError(f"more than {LONGEST:,} bytes")
                yield self._decoder.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                self._unread.add(f"{self._path}:{number}", str(error))


def _opened(raw: BufferedReader) -> Readable:
    gzipped = raw.read(2) == b"\x1f\x8b"
    raw.seek(0)
    return gzip.GzipFile(fileobj=raw) if gzipped else raw
