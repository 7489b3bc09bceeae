"""Dictionary codes of an Arrow column: conversions then work on the distinct values only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

T = TypeVar("T", bound=np.generic)


@dataclass(frozen=True)
class Coded:
    """`codes` i32[n] into `values` (a pyarrow.Array of distinct values without nulls); -1 is missing."""

    codes: NDArray[np.int32]
    values: Any

    def first(self, code: int) -> int:
        """The first position that holds the code."""
        return int(np.argmax(self.codes == code))

    def mapped(self, change: Callable[[Any], Any]) -> Coded:
        """The column with `change` applied to its distinct values: equals are joined, nulls are missing."""
        new = code(pa.chunked_array([change(self.values)]))
        return Coded(take(new.codes, self.codes, np.int32(-1)), new.values)


def code(column: Any) -> Coded:
    """Dictionary-codes a ChunkedArray; codes count distinct values in the order of appearance."""
    encoded = column.dictionary_encode().combine_chunks()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = pa.concat_arrays(encoded.chunks) if encoded.num_chunks else encoded
    codes = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False)
    return Coded(codes.astype(np.int32, copy=False), encoded.dictionary)


def take(values: NDArray[T], codes: NDArray[np.int32], missing: T) -> NDArray[T]:
    """`values[codes]`, and `missing` where the code is -1."""
    return np.append(values, missing)[codes]


def trimmed(values: Any, *, missing: frozenset[str] = frozenset({""})) -> Any:
    """Text without white space around it; null where that is one of `missing`."""
    values = pc.utf8_trim_whitespace(values)
    absent = pc.is_in(values, value_set=pa.array(sorted(missing), values.type))
    return pc.if_else(absent, pa.scalar(None, values.type), values)


def first_refused(values: Any, convert: Callable[[Any], Any]) -> int:
    """The position of the first value on which `convert` (of a whole array) raises ArrowInvalid.

    By bisection: O(n) conversions in all.
    """
    low, high = 0, len(values)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            convert(values.slice(low, middle - low))
        except pa.ArrowInvalid:
            high = middle
        else:
            low = middle
    return low
