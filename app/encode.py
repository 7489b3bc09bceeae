"""A columnar answer as JSON. The only place where a Python object per returned item is made."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from app.wire import Degraded, Item, RecommendAnswer
from stages.types import Answer

# Above this every f32 is an integer, which is written in full.
_EXACT = 2.0**24
_DIGITS = 6
# Powers of ten that are exact in f64: a six-digit integer divided by one is the double nearest to the short
# decimal, and so prints as it.
_POWERS = np.array([float(f"1e{power}") for power in range(16)])
_SMALLEST = 1e-9


class AnswerEncoder:
    """Encodes answers as `interfaces.md` shows them. NaN and infinities become null (msgspec's rule)."""

    def __init__(self) -> None:
        self._encoder = msgspec.json.Encoder(enc_hook=_numpy)
        # One struct per set of returned fields, of which a configuration has as many as scenes: a struct is
        # built and encoded in half the time of a dict.
        self._structs: dict[tuple[str, ...], type[Any]] = {}

    def encode(self, answer: Answer) -> bytes:
        """The JSON document of `answer`. O(items x fields); about 60 us for 50 items with two fields."""
        return self._encoder.encode(
            RecommendAnswer(
                answer.request_id,
                answer.scene,
                answer.config,
                answer.release,
                self._items(answer),
                answer.buckets,
                [Degraded(step, reason) for step, reason in answer.degraded],
                answer.short,
                answer.level,
                answer.cursor,
                msgspec.UNSET if answer.trace is None else answer.trace,
            )
        )

    def _items(self, answer: Answer) -> list[Item]:
        n = len(answer.ids)
        columns = [plain(column) for column in answer.fields.values()]
        if not n == len(answer.scores) == len(answer.channels) or any(len(column) != n for column in columns):
            raise ValueError("an answer's columns differ in length")
        scores = short_decimals(answer.scores)
        fields: Iterable[Any] = map(self._struct(tuple(answer.fields)), *columns) if columns else ({},) * n
        return list(map(Item, answer.ids, scores, answer.channels, fields))

    def _struct(self, names: tuple[str, ...]) -> type[Any]:
        struct = self._structs.get(names)
        if struct is None:
            keys = {f"f{at}": name for at, name in enumerate(names)}
            struct = self._structs[names] = msgspec.defstruct("Fields", list(keys), rename=keys, gc=False)
        return struct


def plain(column: Sequence[Any] | NDArray[Any]) -> list[Any]:
    """A column as Python values, f32 ones as short as f32 needs (2.49, not 2.490000009536743)."""
    if isinstance(column, np.ndarray):
        return _shortest(column) if column.dtype == np.float32 else list(column.tolist())
    first = next((value for value in column if value is not None), None)
    if not isinstance(first, float):
        return list(column)
    wide = np.array(column, np.float64)  # None becomes NaN, and so null
    if not bool(np.abs(wide).max() < _EXACT) and not np.isnan(wide).any():
        return list(column)
    narrow = wide.astype(np.float32)
    same = (narrow == wide) | (wide != wide)
    return _shortest(narrow) if bool(same.all()) else list(column)


def short_decimals(values: NDArray[np.float32]) -> list[float]:
    """f32[n] rounded to six significant digits, as the doubles that print so (below 1e-9: 15 decimals)."""
    rounded: list[float] = _rounded(values).tolist()
    return rounded


def _rounded(values: NDArray[np.float32]) -> NDArray[np.float64]:
    wide = values.astype(np.float64)
    size = np.abs(wide)
    if not bool(size.max(initial=0.0) < 10.0**_DIGITS):  # NaN included
        return np.array([float(f"{value:.{_DIGITS}g}") for value in wide.tolist()])
    decimals = _DIGITS - 1 - np.floor(np.log10(np.maximum(size, _SMALLEST)))
    power = _POWERS.take(decimals.astype(np.intp))
    rounded: NDArray[np.float64] = np.rint(wide * power) / power
    return rounded


def _shortest(column: NDArray[np.float32]) -> list[Any]:
    if column.ndim != 1:
        return list(column.tolist())
    rounded = _rounded(column)
    short: list[Any] = rounded.tolist()
    wrong = rounded.astype(np.float32) != column
    if wrong.any():
        for at in np.flatnonzero(wrong).tolist():
            short[at] = float(str(column[at]))  # 7 to 9 digits; slow, and rare for prices and shares
    return short


def _numpy(value: object) -> object:
    """Numpy values inside a trace. Raises NotImplementedError, msgspec's sign for an unsupported type."""
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    raise NotImplementedError(type(value).__name__)  # the signal that msgspec's hook protocol asks for
