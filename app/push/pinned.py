"""Pinned configurations: `var/configs/<digest>/` holds exactly what was pushed, whatever happens to the folder since.

Workers load from there, at a push and when they start. So a worker that restarts gets what the others serve, and
a rollback finds its files.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from app.push.reading import Content, digest_of, read_folder

KEPT = 8


@dataclass(frozen=True, slots=True)
class Pin:
    """What workers load: a pinned folder and a release's version (None when none is active). Compared by value."""

    digest: str
    folder: Path
    release: str | None

    def __str__(self) -> str:
        return f"{self.digest} with release {self.release}"


class Pins:
    """The pinned folders under one root."""

    def __init__(self, root: Path, *, kept: int = KEPT) -> None:
        self.root = root
        self._kept = kept

    def pin(self, content: Content, release: str | None, keep: Iterable[Pin] = ()) -> Pin:
        """Write the content aside and move it into place; the same content is written once. Raises OSError.

        Then removes the oldest folders beyond the limit, but for the new one and `keep`.
        """
        pin = Pin(content.digest, self.root / content.digest, release)
        if self.intact(pin):
            os.utime(pin.folder)
        else:
            self._write(content, pin.folder)
        self._prune({pin.digest, *(other.digest for other in keep)})
        return pin

    def intact(self, pin: Pin) -> bool:
        """Whether the folder is there and holds what was pinned: people edit what they find."""
        found = read_folder(pin.folder)
        return not found.problems and digest_of(found.files) == pin.digest

    def _write(self, content: Content, folder: Path) -> None:
        # Secrets may stand in service.yaml: nobody else may read the copy. Nothing is synced: a pin that a crash
        # of the machine has damaged is found by its digest, and written again.
        self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        new = Path(tempfile.mkdtemp(prefix=".new-", dir=self.root))
        try:
            for name, data in content.files.items():
                path = new / name
                path.parent.mkdir(parents=True, exist_ok=True)
                with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                    file.write(data)
            if folder.exists():
                folder.rename(new.with_name(new.name.replace(".new-", ".old-")))
            new.rename(folder)
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise

    def _prune(self, keep: set[str]) -> None:
        folders = [path for path in self.root.iterdir() if path.is_dir()]
        for path in folders:
            if path.name.startswith((".new-", ".old-")):
                shutil.rmtree(path, ignore_errors=True)
        pins = sorted((path for path in folders if not path.name.startswith(".")), key=_age, reverse=True)
        kept = len(keep)
        for path in pins:
            if path.name in keep:
                continue
            kept += 1
            if kept > self._kept:
                shutil.rmtree(path, ignore_errors=True)

    def drop(self, pin: Pin) -> None:
        """Remove the folder of a pin that was refused."""
        shutil.rmtree(pin.folder, ignore_errors=True)


def _age(path: Path) -> float:
    with contextlib.suppress(OSError):
        return path.stat().st_mtime
    return 0.0
