"""Exposures joined with events: a value of each metric for each enrolled unit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from abtest.analysis import Enrolment, Metric, sums, sums_before
from app.ab.enrolled import Enrolled
from app.ab.errors import AbError
from app.ab.events import Events
from app.ab.metrics import EXPOSURES, Formula, Term
from app.config.problems import suggestion

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Window:
    """Which events count: those less than `within` seconds after the first exposure, and for the covariate those of
    the `before` seconds before it (0: no covariate).
    """

    within: float = np.inf
    before: float = 0.0


def complete(enrolled: Enrolled, window: Window, until: float) -> Enrolled:
    """Without the units whose window hasn't passed at `until` (epoch seconds): their outcome isn't known yet."""
    if not np.isfinite(window.within):
        return enrolled
    rows = enrolled.first + window.within <= until
    columns = {name: getattr(enrolled, name)[rows] for name in ("unit", "bucket", "first", "count")}
    return replace(enrolled, **columns)


def measured(
    enrolled: Enrolled, enrolment: Enrolment, events: Events, formulas: Sequence[Formula], window: Window
) -> list[Metric]:
    """One metric for each formula. Raises AbError for an event that isn't in the file, or has no values to sum."""
    _check(formulas, events, window)
    return [_metric(formula, enrolled, enrolment, events, window) for formula in formulas]


def _metric(formula: Formula, enrolled: Enrolled, enrolment: Enrolment, events: Events, window: Window) -> Metric:
    def after(term: Term) -> Floats:
        if term.event == EXPOSURES:
            return enrolled.counts(enrolment.unit)
        unit, time, value = _columns(term, events)
        return _of(term, sums(enrolment, unit, time, value, window.within))

    def before(term: Term) -> Floats | None:
        if term.event == EXPOSURES or not window.before:
            return None
        unit, time, value = _columns(term, events)
        return _of(term, sums_before(enrolment, unit, time, value, window.before))

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
    unit, time, value = events.of(term.event)
    return unit, time, np.nan_to_num(value) if term.how == "sum" else None


def _check(formulas: Sequence[Formula], events: Events, window: Window) -> None:
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
