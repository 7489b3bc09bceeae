"""How coarse the times of events are, and whether windows can be told by them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from abtest.analysis.metrics import resolution
from app.ab.errors import AbError
from app.ab.events import Events
from app.ab.metrics import EXPOSURES, Formula
from app.ab.window import Window

_NAMES = {1.0: "seconds", 60.0: "minutes", 3_600.0: "hours", 86_400.0: "days"}


def resolutions(events: Events, formulas: Sequence[Formula]) -> dict[str, float]:
    """Seconds by the name of an event, of those that the metrics count and whose times are all whole ones of such.

    An event of its own each: files are joined from sources of which one writes seconds and another one dates.
    """
    names = dict.fromkeys(term.event for formula in formulas for term in formula.terms if term.event != EXPOSURES)
    found = {name: resolution(events.of(name)[1]) for name in names}
    return {name: seconds for name, seconds in found.items() if seconds}


def check_resolutions(found: Mapping[str, float], window: Window, every: int | None) -> None:
    """Raise AbError where a window (or a slice of `every` seconds) isn't whole units of an event's times."""
    spans = {"--within": window.within, "--cuped": window.before, "a time slice": float(every or 0)}
    for name, seconds in found.items():
        for what, span in spans.items():
            if np.isfinite(span) and span % seconds:
                raise AbError(
                    f"{what} of {length(span)}: the times of {name} are whole {_NAMES[seconds]}, which can't tell so "
                    f"much. Expected whole {_NAMES[seconds]}, or events with finer times."
                )


def said_of_times(found: Mapping[str, float], window: Window) -> list[str]:
    """What a person should know about times that are whole ones of so many seconds, in lines."""
    lines = []
    for seconds in sorted(set(found.values())):
        names = ", ".join(name for name, size in found.items() if size == seconds)
        unit = _NAMES[seconds].removesuffix("s")
        ending = f", and what corrects ends a {unit} before it" if window.before else ""
        lines.append(f"Times of {names} are whole {unit}s: that of the first exposure counts as after it{ending}.")
    return lines


def length(seconds: float) -> str:
    """`7d`, `36h` or `90m`: as `--within` is written."""
    unit = next((unit for unit in (("d", 86_400), ("h", 3_600)) if not seconds % unit[1]), ("m", 60))
    return f"{seconds / unit[1]:g}{unit[0]}"
