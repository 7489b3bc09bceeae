"""What goes in: columns of equal length, ids and names as integer codes. No data frames, no files."""

from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Self

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
"""f64 columns."""

Codes = npt.NDArray[np.int64]
"""i64 columns."""

NOTHING: Final = "(none)"
"""The name of the group that has no value for an attribute."""


@dataclass(frozen=True, slots=True, eq=False)
class Attribute:
    """A column of names: `codes` i64[n] into `values`, -1 where a row has none.

    Raises ValueError for a code outside [-1, len(values)).
    """

    codes: Codes
    values: tuple[str, ...]

    def __post_init__(self) -> None:
        check_codes("attribute", self.codes, len(self.values), lowest=-1)

    @classmethod
    def encode(cls, column: Sequence[str | None]) -> Self:
        """Return the column of a list of names; the codes follow their sorted order."""
        values = tuple(sorted({each for each in column if each is not None}))
        code = {value: index for index, value in enumerate(values)}
        codes = np.fromiter((-1 if each is None else code[each] for each in column), np.int64, len(column))
        return cls(codes, values)

    def take(self, rows: npt.NDArray[np.intp]) -> "Attribute":
        """Return the column of some rows."""
        return Attribute(self.codes[rows], self.values)

    def __len__(self) -> int:
        return len(self.codes)


def _no_attributes() -> Mapping[str, Attribute]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True, eq=False)
class Exposures:
    """Exposure records of one version of one experiment, one row each, in any order.

    `unit` i64[n] are codes of unit ids (any integers), `bucket` i64[n] codes into `buckets`, `time` f64[n]
    epoch seconds; `day` and each of `attributes` have n rows. Leave out what wasn't dealt by the hash
    (reasons `whitelist` and `forced`): such rows say nothing about the split and bias every comparison.
    Raises ValueError for columns of unequal length and codes out of range.
    """

    unit: Codes
    bucket: Codes
    buckets: tuple[str, ...]
    time: Floats
    day: Attribute | None = None
    attributes: Mapping[str, Attribute] = field(default_factory=_no_attributes)

    def __post_init__(self) -> None:
        columns: dict[str, Sized] = {"unit": self.unit, "bucket": self.bucket, "time": self.time, **self.attributes}
        if self.day is not None:
            columns["day"] = self.day
        for name, column in columns.items():
            check_length(name, len(column), len(self.unit))
        check_codes("bucket", self.bucket, len(self.buckets))

    def __len__(self) -> int:
        return len(self.unit)


def check_length(name: str, length: int, expected: int) -> None:
    """Raise ValueError unless a column has as many rows as the others."""
    if length != expected:
        raise ValueError(f"column {name} has {length} rows where the others have {expected}")


def check_codes(name: str, codes: Codes, count: int, lowest: int = 0) -> None:
    """Raise ValueError unless all codes lie in [lowest, count)."""
    if len(codes) and not (lowest <= codes.min() and codes.max() < count):
        raise ValueError(f"a code of column {name} lies outside [{lowest}, {count})")
