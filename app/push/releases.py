"""The folder of releases as an operator sees it: what is there, which ones are in use, what may go."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from features.manifest import NAME, SECTIONS, Manifest, ManifestError, active, file_facts, replace

UNFINISHED = 86_400.0  # seconds without a change, after which a build is taken for given up
_LEFTOVERS = (".cuts-", ".gone-")


@dataclass(frozen=True, slots=True)
class Release:
    """One folder. `manifest` is None for a build that isn't finished, or was damaged."""

    version: str
    manifest: Manifest | None
    bytes: int
    changed: float
    state: str
    """`active`, `previous`, `unfinished` or empty."""


def listed(releases: Path) -> list[Release]:
    """All releases, newest first. Checksums aren't verified."""
    names = {"previous": previous(releases), "active": active(releases)}
    found = []
    for folder in releases.iterdir() if releases.is_dir() else ():
        if not folder.is_dir() or folder.name.startswith("."):
            continue
        try:
            manifest = Manifest.read(folder, verify=False)
        except (ManifestError, OSError):
            manifest = None
        state = "" if manifest is not None else "unfinished"
        for what, name in names.items():
            state = what if name == folder.name else state
        found.append(Release(folder.name, manifest, _bytes(folder), _changed(folder), state))
    return sorted(found, key=lambda release: (release.changed, release.version), reverse=True)


def previous(releases: Path) -> str | None:
    """The version that a rollback makes active, None when there is none."""
    path = releases / "previous"
    return path.read_text(encoding="utf-8").strip() or None if path.exists() else None


@contextlib.contextmanager
def locked(releases: Path) -> Iterator[None]:
    """One command at a time changes what lies here. Raises OSError."""
    descriptor = os.open(releases / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def put_back_on_failure(releases: Path) -> Iterator[None]:
    """What was active and previous is so again when the block fails. Raises OSError before it begins, if at all.

    Copies are made first, so that going back only renames them: that a full disk can do.
    """
    copies = {path: path.with_name(f".{path.name}.before") for path in _pointers(releases)}
    try:
        for path, copy in copies.items():
            copy.unlink(missing_ok=True)
            if path.exists():
                replace(copy, path.read_text(encoding="utf-8"))
        try:
            yield
        except BaseException:
            for path, copy in copies.items():
                if copy.exists():
                    copy.replace(path)
                else:
                    path.unlink(missing_ok=True)
            raise
    finally:
        for copy in copies.values():
            copy.unlink(missing_ok=True)


def files_of(manifest: Manifest) -> dict[str, dict[str, Any]]:
    """What the manifest says of each file, by name: `sha256`, `bytes`."""
    entries = [entry for section in SECTIONS for entry in getattr(manifest, section).values()]
    return {name: facts for entry in entries for name, facts in entry["files"].items()}


def verify(manifest: Manifest, read: Callable[[int], object]) -> None:
    """Compare every file with the manifest; `read` is told of its bytes. Raises ManifestError, OSError."""
    for name, facts in files_of(manifest).items():
        path = manifest.root / name
        if not path.is_file():
            raise ManifestError(f"{path}: missing. Expected {facts['bytes']} bytes.")
        found = file_facts(path)
        if found != facts:
            raise ManifestError(f"{path}: differs from the manifest: {found}. Expected {facts}.")
        read(found["bytes"])


def removable(releases: Path, keep: int, in_use: set[str], now: float) -> list[Release]:
    """Releases that may go, oldest first: neither active, previous, in use nor among the `keep` newest.

    An unfinished one only when nothing in it has changed for a day.
    """
    found = listed(releases)
    complete = [release for release in found if release.manifest is not None]
    kept = {release.version for release in complete[:keep]} | in_use
    old = now - UNFINISHED
    return [
        release
        for release in reversed(found)
        if release.state not in ("active", "previous")
        and release.version not in kept
        and (release.manifest is not None or release.changed < old)
    ]


def remove(releases: Path, version: str) -> bool:
    """Remove one for good, unless it was activated meanwhile: whether it was removed. Raises OSError."""
    if version in (active(releases), previous(releases)):
        return False
    gone = releases / f".gone-{version}"
    (releases / version).rename(gone)  # first: what is half removed must never look like a release
    shutil.rmtree(gone)
    return True


def sweep(releases: Path, now: float) -> Sequence[str]:
    """Remove what builds and removals that were killed have left behind; the names."""
    left = [
        path
        for path in releases.iterdir()
        if path.name.startswith(_LEFTOVERS) and path.is_dir() and _changed(path) < now - UNFINISHED
    ]
    for path in left:
        shutil.rmtree(path)
    return sorted(path.name for path in left)


def _pointers(releases: Path) -> tuple[Path, Path]:
    return releases / "active", releases / "previous"


def _bytes(folder: Path) -> int:
    with contextlib.suppress(FileNotFoundError):  # a build that is running removes files
        return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return 0


def _changed(folder: Path) -> float:
    path = folder / NAME
    with contextlib.suppress(FileNotFoundError):
        if path.exists():
            return path.stat().st_mtime
        return max(one.stat().st_mtime for one in (folder, *folder.rglob("*")))
    return float("inf")
