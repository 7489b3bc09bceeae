"""An append-only file of lines that is set aside when it has grown to a size."""

import os
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO


class RotatingFile:
    """Appends whole lines; `log.jsonl` is set aside as `log.<UTC time>.<number>.jsonl`.

    Of the files set aside only the newest `keep` stay. Not thread-safe. The file and its folder are made on
    the first write, and opened again after an error; a line that was cut off, by a full disk or a killed
    process, is ended before the next one is written.
    """

    def __init__(self, path: Path, clock: Callable[[], float], rotate_bytes: int, keep: int) -> None:
        self._path = path
        self._clock = clock
        self._rotate_bytes = rotate_bytes
        self._keep = keep
        self._file: BinaryIO | None = None

    def write(self, lines: Sequence[bytes]) -> None:
        """Append `lines`, each with its newline, and hand them to the system. Raises OSError."""
        try:
            file = self._open()
            for line in lines:
                if file.tell() >= self._rotate_bytes:
                    self._set_aside()
                    file = self._open()
                file.write(line)
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
        return self._file

    def _set_aside(self) -> None:
        self.close()
        moment = datetime.fromtimestamp(self._clock(), UTC).strftime("%Y%m%dT%H%M%SZ")
        earlier = self._rotated()
        number = earlier[-1][0] + 1 if earlier else 1
        os.replace(self._path, self._path.with_name(f"{self._path.stem}.{moment}.{number:06}{self._path.suffix}"))
        for _, old in earlier[: max(0, len(earlier) + 1 - self._keep)]:
            old.unlink(missing_ok=True)

    def _rotated(self) -> list[tuple[int, Path]]:
        """The files set aside with their numbers, oldest first; numbers, since a clock may be set back."""
        stem, suffix = re.escape(self._path.stem), re.escape(self._path.suffix)
        form = re.compile(rf"{stem}\.\d{{8}}T\d{{6}}Z\.(\d+){suffix}", re.ASCII)
        found = [(form.fullmatch(path.name), path) for path in self._path.parent.iterdir()]
        return sorted((int(match[1]), path) for match, path in found if match)

    def _abandon(self) -> None:
        """Close after an error, which flushing may well raise once more."""
        try:
            self.close()
        except OSError:
            self._file = None


def _is_cut(path: Path) -> bool:
    with path.open("rb") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return False
        file.seek(-1, os.SEEK_END)
        return file.read() != b"\n"
