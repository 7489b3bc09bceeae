"""From records to one row per unit: who is enrolled, and what each of them did after (or before) that.

The unit that was randomised is the unit of analysis. Rows of one user depend on each other, so that a
test over clicks or sessions promises more than it knows (Deng, Knoblich and Lu 2018, "Applying the Delta
Method in Metric Analytics", KDD, on cluster randomisation).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from abtest.analysis.columns import Attribute, Codes, Exposures, Floats, check_length

Goal = Literal["increase", "decrease", "none"]
"""Which direction of a metric is good."""

GOALS: Final = ("increase", "decrease", "none")
"""All values of `Goal`."""

_RESOLUTIONS: Final = (86_400.0, 3_600.0, 60.0, 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class Enrolment:
    """One row per unit that was in exactly one bucket, by ascending unit code.

    `unit` i64[m], `bucket` i64[m] codes into `buckets`, `first` f64[m] the epoch seconds of the first
    exposure; `day` and `attributes` as they were then, since later values may be effects of the treatment.
    `crossed` i64[c] are the units that were in two buckets or more and are left out.
    """

    unit: Codes
    bucket: Codes
    buckets: tuple[str, ...]
    first: Floats
    day: Attribute | None
    attributes: Mapping[str, Attribute]
    crossed: Codes

    def __len__(self) -> int:
        return len(self.unit)

    def take(self, rows: npt.NDArray[np.intp]) -> "Enrolment":
        """Return some rows (ascending); `crossed` stays as it is, since no choice of rows brings those units back."""
        return replace(
            self,
            unit=self.unit[rows],
            bucket=self.bucket[rows],
            first=self.first[rows],
            day=None if self.day is None else self.day.take(rows),
            attributes=MappingProxyType({name: column.take(rows) for name, column in self.attributes.items()}),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Metric:
    """One metric, a value per enrolled unit: sum(numerator) / sum(denominator) of an arm is its value.

    `numerator` f64[m]; `denominator` f64[m], or None for a mean per unit (a rate, where the numerator is 0
    or 1). `covariate` f64[m] is what CUPED corrects by, a quantity from before the first exposure, best the
    same numerator (see `sums_before`), with its own `covariate_denominator` where the metric is a ratio.
    Raises ValueError for columns of unequal length, values that aren't finite, an unknown goal or a
    covariate's denominator without covariate.
    """

    name: str
    numerator: Floats
    denominator: Floats | None = None
    covariate: Floats | None = None
    covariate_denominator: Floats | None = None
    goal: Goal = "increase"

    def __post_init__(self) -> None:
        if self.goal not in GOALS:
            raise ValueError(f"the goal of metric {self.name} is one of {', '.join(GOALS)}, not {self.goal}")
        if self.covariate is None and self.covariate_denominator is not None:
            raise ValueError(f"metric {self.name} has a covariate's denominator and no covariate")
        for column in (self.numerator, self.denominator, self.covariate, self.covariate_denominator):
            if column is not None:
                check_length(f"of metric {self.name}", len(column), len(self.numerator))
                if not np.isfinite(column).all():
                    raise ValueError(f"metric {self.name} has values that are not finite")

    def __len__(self) -> int:
        return len(self.numerator)

    def table(self) -> Floats:
        """Return f64[m, 4]: numerator, denominator and the covariate's; an absent covariate is 0 / 1."""
        rows = len(self.numerator)
        table = np.ones((rows, 4))
        table[:, 0] = self.numerator
        table[:, 2] = 0.0 if self.covariate is None else self.covariate
        if self.denominator is not None:
            table[:, 1] = self.denominator
        if self.covariate_denominator is not None:
            table[:, 3] = self.covariate_denominator
        return table


