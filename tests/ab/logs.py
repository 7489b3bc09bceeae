"""Exposure logs and events, small and made up."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

NOON = 1_795_003_200.0
"""2026-11-18 12:00 UTC."""


def record(unit: str | None, bucket: str, time: float = NOON, **changes: Any) -> dict[str, Any]:
    """An exposure as the service writes it."""
    return {
        "time": time,
        "request_id": f"r-{unit}-{time}",
        "scene": "home",
        "layer": "re_rank",
        "experiment": "exp_mmr",
        "version": 1,
        "bucket": bucket,
        "unit_type": "user_id",
        "unit": unit,
        "layer_slot": 1,
        "bucket_slot": 2,
        "reason": "hash",
        "forced": False,
        "config": "c0ffee",
        "params": ["re_rank.relevance"],
        **changes,
    }


def written(path: Path, rows: Iterable[Any]) -> Path:
    """A file of JSON lines; text stands as it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows), "utf-8")
    return path


def event(unit: str, name: str, ts: float | str = NOON + 60, **changes: Any) -> dict[str, Any]:
    """An event as `POST /events` takes it."""
    return {"user_id": unit, "ts": ts, "event": name, **changes}


def halves(count: int) -> Sequence[tuple[str, str]]:
    """As many users, dealt in turn."""
    return [(f"u{number}", ("control", "diverse")[number % 2]) for number in range(count)]


def study(folder: Path, users: int = 1_000, lost: int = 0, days: int = 2) -> tuple[Any, ...]:
    """Exposures and events in which `diverse` gets more clicks; `lost` of its users left no exposure."""
    rng = np.random.default_rng(5)
    exposures, events, gone = [], [], lost
    for number, (unit, bucket) in enumerate(halves(users)):
        if bucket == "diverse" and gone:
            gone -= 1
            continue
        first = NOON + 86_400 * (number // 2 % days)
        exposures += [record(unit, bucket, first + hour) for hour in range(2)]
        seen = 20
        clicks = rng.binomial(seen, 0.2 if bucket == "control" else 0.3)
        events += [event(unit, "impression", first + 1)] * seen + [event(unit, "click", first + 2)] * int(clicks)
        events += [event(unit, "click", first - 60)] * int(rng.integers(3))
        if number % 10 == 0:
            events.append(event(unit, "purchase", first + 9, value=12.5))
    logs = written(folder / "var" / "exposures.w0.jsonl", exposures)
    return "--exposures", logs.parent, "--events", written(folder / "events.jsonl", events)
