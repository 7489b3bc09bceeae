"""What people see of the scenarios' reports: one row for each window of a run, and what didn't hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from app.faults.runner import Report

HEADER = ("scenario", "holds", "window", "requests", "available", "full", "p50 ms", "p99 ms", "p99.9 ms", "recovery s")
RIGHT = frozenset(range(3, len(HEADER)))
_WINDOW = frozenset({"n", "availability", "full"})


def rows(reports: Sequence[Report]) -> list[tuple[str, ...]]:
    """The table's lines: windows of `figures` are those that have counts and quantiles."""
    lines = []
    for report in reports:
        windows = {name: value for name, value in report.figures.items() if is_window(value)} or {"": {}}
        head = (report.name, _verdict(report))
        recovery = _number(report.figures.get("recovery_s"))
        for name, window in windows.items():
            shares = (_percent(window.get("availability")), _percent(window.get("full")))
            times = tuple(_number(window.get(key)) for key in ("p50", "p99", "p999"))
            lines.append((*head, name, str(window.get("n", "")), *shares, *times, recovery))
            head, recovery = ("", ""), ""
    return lines


def details(reports: Sequence[Report]) -> list[str]:
    """Each scenario's other figures, and what it broke."""
    lines = []
    for report in reports:
        others = [f"{name} {_text(value)}" for name, value in report.figures.items() if not is_window(value)]
        lines.append(f"{report.name}: {', '.join(others) or 'no further figures'}, in {report.seconds:.0f} s")
        lines += [f"  does not hold: {words}" for words in report.broken]
    return lines


def is_window(value: Any) -> bool:
    """Whether a figure is a window of requests."""
    return isinstance(value, dict) and value.keys() >= _WINDOW


def _verdict(report: Report) -> str:
    return "discarded" if report.holds is None else "yes" if report.holds else "NO"


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share * 100:.2f}%"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_text(one)}" for key, one in value.items()) + "}"
    return f"{value:g}" if isinstance(value, float) else str(value)