def enrol(exposures: Exposures) -> Enrolment:
    """Return who was in one bucket, with their first exposure. O(n log n)."""
    order = np.lexsort((exposures.time, exposures.unit))
    unit, bucket = exposures.unit[order], exposures.bucket[order]
    starts = np.flatnonzero(np.diff(unit, prepend=unit[:1] - 1))
    if len(starts) == 0:
        crossed = np.zeros(0, bool)
    else:
        crossed = np.minimum.reduceat(bucket, starts) != np.maximum.reduceat(bucket, starts)
    rows = order[starts[~crossed]]
    return Enrolment(
        exposures.unit[rows],
        exposures.bucket[rows],
        exposures.buckets,
        exposures.time[rows],
        None if exposures.day is None else exposures.day.take(rows),
        MappingProxyType({name: column.take(rows) for name, column in exposures.attributes.items()}),
        unit[starts[crossed]],
    )


def resolution(time: Floats) -> float:
    """Return the seconds of which all times are multiples: 86,400, 3,600, 60 or 1; 0 for finer times, and for none.

    An event may have happened up to so much later than its time says, since clocks and exports cut off.
    """
    for seconds in _RESOLUTIONS:
        if len(time) and not np.mod(time, seconds).any():
            return seconds
    return 0.0


def since_first(enrolment: Enrolment, unit: Codes, time: Floats, unit_of_time: float = 0.0) -> tuple[Codes, Floats]:
    """Return each event's row of `enrolment` (-1: of no enrolled unit) and its seconds since the first exposure.

    Where times are multiples of `unit_of_time` (see `resolution`) the first exposure is taken as such a
    multiple too, the last before it: an event of the same second isn't earlier than the exposure it followed.
    """
    check_length("time", len(time), len(unit))
    rows = len(enrolment)
    if rows == 0:
        return np.full(len(unit), -1, np.int64), np.full(len(unit), np.nan)
    place = np.minimum(np.searchsorted(enrolment.unit, unit), rows - 1)
    first = enrolment.first
    if unit_of_time:
        first = np.floor_divide(first, unit_of_time) * unit_of_time
    return np.where(enrolment.unit[place] == unit, place, -1), time - first[place]


def sums(
    enrolment: Enrolment,
    unit: Codes,
    time: Floats,
    value: Floats | None = None,
    within: float = np.inf,
    unit_of_time: float = 0.0,
) -> Floats:
    """Sum each enrolled unit's events from its first exposure on; f64[m], 0 for a unit without events.

    Events are n rows: `unit` i64[n], `time` f64[n] epoch seconds, `value` f64[n] (None counts events).
    Only those less than `within` seconds after the first exposure count. Events of units that aren't
    enrolled are ignored. With a finite `within`, enrol only units whose time has passed: then every unit
    had equally long, and intervals that are valid at any time really are. `unit_of_time`: see `since_first`;
    `within` should be a multiple of it.
    """
    place, since = since_first(enrolment, unit, time, unit_of_time)
    return _summed(enrolment, place, (since >= 0) & (since < within), value)


def sums_before(
    enrolment: Enrolment,
    unit: Codes,
    time: Floats,
    value: Floats | None = None,
    within: float = np.inf,
    unit_of_time: float = 0.0,
) -> Floats:
    """Sum each enrolled unit's events of the `within` seconds before its first exposure; f64[m].

    This is the covariate for CUPED: nothing after the first exposure may enter it. Events as in `sums`. With
    `unit_of_time` the span ends (and begins) one such unit earlier, since dates of another time zone and
    times that were rounded up name a unit too early or too late.
    """
    place, since = since_first(enrolment, unit, time, unit_of_time)
    return _summed(enrolment, place, (since >= -within - unit_of_time) & (since < -unit_of_time), value)


def _summed(enrolment: Enrolment, place: Codes, inside: npt.NDArray[np.bool_], value: Floats | None) -> Floats:
    counts = inside & (place >= 0)
    weights = None if value is None else value[counts]
    return np.bincount(place[counts], weights, len(enrolment)).astype(np.float64)
