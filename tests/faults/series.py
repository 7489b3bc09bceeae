"""Made-up runs of the load generator."""

from __future__ import annotations

import numpy as np

from app.load.result import Connections, Result
from app.load.samples import Samples

STARTED = 1_000.0


def run(due: list[float], seconds: float | None = None, **columns: list[float]) -> Result:
    """Answers of 10 ms and full quality, sent at `due` seconds from STARTED; `columns` say what was different."""
    n = len(due)
    made = {
        "due": np.array(due, np.float64),
        "late": np.zeros(n, np.float32),
        "latency": np.full(n, 0.01),
        "outcome": np.full(n, 200, np.int16),
        "phase": np.zeros(n, np.uint8),
        "kind": np.zeros(n, np.uint8),
        "level": np.zeros(n, np.int8),
        "empty": np.zeros(n, np.uint8),
        "degraded": np.zeros(n, np.int16),
        "version": np.ones(n, np.int16),
    }
    for name, values in columns.items():
        made[name] = np.array(values, made[name].dtype)
    end = (max(due, default=0.0) + 0.001) if seconds is None else seconds
    return Result(
        started=STARTED,
        wall=end,
        cpu=0.0,
        classes={"interactive": 0.12},
        phases={"all": (0.0, end)},
        samples=Samples(**made),
        versions=(b'"config":"c","release":"r"',),
        degraded=(b'[{"step":"rank.model","reason":"timeout"}]',),
        connections=Connections(1, 0, 0, 0),
    )


def every(step: float, end: float) -> list[float]:
    """Moments from 0 to `end`."""
    return [round(at * step, 6) for at in range(int(end / step))]
