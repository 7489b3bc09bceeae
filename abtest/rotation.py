"""Files that are set aside under a time and a number, and an append-only file of lines that is."""

import contextlib
import os
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO


class Shelf:
    """The files set aside beside `path`: `log.jsonl` as `log.<UTC time>.<number>.jsonl`.

    Only the newest stay: `files` at most, and of together at most `size` bytes where that is given. The
    newest of all always stays. Numbers order them, since a clock may be set back. Not thread-safe; the folder
    is read once, so it should be nobody else's to fill.
    """

    def __init__(self, path: Path, clock: Callable[[], float], files: int, size: int | None = None) -> None:
        self._path = path
        self._clock = clock
        self._files = files
        self._size = size
        self._kept: list[tuple[int, Path, int]] | None = None

    def take(self, file: Path) -> None:
        """Set `file` aside and delete what is too old. Raises OSError."""
        if self._kept is None:
            self._kept = self._found()
        moment = datetime.fromtimestamp(self._clock(), UTC).strftime("%Y%m%dT%H%M%SZ")
        number = self._kept[-1][0] + 1 if self._kept else 1
        target = self._path.with_name(f"{self._path.stem}.{moment}.{number:06}{self._path.suffix}")
        size = file.stat().st_size
        os.replace(file, target)
        self._kept.append((number, target, size))
        surplus = len(self._kept) - self._newest()
        for _, old, _ in self._kept[:surplus]:
            old.unlink(missing_ok=True)
        del self._kept[:surplus]

    def _newest(self) -> int:
        """How many of the kept files may stay."""
        assert self._kept is not None
        total = 0
        for count, (_, _, size) in enumerate(reversed(self._kept)):
            total += size
            if count >= max(1, self._files) or (count and self._size is not None and total > self._size):
                return count
        return len(self._kept)

    def _found(self) -> list[tuple[int, Path, int]]:
        """The files set aside by number, oldest first, with their sizes."""
        stem, suffix = re.escape(self._path.stem), re.escape(self._path.suffix)
        form = re.compile(rf"{stem}\.\d{{8}}T\d{{6}}Z\.(\d+){suffix}", re.ASCII)
        found = []
        for path in self._path.parent.iterdir():
            match = form.fullmatch(path.name)
            if match is not None:
                with contextlib.suppress(FileNotFoundError):  # a person deletes old ones meanwhile
                    found.append((int(match[1]), path, path.stat().st_size))
        return sorted(found)


class RotatingFile:
    """Appends whole lines to a file that is set aside (see `Shelf`) when it has `rotate_bytes`.

    Not thread-safe. The file and its folder are made on the first write, and again when somebody has deleted or moved
    the file; it is opened again after an error. A line that was cut off, by a full disk or a killed process, is ended
    before the next one is written.
    """

    def __init__(self, path: Path, clock: Callable[[], float], rotate_bytes: int, keep: int) -> None:
        self._path = path
        self._shelf = Shelf(path, clock, keep)
        self._rotate_bytes = rotate_bytes
        self._file: BinaryIO | None = None
        self._identity = (0, 0)
        self._size = 0

    def write(self, lines: Sequence[str]) -> None:
        """Append `lines`, ASCII and each with its newline, and hand them to the system. Raises OSError."""
        try:
            text = "".join(lines)
            if self._is_gone():
                self.close()
            file = self._open()
            if self._size + len(text) <= self._rotate_bytes:
                file.write(text.encode("ascii"))
                self._size += len(text)
            else:
                for line in lines:
                    if self._size >= self._rotate_bytes:
                        self._set_aside()
                        file = self._open()
                    file.write(line.encode("ascii"))
                    self._size += len(line)
            file.flush()
        except OSError:
            self._abandon()
            raise

    def close(self) -> None:
        """Close the file; a later write opens it again."""
        if self._file is not None:
            file, self._file = self._file, None
            file.close()

    def _open(self) -> BinaryIO:
        if self._file is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("ab")
            if _is_cut(self._path):
                self._file.write(b"\n")
            self._size = self._file.tell()
            self._identity = _identity(os.fstat(self._file.fileno()))
        return self._file

    def _is_gone(self) -> bool:
        """Whether the path no longer names the open file. One system call: once for a batch, not for a line."""
        if self._file is None:
            return False
        try:
            return _identity(os.stat(self._path)) != self._identity
        except FileNotFoundError:
            return True

    def _set_aside(self) -> None:
        self.close()
        with contextlib.suppress(FileNotFoundError):  # deleted since this batch began: the next line makes a new one
            self._shelf.take(self._path)

    def _abandon(self) -> None:
        """Close after an error, which flushing may well raise once more."""
        try:
            self.close()
        except OSError:
            self._file = None


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _is_cut(path: Path) -> bool:
    with path.open("rb") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return False
        file.seek(-1, os.SEEK_END)
        return file.read() != b"\n"
