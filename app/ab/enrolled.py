"""Who was exposed to which bucket of one experiment, in columns: one entry for each unit and bucket."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from abtest.analysis.columns import Attribute, Exposures

DAY = 86_400.0
_RAW = 1 << 20
DRAWN = "hash"
"""The reason of an exposure whose bucket was drawn; all others were chosen by people."""
SLICE = "slice"
"""The type of units that are slices of time."""


def _nobody() -> NDArray[np.int64]:
    return np.empty(0, np.int64)


class Key(NamedTuple):
    """One version of an experiment, as exposures name it, and what was dealt.

    A bucket that people chose is chosen for a request: its exposures name the layer's unit, also where slices of time
    are dealt. So `unit_type` is that of drawn exposures, and tells no two experiments apart.
    """

    scene: str
    layer: str
    experiment: str
    version: int
    unit_type: str

    @property
    def name(self) -> str:
        """`experiment@version`."""
        return f"{self.experiment}@{self.version}"

    def __str__(self) -> str:
        return f"{self.scene}/{self.layer}/{self.name}"


@dataclass(frozen=True, slots=True)
class Enrolled:
    """Units by their place in `units`; entry i is one unit's exposures to one bucket.

    `unit` i64[n], `bucket` i64[n] (place in `buckets`), `first` f64[n] epoch seconds of the first exposure, `count`
    i64[n] exposures. `days` counts exposures by day (since 1970, UTC) and bucket. `chosen` counts exposures that
    weren't drawn, by reason: they are in no other column. `also_chosen` i64[c] are units that were dealt and, before
    or after, had a bucket chosen for them. `unit_types` are those of drawn exposures (more than one is a mistake),
    `last` the time of the last one.
    """

    key: Key
    units: Sequence[str]
    buckets: Sequence[str]
    unit: NDArray[np.int64]
    bucket: NDArray[np.int64]
    first: NDArray[np.float64]
    count: NDArray[np.int64]
    days: Mapping[tuple[int, int], int]
    chosen: Mapping[str, int]
    also_chosen: NDArray[np.int64] = field(default_factory=_nobody)
    unit_types: Sequence[str] = ()
    last: float = -np.inf

    def exposures(self, attributes: Mapping[str, Attribute] | None = None) -> Exposures:
        """For the statistics; `attributes` are columns of `units`."""
        number = np.floor_divide(self.first, DAY).astype(np.int64)
        days, codes = np.unique(number, return_inverse=True)
        names = tuple(str(np.datetime64(int(day), "D")) for day in days)
        of_units = {name: column.take(self.unit) for name, column in (attributes or {}).items()}
        return Exposures(
            self.unit, self.bucket, tuple(self.buckets), self.first, Attribute(codes.astype(np.int64), names), of_units
        )

    def counts(self, unit: NDArray[np.int64]) -> NDArray[np.float64]:
        """How many exposures each of these units had."""
        return np.bincount(self.unit, self.count, len(self.units))[unit].astype(np.float64)

    def among(self, buckets: Sequence[str]) -> Enrolled:
        """The same with buckets numbered as in `buckets`, which holds all of its own and maybe more."""
        place = np.array([buckets.index(name) for name in self.buckets], np.int64)
        days = {(day, int(place[bucket])): seen for (day, bucket), seen in self.days.items()}
        bucket = place[self.bucket] if len(place) else self.bucket
        return replace(self, buckets=buckets, bucket=bucket, days=days)


class Gatherer:
    """Collects the exposures of one experiment; memory is bounded by its units, not by its exposures."""

    def __init__(self, key: Key) -> None:
        self.key = key
        self._units: dict[str, int] = {}
        self._buckets: dict[str, int] = {}
        self._types: dict[str, None] = {}
        self._chosen: Counter[str] = Counter()
        self._chosen_units: set[tuple[str, str]] = set()
        self._days: Counter[tuple[int, int]] = Counter()
        self._last = -np.inf
        self._raw = array("i"), array("h"), array("d")
        self._columns: tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]] = (
            np.empty(0, np.int64),
            np.empty(0, np.float64),
            np.empty(0, np.int64),
        )

    def choose(self, unit: str | None, unit_type: str, reason: str) -> None:
        """Count one exposure whose bucket people chose, for this `reason`."""
        self._chosen[reason] += 1
        if unit is not None:
            self._chosen_units.add((unit_type, unit))

    def draw(self, unit: str, unit_type: str, bucket: str, time: float) -> None:
        """Count one exposure whose bucket was drawn."""
        units, buckets, times = self._raw
        if unit_type not in self._types:
            self._types[unit_type] = None
        place = self._buckets.setdefault(bucket, len(self._buckets))
        units.append(self._units.setdefault(unit, len(self._units)))
        buckets.append(place)
        times.append(time)
        self._days[int(time // DAY), place] += 1
        if time > self._last:
            self._last = time
        if len(times) >= _RAW:
            self._reduce()

    def done(self) -> Enrolled:
        """What was collected; buckets in the order of their names."""
        self._reduce()
        codes, first, count = self._columns
        found = Enrolled(
            self.key._replace(unit_type=next(iter(self._types), self.key.unit_type)),
            list(self._units),
            list(self._buckets),
            codes >> 16,
            codes & 0xFFFF,
            first,
            count,
            self._days,
            self._chosen,
            np.array(sorted(self._dealt_and_chosen()), np.int64),
            tuple(self._types),
            self._last,
        )
        return found.among(sorted(self._buckets))

    def _dealt_and_chosen(self) -> Iterator[int]:
        for unit_type, unit in self._chosen_units:
            if unit_type in self._types and unit in self._units:
                yield self._units[unit]

    def _reduce(self) -> None:
        """One row for each unit and bucket: the earliest time, and how many."""
        units, buckets, times = (np.array(column) for column in self._raw)
        codes, first, count = self._columns
        every = np.concatenate([codes, units.astype(np.int64) << 16 | buckets.astype(np.int64)])
        self._raw = array("i"), array("h"), array("d")
        if not len(every):
            return
        distinct, where = np.unique(every, return_inverse=True)
        earliest = np.full(len(distinct), np.inf)
        np.minimum.at(earliest, where, np.concatenate([first, times.astype(np.float64)]))
        counts = np.bincount(where, np.concatenate([count, np.ones(len(times), np.int64)]), len(distinct))
        self._columns = distinct, earliest, counts.astype(np.int64)
