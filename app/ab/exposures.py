"""Exposure logs -> who was exposed to what: JSON lines (rotated, gzipped) and Parquet, of all workers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from app.ab.enrolled import DRAWN, Enrolled, Gatherer, Key
from app.ab.errors import AbError
from app.ab.files import Gone, distinct, gone
from app.ab.lines import JsonLines, Tick, Unread, no_tick
from app.ab.times import EARLIEST, latest, why_impossible

_BATCH = 1 << 16


class Record(msgspec.Struct, gc=False):
    """The part of an exposure that tools read."""

    time: float
    scene: str
    layer: str
    experiment: str | None
    version: int | None
    bucket: str | None
    unit_type: str
    unit: str | None
    reason: str
    forced: bool = False


@dataclass(frozen=True, slots=True)
class Log:
    """What the files hold: an entry for each version of each experiment, sorted by name.

    `records` were read (and `unread` not); of these `others` are of other experiments (or of none, as a launch is),
    `late` not before `until`, and `no_unit` name nobody. `twice` are files that are another one again, and were left
    out; `gone` is what was rotated away.
    """

    files: Sequence[Path]
    records: int
    enrolled: Sequence[Enrolled]
    unread: Unread
    others: int = 0
    late: int = 0
    no_unit: int = 0
    twice: Mapping[Path, Path] = field(default_factory=dict)
    gone: Sequence[Gone] = ()

    def tally(self) -> dict[str, int]:
        """Where the records went: those read are all of the others together. The chosen are in no comparison."""
        return {
            "read": self.records,
            "unread": self.unread.count,
            "of_other_experiments": self.others,
            "not_before_until": self.late,
            "without_unit": self.no_unit,
            "chosen": sum(sum(one.chosen.values()) for one in self.enrolled),
            "drawn": sum(int(one.count.sum()) for one in self.enrolled),
        }

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "files": len(self.files),
            **self.tally(),
            "first_unread": self.unread.first,
            "twice": {str(path): str(same) for path, same in self.twice.items()},
            "rotated_away": {one.stem: [list(span) for span in one.numbers] for one in self.gone},
        }


@dataclass(frozen=True, slots=True)
class Asked:
    """Which exposures are wanted: of the experiment `wanted` (see `matches`; None: of all), before `until` (epoch
    seconds), as they are read at `now` (epoch seconds; None: by the clock).
    """

    wanted: str | None = None
    until: float = math.inf
    now: float | None = None


_ALL = Asked()


def read_exposures(files: Sequence[Path], asked: Asked = _ALL, done: Tick = no_tick) -> Log:
    """The exposures that are asked for. Raises AbError for a file that can't be read.

    `done` is told how many bytes were read since it was last told.
    """
    reading = _Reading(asked)
    path: Path | str = "exposures"
    try:
        kept, twice = distinct(files)
        for path in kept:
            for block in _blocks(path, reading.unread, done):
                reading.take(block, str(path))
    except (OSError, pa.ArrowException) as error:
        where = getattr(error, "filename", None) or path
        raise AbError(f"{where}: can't be read: {str(error).partition(chr(10))[0]}") from None
    return reading.log(kept, twice, gone(files))


def matches(key: Key, wanted: str | None) -> bool:
    """Whether `name`, `name@version` or `scene/layer/name@version` means this experiment."""
    return wanted is None or wanted in (key.experiment, key.name, str(key))


class _Reading:
    """What was read so far, and how much of what was left out."""

    def __init__(self, asked: Asked) -> None:
        self.unread = Unread()
        self._asked = asked
        self._latest = latest(asked.now)
        self._gatherers: dict[tuple[str, str, str, int], Gatherer | None] = {}
        self._records = self._others = self._late = self._no_unit = 0

    def take(self, block: Sequence[Record], where: str) -> None:
        """Take records of the file `where`."""
        for one in block:
            if not EARLIEST <= one.time <= self._latest:
                self.unread.add(where, f"time {why_impossible(one.time)}")
                continue
            self._records += 1
            gatherer = self._gatherer(one)
            if gatherer is None or one.bucket is None:
                self._others += 1
            elif one.time >= self._asked.until:
                self._late += 1
            elif one.forced or one.reason != DRAWN:
                gatherer.choose(one.unit, one.unit_type, "forced" if one.forced else one.reason)
            elif one.unit is None:
                self._no_unit += 1
            else:
                gatherer.draw(one.unit, one.unit_type, one.bucket, one.time)

    def _gatherer(self, one: Record) -> Gatherer | None:
        """The one of the record's experiment; None for an experiment that isn't wanted, and for none."""
        if one.experiment is None or one.version is None:
            return None
        name = one.scene, one.layer, one.experiment, one.version
        try:
            return self._gatherers[name]
        except KeyError:
            key = Key(*name, one.unit_type)
            found = self._gatherers[name] = Gatherer(key) if matches(key, self._asked.wanted) else None
            return found

    def log(self, files: Sequence[Path], twice: Mapping[Path, Path], missing: Sequence[Gone]) -> Log:
        """All of it."""
        enrolled = [one.done() for _, one in sorted(self._gatherers.items(), key=itemgetter(0)) if one is not None]
        counts = self._others, self._late, self._no_unit
        return Log(files, self._records, enrolled, self.unread, *counts, twice, missing)


def _blocks(path: Path, unread: Unread, done: Tick) -> Iterator[Sequence[Record]]:
    with path.open("rb") as file:
        parquet = file.read(4) == b"PAR1"
    if parquet:
        yield from _parquet(path, unread)
        done(path.stat().st_size)
    else:
        yield from JsonLines(path, Record, unread).read(done)


def _parquet(path: Path, unread: Unread) -> Iterator[list[Record]]:
    file = pq.ParquetFile(path)
    names = [name for name in Record.__struct_fields__ if name in file.schema_arrow.names]
    missing = sorted(set(Record.__struct_fields__) - {*names, "forced"})
    if missing:
        raise AbError(f"{path}: no column {', '.join(missing)}. Expected an exposure log.")
    row = 0
    for batch in file.iter_batches(_BATCH, columns=names):
        rows = batch.to_pylist()
        try:
            yield msgspec.convert(rows, list[Record])
        except msgspec.ValidationError:
            yield list(_one_by_one(rows, path, row, unread))
        row += len(rows)


def _one_by_one(rows: Sequence[Any], path: Path, first: int, unread: Unread) -> Iterator[Record]:
    for number, one in enumerate(rows, first + 1):
        try:
            yield msgspec.convert(one, Record)
        except msgspec.ValidationError as error:
            unread.add(f"{path} row {number}", str(error))
