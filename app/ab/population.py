"""Who is compared: of those who were dealt, the ones whose outcome is known and was the bucket's doing."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from abtest.analysis import Enrolment
from app.ab.enrolled import Enrolled
from app.ab.errors import AbError
from app.ab.window import Window

_SHORTEST = 60
"""Seconds: time slices are whole minutes."""
_NEARLY = 1 - 1e-12
"""A time just before the end of a slice, divided by a number, may be rounded to the end."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Units that were dealt and are in no comparison.

    `crossed` were in two buckets. `chosen` had a bucket chosen for them too, before or after. `waiting`: their window
    hasn't passed at the end of the data, or they were first exposed after it. `partial` time slices had begun before
    the first exposure of the log, or ended after the data. A unit is counted once, for the first of these.
    """

    crossed: int = 0
    chosen: int = 0
    waiting: int = 0
    partial: int = 0

    def as_json(self) -> dict[str, int]:
        """Plain data."""
        return {"crossed": self.crossed, "chosen": self.chosen, "waiting": self.waiting, "partial": self.partial}


def compared(
    enrolment: Enrolment, enrolled: Enrolled, window: Window, until: float, unit_of_time: float = 0.0
) -> tuple[Enrolment, LeftOut]:
    """Those of `enrolment` (of all of `enrolled`) that are compared where units are people, devices or the like.

    `until` is the end of the data in epoch seconds, `unit_of_time` as in `abtest.analysis.sums`.
    """
    first = enrolment.first
    if unit_of_time:
        first = np.floor_divide(first, unit_of_time) * unit_of_time
    kept = ~np.isin(enrolment.unit, enrolled.also_chosen)
    ended = first + (window.within if np.isfinite(window.within) else 0.0) <= until
    chosen, waiting = int((~kept).sum()), int((kept & ~ended).sum())
    return _taken(enrolment, kept & ended), LeftOut(len(enrolment.crossed), chosen, waiting)


def compared_slices(enrolment: Enrolment, enrolled: Enrolled, every: int, until: float) -> tuple[Enrolment, LeftOut]:
    """The time slices of `every` seconds that are compared; `first` of each is when it began.

    Until the first exposure of the log nobody had the slice's bucket, or nobody knows.
    """
    if not len(enrolment):
        return enrolment, LeftOut(len(enrolment.crossed))
    begins = _numbers(enrolled)[enrolment.unit] * every
    whole = (begins >= enrolled.first.min()) & (begins + every <= until)
    partial = int((~whole).sum())
    return _taken(replace(enrolment, first=begins), whole), LeftOut(len(enrolment.crossed), partial=partial)


def slice_length(enrolled: Enrolled, configured: int | None) -> int:
    """Seconds of a time slice: as configured, else what the exposures tell by their numbers and times.

    Number n of slices of s seconds lasts from n * s to (n + 1) * s; so every exposure bounds s on both sides, and
    whole minutes are few in between. Raises AbError where that leaves none or several, or not the configured one.
    """
    number = _numbers(enrolled)[enrolled.unit]
    low = _NEARLY * (enrolled.first / (number + 1)).max(initial=0.0)
    high = (enrolled.first / np.maximum(number, 1.0)).min(initial=np.inf)
    if configured is not None:
        if low < configured <= high:
            return configured
        raise AbError(
            f"{enrolled.key}: the numbers and times of its slices don't fit the {configured:,} seconds of the "
            "configuration. Give --config DIR as it was when they were written."
        )
    least = _SHORTEST * (np.floor(low / _SHORTEST) + 1)
    if np.isfinite(high) and least <= high < least + _SHORTEST:
        return int(least)
    raise AbError(
        f"{enrolled.key} compares time slices, and the log doesn't tell how long they are. "
        "Give --config DIR with slices: {every: ...} of this experiment."
    )


def _numbers(enrolled: Enrolled) -> NDArray[np.float64]:
    try:
        return np.array([int(text) for text in enrolled.units], np.float64)
    except ValueError as error:
        raise AbError(f"{enrolled.key}: a time slice has no number: {str(error).rpartition(': ')[2]}.") from None


def _taken(enrolment: Enrolment, rows: NDArray[np.bool_]) -> Enrolment:
    return enrolment.take(np.flatnonzero(rows))
