"""Configurations to push: valid ones that can be told apart by their answers, and malformed ones."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from app.faults.place import SERVICE, Place

Restore = Callable[[], None]
Spoil = Callable[[Place, str], Restore]

MARK = "push_"
"""A channel whose name says which push it belongs to."""
MAX_FILE = 1 << 20


def valid(scene: Mapping[str, Any], number: int) -> dict[str, Any]:
    """A scene with a channel of its own and other fields in its answers: the first step and the last one."""
    changed = copy.deepcopy(dict(scene))
    recall = changed["recall"]
    popular = dict(recall.get("popular", {}))
    table = popular.get("table", changed.get("fallback", "popular"))
    recall[f"{MARK}{number}"] = {"use": "popular", "table": table, "k": 50}
    fields = list(changed.get("return") or ())
    changed["return"] = fields[: number % (len(fields) + 1)]
    return changed


def _file(change: Callable[[bytes], bytes], name: str | None = None) -> Spoil:
    """A file with other content; None: the scene's."""

    def spoil(place: Place, scene: str) -> Restore:
        path = place.configs / (name or scene)
        before = path.read_bytes()
        path.write_bytes(change(before))
        return lambda: _put(path, before)

    return spoil


def _put(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def _gone(place: Place, _scene: str) -> Restore:
    path = place.configs / "models.yaml"
    before = path.read_bytes()
    path.unlink()
    return lambda: _put(path, before)


def _folder(place: Place, _scene: str) -> Restore:
    """A folder where a file should be."""
    path = place.configs / "features.yaml"
    before = path.read_bytes()
    path.unlink()
    path.mkdir()

    def restore() -> None:
        shutil.rmtree(path)
        path.write_bytes(before)

    return restore


MALFORMED: tuple[tuple[str, Spoil], ...] = (
    ("a file that ends in the middle of a list", _file(lambda text: text + b"\nre_rank: [{mmr: ")),
    ("an unknown key", _file(lambda text: text + b"\nrecal: {}\n")),
    ("a duplicate key", _file(lambda text: text + b"\nbudget: 10ms\n")),
    ("bytes that aren't UTF-8", _file(lambda text: text + b"\n# \xff\xfe\n")),
    ("a reference to nothing", _file(lambda text: text.replace(b"popular", b"unpopular"))),
    ("an empty file", _file(lambda _: b"")),
    ("a file of over 1 MiB", _file(lambda text: text + b"\n#" + b"x" * MAX_FILE + b"\n")),
    ("a missing file", _gone),
    ("a folder in a file's place", _folder),
    ("an extension that can't be imported", _file(lambda text: _with_extension(text), SERVICE)),
)
"""What is wrong with it, and how it is made so."""


def _with_extension(text: bytes) -> bytes:
    return text.replace(b"extensions: []", b"extensions: [no_such_package_here]")
