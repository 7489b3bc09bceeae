"""Exposure logs -> who was exposed to what: JSON lines (rotated, gzipped) and Parquet, of all workers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from app.ab.enrolled import Enrolled, Gatherer, Key
from app.ab.errors import AbError
from app.ab.lines import JsonLines, Tick, Unread, no_tick

PATTERNS = ("exposures*.jsonl", "exposures*.jsonl.gz", "exposures*.parquet")
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
    """What the files hold: an entry for each version of each experiment, sorted by name."""

    files: Sequence[Path]
    records: int
    enrolled: Sequence[Enrolled]
    unread: Unread


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


def read_exposures(files: Sequence[Path], wanted: str | None = None, done: Tick = no_tick) -> Log:
    """All exposures, of the experiment `wanted` if given (see `matches`). Raises AbError for a file that can't be read.

    `done` is told how many bytes were read since it was last told.
    """
    gatherers: dict[tuple[str, str, str, int, str], Gatherer] = {}
    unread, records = Unread(), 0
    for path in files:
        try:
            for block in _blocks(path, unread, done):
                records += len(block)
                _take(gatherers, block)
        except (OSError, pa.ArrowException) as error:
            raise AbError(f"{path}: can't be read: {str(error).partition(chr(10))[0]}") from None
    enrolled = [gatherer.done() for _, gatherer in sorted(gatherers.items()) if matches(gatherer.key, wanted)]
    return Log(files, records, enrolled, unread)


def matches(key: Key, wanted: str | None) -> bool:
    """Whether `name`, `name@version` or `scene/layer/name@version` means this experiment."""
    return wanted is None or wanted in (key.experiment, key.name, str(key))


def _take(gatherers: dict[tuple[str, str, str, int, str], Gatherer], block: Sequence[Record]) -> None:
    for one in block:
        if one.experiment is None or one.version is None or one.bucket is None or one.unit is None:
            continue
        key = one.scene, one.layer, one.experiment, one.version, one.unit_type
        gatherer = gatherers.get(key)
        if gatherer is None:
            gatherer = gatherers[key] = Gatherer(Key(*key))
        gatherer.add(one.unit, one.bucket, one.time, one.reason, one.forced)


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
