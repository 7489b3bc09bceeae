"""Exposure logs and events, small and made up."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

NOON = 1_795_003_200.0
"""2026-11-18 12:00 UTC."""


def record(unit: str, bucket: str, time: float = NOON, **changes: Any) -> dict[str, Any]:
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
