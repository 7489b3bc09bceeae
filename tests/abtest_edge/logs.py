"""Logs to record to, and what they have written."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, get_args

import pyarrow.parquet as pq

from abtest import Assignment, ExposureLog
from tests.abtest.documents import KNOB, NOW, compiled, document, experiment

Format = Literal["jsonl", "parquet"]
FORMATS: tuple[Format, ...] = get_args(Format)
CONFIG = "9f2c01ab34de"
READ = frozenset({KNOB})

_EXPERIMENTS = compiled(document(exp_mmr_1=experiment(slots=[[0, 10000]])))


class Clock:
    """Stands still until it is told."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


_SLICED = compiled(document(exp_mmr_1=experiment(slots=[[0, 10000]], slices={"every": "1h"})))


def assigned(unit: Any = "u1", forced: Mapping[str, str] | None = None) -> Assignment:
    return _EXPERIMENTS.assign("home", {"user_id": unit}, {}, NOW, forced or {})


def sliced(now: float) -> Assignment:
    return _SLICED.assign("home", {"user_id": "u1"}, {}, now)


def log_at(
    folder: Path, format: Format = "parquet", clock: Callable[[], float] | None = None, **settings: Any
) -> ExposureLog:
    capacity = settings.pop("capacity", 1000)
    return ExposureLog(folder / f"exposures.w0.{format}", capacity, clock or Clock(), format=format, **settings)


def record(log: ExposureLog, request_id: str, unit: Any = "u1", now: float = NOW) -> None:
    log.record(assigned(unit), READ, request_id, "home", now, CONFIG)


def files(folder: Path) -> list[Path]:
    """The Parquet files, in the order in which they were written."""
    return sorted(folder.glob("exposures.w0.*.parquet"), key=lambda path: path.name.split(".")[3])


def rows(folder: Path, format: Format = "parquet") -> list[dict[str, Any]]:
    """Everything written, oldest first."""
    if format == "parquet":
        return [row for file in files(folder) for row in pq.read_table(file).to_pylist()]
    aside = sorted(folder.glob("exposures.w0.*.jsonl"), key=lambda path: path.name.split(".")[3])
    return [
        json.loads(line)
        for file in [*aside, folder / "exposures.w0.jsonl"]
        if file.exists()
        for line in file.read_text().splitlines()
    ]


def requests(folder: Path, format: Format = "parquet") -> list[str]:
    return [row["request_id"] for row in rows(folder, format)]
