"""Exposures joined with events: a value of each metric for each enrolled unit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from abtest.analysis import Enrolment, Metric, sums, sums_before
from abtest.analysis.metrics import since_first
from app.ab.enrolled import Enrolled
from app.ab.errors import AbError
from app.ab.events import Events
from app.ab.metrics import EXPOSURES, Formula, Term
from app.ab.window import Window
from app.config.problems import suggestion

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Joined:
    """Where the events of a file went: those read are all of the counts together.

    `others`: of units that aren't compared. `late`: not before `--until`. `before` the first exposure, `after` the
    window, `inside` it. `valueless` counts, for each event that is summed up and has any, those inside that have no
    value, by bucket: they add nothing to the sum.
    """

    read: int
    others: int
    late: int
    before: int
    after: int
    inside: int
    valueless: Mapping[str, Mapping[str, int]]

    def as_json(self) -> dict[str, int]:
        """Plain data."""
        return {
            "read": self.read,
            "of_others": self.others,
            "not_before_until": self.late,
            "before_exposure": self.before,
            "after_window": self.after,
            "joined": self.inside,
        }


@dataclass(frozen=True, slots=True)
class Measuring:
    """What is measured, and how: `units_of_time` are the seconds of which an event's times are multiples, by name."""

    formulas: Sequence[Formula]
    window: Window
    units_of_time: Mapping[str, float]


def joined(enrolment: Enrolment, events: Events, how: Measuring) -> Joined:
    """How many events count, and why the others don't. O(n) for each name of an event."""
    before = after = inside = 0
    valueless: dict[str, dict[str, int]] = {}
    summed = {term.event for formula in how.formulas for term in formula.terms if term.how == "sum"}
    for name in events.names:
        unit, time, value = events.of(name)
        place, since = since_first(enrolment, unit, time, how.units_of_time.get(name, 0.0))
        counts = (place >= 0) & (since >= 0) & (since < how.window.within)
        before += int(((place >= 0) & (since < 0)).sum())
        after += int(((place >= 0) & (since >= how.window.within)).sum())
        inside += int(counts.sum())
        buckets = enrolment.bucket[place[counts & np.isnan(value)]]
        if name in summed and len(buckets):
            missing = np.bincount(buckets, minlength=len(enrolment.buckets))
            valueless[name] = {bucket: int(n) for bucket, n in zip(enrolment.buckets, missing, strict=True)}
    others = events.read - events.late - before - after - inside
    return Joined(events.read, others, events.late, before, after, inside, valueless)


def measured(enrolled: Enrolled, enrolment: Enrolment, events: Events, how: Measuring) -> list[Metric]:
    """One metric for each formula. Raises AbError for sums that are beyond all numbers."""
    metrics = []
    for formula in how.formulas:
        try:
            with np.errstate(over="ignore"):
                metrics.append(_metric(formula, enrolled, enrolment, events, how))
        except ValueError:
            raise AbError(f"{formula.name}={formula}: the values are too large to be summed up.") from None
    return metrics


def _metric(formula: Formula, enrolled: Enrolled, enrolment: Enrolment, events: Events, how: Measuring) -> Metric:
    def after(term: Term) -> Floats:
        if term.event == EXPOSURES:
            return enrolled.counts(enrolment.unit)
        unit, time, value = _columns(term, events)
        size = how.units_of_time.get(term.event, 0.0)
        return _of(term, sums(enrolment, unit, time, value, how.window.within, size))

    def before(term: Term) -> Floats | None:
        if term.event == EXPOSURES or not how.window.before:
            return None
        unit, time, value = _columns(term, events)
        size = how.units_of_time.get(term.event, 0.0)
        return _of(term, sums_before(enrolment, unit, time, value, how.window.before, size))

    above, below = formula.above, formula.below
    covariate = before(above)
    covariate_below = None if below is None or covariate is None else before(below)
    if covariate_below is not None and not covariate_below.any():
        covariate_below = None
    return Metric(
        formula.name,
        after(above),
        None if below is None else after(below),
        covariate,
        covariate_below,
        formula.goal,
    )


def _of(term: Term, summed: Floats) -> Floats:
    return (summed > 0).astype(np.float64) if term.how == "any" else summed


def _columns(term: Term, events: Events) -> tuple[NDArray[np.int64], Floats, Floats | None]:
    """An event without a value has none to add, and counts as an event all the same."""
    unit, time, value = events.of(term.event)
    if term.how != "sum":
        return unit, time, None
    rows = ~np.isnan(value)
    return unit[rows], time[rows], value[rows]


def check(formulas: Sequence[Formula], events: Events, window: Window) -> None:
    """Raise AbError for an event that isn't in the file, has no values to sum, or can't be cut to a window."""
    for formula in formulas:
        for term in formula.terms:
            if term.event == EXPOSURES:
                if np.isfinite(window.within):
                    raise AbError(f"{formula.name}={formula}: --within can't cut exposures. Count an event below.")
                continue
            if term.event not in events.seen:
                raise AbError(
                    f"{formula.name}={formula}: there is no event {term.event!r}. {suggestion(term.event, events.seen)}"
                )
            values = events.of(term.event)[2]
            if term.how == "sum" and len(values) and np.isnan(values).all():
                raise AbError(
                    f"{formula.name}={formula}: no {term.event} has a value. Expected a column value, "
                    "or --map value=COLUMN."
                )
