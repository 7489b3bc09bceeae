"""Logs to record to, and what they have written."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, get_args

import pyarrow.parquet as pq

from abtest import Assignment, ExposureLog
from tests.abtest.documents import KNOB, KNOB_K, NOW, compiled, document, experiment

Format = Literal["jsonl", "parquet"]
FORMATS: tuple[Format, ...] = get_args(Format)
CONFIG = "9f2c01ab34de"
READ = frozenset({KNOB, KNOB_K})
"""What requests read: the experiment's parameter, and one that no experiment sets."""


class Clock:
    """Stands still until it is told."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


def for_everybody(**changes: Any) -> dict[str, Any]:
    """A running experiment that has all slots, unless they are changed too."""
    return experiment(**({"slots": [[0, 10000]]} | changes))


_UNCHANGED = compiled(document(exp_mmr_1=for_everybody()))


def assigned(unit: Any = "u1", forced: Mapping[str, str] | None = None, now: float = NOW, **changes: Any) -> Assignment:
    """What a request gets, with everybody's experiment or with one that is changed."""
    experiments = compiled(document(exp_mmr_1=for_everybody(**changes))) if changes else _UNCHANGED
    return experiments.assign("home", {"user_id": unit}, {}, now, forced or {})


def sliced(now: float) -> Assignment:
    return assigned(now=now, slices={"every": "1h"})


def log_at(
    folder: Path, format: Format = "parquet", clock: Callable[[], float] | None = None, **settings: Any
) -> ExposureLog:
    capacity = settings.pop("capacity", 1000)
    return ExposureLog(folder / f"exposures.w0.{format}", capacity, clock or Clock(), format=format, **settings)


def record(
    log: ExposureLog,
    request_id: str = "r1",
    assignment: Assignment | None = None,
    read: frozenset[str] = READ,
    now: float = NOW,
) -> None:
    log.record(assigned() if assignment is None else assignment, read, request_id, "home", now, CONFIG)


def files(folder: Path, format: Format = "parquet") -> list[Path]:
    """The files with records, in the order in which they were written; one that is still written to is the last."""
    aside = sorted(folder.glob(f"exposures.w0.*.{format}"), key=lambda path: path.name.split(".")[3])
    return [*aside, *folder.glob(f"exposures.w0.{format}")]


def rows(folder: Path, format: Format = "parquet") -> list[dict[str, Any]]:
    """Everything written, oldest first."""
    found = files(folder, format)
    if format == "parquet":
        return [row for file in found for row in pq.read_table(file).to_pylist()]
    return [json.loads(line) for file in found for line in file.read_text().splitlines()]


def requests(folder: Path, format: Format = "parquet") -> list[str]:
    return [row["request_id"] for row in rows(folder, format)]
