"""The files of an exposure log: which are the same one twice, and which were rotated away."""

from __future__ import annotations

import glob
import gzip
import re
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from app.ab.errors import AbError

PATTERNS = ("exposures*.jsonl", "exposures*.jsonl.gz", "exposures*.parquet")

_HEAD = 1 << 16
"""Bytes by which two files are told apart: some hundred records, each with the id of its request."""

_ASIDE = re.compile(r"(?P<stem>.+)\.(?P<moment>\d{8}T\d{6}Z)\.(?P<number>\d+)\.(?:jsonl|jsonl\.gz|parquet)", re.ASCII)
"""A file that was set aside, as `abtest.rotation.Shelf` names it."""


@dataclass(frozen=True, slots=True)
class Gone:
    """Files of one worker that are missing: `stem` is that of its names, `numbers` first and last of each gap."""

    stem: str
    numbers: Sequence[tuple[int, int]]

    @property
    def count(self) -> int:
        """How many files."""
        return sum(last - first + 1 for first, last in self.numbers)

    def __str__(self) -> str:
        spans = ", ".join(str(first) if first == last else f"{first} to {last}" for first, last in self.numbers)
        return f"{self.stem}, file{'s' * (self.count != 1)} {spans}"


def exposure_files(where: Sequence[Path]) -> list[Path]:
    """The files of `where`, and those with the usual names in its folders, oldest name first.

    Raises AbError when there are none.
    """
    found: list[Path] = []
    for place in where:
        if place.is_dir():
            found += sorted({path for pattern in PATTERNS for path in place.glob(pattern)})
        elif place.exists():
            found.append(place)
        else:
            raise AbError(f"{place}: doesn't exist. Expected exposure logs, or the folder of exposures*.jsonl.")
    if not found:
        places = ", ".join(map(str, where))
        raise AbError(f"{places}: no exposures*.jsonl or exposures*.parquet. `recserve serve` writes them into var.")
    return list(dict.fromkeys(found))


def distinct(files: Sequence[Path]) -> tuple[list[Path], dict[Path, Path]]:
    """The files without those that are another one again, and which of them is which.

    The same is what lies at the same place, and what begins as another does, packed or not: of those the larger is
    kept, and the unpacked one where one of two is packed. Raises OSError. Reads the first 64 KiB of each.
    """
    kept: list[tuple[Path, bytes]] = []
    twice: dict[Path, Path] = {}
    at = {path.resolve(): path for path in reversed(files)}
    for path in files:
        first = at[path.resolve()]
        if first is not path:
            twice[path] = first
            continue
        head = _head(path)
        same = next((place for place, (_, other) in enumerate(kept) if head and _begins(head, other)), None)
        if same is None:
            kept.append((path, head))
        elif _better(path, kept[same][0]):
            twice[kept[same][0]] = path
            kept[same] = path, head
        else:
            twice[path] = kept[same][0]
    return [path for path, _ in kept], twice


def gone(files: Sequence[Path]) -> list[Gone]:
    """What is missing of the numbers from 1 on under which each worker's files are set aside.

    Most often the oldest were rotated away; or the file that is being written is given without them. The files of one
    name are one worker's, wherever they lie (some may have been moved to an archive); unless two of them have one
    number and different times: then they are several machines', a folder for each.
    """
    by_stem: defaultdict[str, list[_Aside]] = defaultdict(list)
    for path in files:
        if found := _aside(path):
            by_stem[found.stem].append(found)
    for path in files:  # the file that is being written comes after all that lie beside it
        stem = path.name.removesuffix(".gz").removesuffix(".jsonl")
        for found in () if _aside(path) else _beside(path, stem):
            by_stem[stem].append(found)
    given = {path.resolve() for path in files}
    lost = []
    for name, group in _series(by_stem):
        numbers = {one.number for one in group if one.path.resolve() in given}
        if spans := list(_missing(numbers, max(one.number for one in group))):
            lost.append(Gone(name, spans))
    return sorted(lost, key=lambda one: one.stem)


class _Aside(NamedTuple):
    path: Path
    stem: str
    moment: str
    number: int


def _aside(path: Path) -> _Aside | None:
    found = _ASIDE.fullmatch(path.name)
    return _Aside(path, found["stem"], found["moment"], int(found["number"])) if found else None


def _beside(path: Path, stem: str) -> Iterator[_Aside]:
    for other in path.parent.glob(f"{glob.escape(stem)}.*"):
        found = _aside(other)
        if found is not None and found.stem == stem:
            yield found


def _series(by_stem: Mapping[str, Sequence[_Aside]]) -> Iterator[tuple[str, Sequence[_Aside]]]:
    for stem, group in by_stem.items():
        if len({one.number for one in group}) == len({(one.moment, one.number) for one in group}):
            yield stem, group
            continue
        for folder in sorted({one.path.parent for one in group}):
            yield str(folder / stem), [one for one in group if one.path.parent == folder]


def _missing(numbers: set[int], top: int) -> Iterator[tuple[int, int]]:
    expected = 1
    for number in (*sorted(numbers), top + 1):
        if number > expected:
            yield expected, number - 1
        expected = number + 1


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        head = file.read(_HEAD)
    if head[:2] != b"\x1f\x8b":
        return head
    try:
        with gzip.open(path) as packed:
            return packed.read(_HEAD)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        return b""


def _begins(head: bytes, other: bytes) -> bool:
    shared = min(len(head), len(other))
    return shared > 0 and head[:shared] == other[:shared]


def _better(path: Path, other: Path) -> bool:
    packed = [one.name.endswith(".gz") for one in (path, other)]
    if packed[0] != packed[1]:
        return packed[1]
    return path.stat().st_size > other.stat().st_size
