"""A metric of all units of an events file, without an experiment: what power and A/A tests start from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

import numpy as np

from abtest.analysis import Metric
from abtest.analysis.metrics import enrol, resolution
from app.ab.account import events_of, left_out_of_units, unread_of
from app.ab.analyse import counted, suggested
from app.ab.enrolled import Enrolled, Key
from app.ab.errors import AbError
from app.ab.events import Events, Whose, read_events
from app.ab.lines import Tick, Unread, no_tick
from app.ab.measure import Joined, Measuring, check, joined, measured
from app.ab.metrics import EXPOSURES, Formula
from app.ab.population import LeftOut, compared
from app.ab.resolution import check_resolutions, resolutions, said_of_times
from app.ab.window import Window


@dataclass(frozen=True, slots=True)
class Everybody(Sequence[Metric]):
    """The metrics, in the order of the formulas, and what was left out on the way to them."""

    metrics: Sequence[Metric]
    how: Measuring
    joined: Joined
    left_out: LeftOut
    unread: Unread

    def __len__(self) -> int:
        return len(self.metrics)

    @overload
    def __getitem__(self, at: int) -> Metric: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[Metric]: ...

    def __getitem__(self, at: int | slice) -> Metric | Sequence[Metric]:
        return self.metrics[at]

    def notes(self) -> list[str]:
        """What a person should know about the data, in lines."""
        return [
            *events_of(self.joined),
            *unread_of(self.unread, "event"),
            *said_of_times(self.how.units_of_time, self.how.window),
            *filter(None, [left_out_of_units(self.left_out)]),
        ]

    def as_json(self) -> dict[str, Any]:
        """Plain data: where the events and units went."""
        unread = {"unread": self.unread.count, "first_unread": self.unread.first}
        events = {**self.joined.as_json(), **unread, "without_value": self.joined.valueless}
        return {"events": events, "left_out": self.left_out.as_json(), "units_of_time": dict(self.how.units_of_time)}


def metrics_of_everybody(
    path: Path,
    unit_type: str,
    mapping: Mapping[str, str],
    formulas: Sequence[Formula],
    within: float = np.inf,
    done: Tick = no_tick,
    *,
    now: float | None = None,
) -> Everybody:
    """Each unit of the file is one row; with `within` (seconds) only its first events count.

    Units whose window wasn't over at the last event of the file are left out: they would lower what a unit does in
    that time. Units that did nothing are in no file of events: a mean per unit is one per active unit. `now`: see
    `read_events`. Raises AbError.
    """
    events = read_events(path, Whose(None, unit_type), mapping, done, now=now)
    try:
        return _measured(path, unit_type, events, formulas, Window(within))
    except AbError as error:
        raise AbError("\n".join([str(error), *unread_of(events.unread, "event")])) from None


def _measured(path: Path, unit_type: str, events: Events, formulas: Sequence[Formula], window: Window) -> Everybody:
    if not formulas:
        raise AbError(f"No metric. Give --metric, such as --metric {suggested(events)}. Events: {counted(events)}.")
    if any(term.event == EXPOSURES for formula in formulas for term in formula.terms):
        raise AbError("There are no exposures here. Count an event below instead, such as click/impression.")
    check(formulas, events, window)
    enrolled = _everybody(unit_type, events)
    coarse = resolutions(events, formulas)
    check_resolutions(coarse, window, None)
    how = Measuring(formulas, window, coarse)
    everyone = enrol(enrolled.exposures())
    enrolment, left_out = compared(everyone, enrolled, window, events.last, resolution(events.time))
    if len(enrolment) < 4:
        over = "" if not left_out.waiting else f" whose time was over, and {left_out.waiting:,} others"
        raise AbError(f"{path}: {len(enrolment)} units{over}. Expected more.")
    counts = joined(enrolment, events, how)
    return Everybody(measured(enrolled, enrolment, events, how), how, counts, left_out, events.unread)


def _everybody(unit_type: str, events: Events) -> Enrolled:
    """All units of the events in one bucket, each from its first event on."""
    first = np.full(len(events.units), np.inf)
    np.minimum.at(first, events.unit, events.time)
    unit = np.flatnonzero(np.isfinite(first)).astype(np.int64)
    none = np.zeros(len(unit), np.int64)
    key = Key("", "", "all", 1, unit_type)
    return Enrolled(key, events.units, ("all",), unit, none, first[unit], none + 1, {}, {})
