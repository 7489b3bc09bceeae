"""Attributes of items and users: a column's distinct values, and the type that they have together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bootstrap.coding import Coded, code, take, trimmed
from bootstrap.columns import ABSENT, f32, id_texts, is_number, missing
from bootstrap.data import Column
from bootstrap.errors import InputError, NotTextError
from bootstrap.source import Source, type_text
from bootstrap.times import epoch_seconds, parse_texts

TEXTS = frozenset({"title", "category"})
"""Attributes of items that are text, whatever they look like."""
PRICE = "price"
LARGEST = float(np.finfo(np.float32).max)
INT = r"^-?(0|[1-9]\d{0,17})$"
FLOAT = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
NOT_FINITE = r"^[+-]?(?i:inf|infinity|nan)$"
BOOL = r"^(?i:true|false)$"
INSTANT = r"^\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}.*)?$"


class Unusable(Exception):
    """A column that is no attribute; the text is the reason, for the report."""


@dataclass(frozen=True)
class Attribute:
    """The values of a column, missing ones apart; `notes` are for the report."""

    coded: Coded
    notes: tuple[str, ...] = ()


def attribute(source: Source, column: str, role: str | None, *, mapped: bool = False) -> Attribute:
    """An attribute's distinct values: text is trimmed and the empty text missing; numbers are finite.

    A `role` of TEXTS is text as written, numbers as ids are; one of PRICE is numbers. In a CSV file, "NA" and its
    kin are missing, and the values of other columns get the narrowest type that holds all of them.
    Raises Unusable for a column of lists, records, durations or bytes, for one without values, and for a price
    that is no number; the latter is an InputError that names the row where a person `mapped` the column.
    """
    try:
        values = source.column(column)
    except NotTextError:
        raise Unusable("holds bytes that aren't UTF-8 text") from None
    _check_kind(values.type)
    if role == PRICE:
        found = _price(source, column, values, mapped=mapped)
    elif role in TEXTS:
        found = Attribute(code(values).mapped(lambda v: trimmed(_texts(source, v), missing=missing(source))))
    else:
        found = _narrowest(source, column, values)
    if len(found.coded.values) == 0:
        raise Unusable("is empty")
    return found


def typed(source: Source, name: str, coded: Coded, codes: NDArray[np.int32]) -> Column:
    """The column that holds `coded.values[codes]`: f32, i32, bool, f64 (epoch seconds) or text.

    Whole numbers are i32 when all fit and none is missing; too long ones stay exact, as text.
    """
    values, kind = coded.values, coded.values.type
    whole = len(codes) > 0 and bool((codes >= 0).all())
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return take(epoch_seconds(source, name, values), codes, np.float64(np.nan))
    if pa.types.is_boolean(kind) and whole:
        return np.array(values.to_numpy(zero_copy_only=False), np.bool_)[codes]
    if pa.types.is_boolean(kind):
        values, kind = values.cast(pa.int8()), pa.int8()
    if pa.types.is_integer(kind):
        if not _fits(values):
            values, kind = values.cast(pa.large_string()), pa.large_string()
        elif whole:
            return np.array(values.to_numpy(zero_copy_only=False), np.int32)[codes]
    if is_number(kind):
        return take(f32(values), codes, np.float32(np.nan))
    texts: list[str | None] = values.to_pylist()
    texts.append(None)
    return [texts[c] for c in codes.tolist()]


def _check_kind(kind: Any) -> None:
    if pa.types.is_null(kind):
        raise Unusable("is empty")
    if pa.types.is_nested(kind):
        raise Unusable("holds lists or records")
    if pa.types.is_duration(kind) or pa.types.is_time(kind):
        raise Unusable("holds durations" if pa.types.is_duration(kind) else "holds times of day without a date")
    known = (pa.types.is_large_string, pa.types.is_boolean, pa.types.is_timestamp, pa.types.is_date)
    if not is_number(kind) and not any(test(kind) for test in known):
        raise Unusable(f"has type {type_text(kind)}")


def _narrowest(source: Source, column: str, values: Any) -> Attribute:
    if pa.types.is_floating(values.type):
        return _finite(column, code(values), _in_range)
    coded = code(values)
    if not pa.types.is_large_string(coded.values.type):
        return Attribute(coded)
    coded = coded.mapped(lambda texts: trimmed(texts, missing=missing(source)))
    if not source.text:
        return Attribute(coded)
    finite = _without_infinite(coded.values)
    if finite.null_count < len(finite) and _all_match(finite, FLOAT):
        return _finite(column, coded, _numbers)
    return Attribute(Coded(coded.codes, _narrowed(coded.values)))


def _price(source: Source, column: str, values: Any, *, mapped: bool) -> Attribute:
    kind = values.type
    coded = code(values)
    if pa.types.is_large_string(kind):
        coded = coded.mapped(lambda texts: trimmed(texts, missing=ABSENT))
        wrong = pc.invert(pc.match_substring_regex(coded.values, f"{FLOAT}|{NOT_FINITE}"))
        if pc.any(wrong).as_py():
            bad = pc.index(wrong, True).as_py()
            message = f"{coded.values[bad].as_py()[:40]!r} is no number. Expected a price such as 2.5."
            _refuse(source.error(message, row=coded.first(bad), column=column), mapped=mapped)
        return _finite(column, coded, lambda texts: _exact(_numbers(texts)))
    if not is_number(kind):
        error = source.error(f"has type {type_text(kind)}. Expected prices as numbers.", column=column)
        _refuse(error, mapped=mapped)
    if pa.types.is_floating(kind):
        return _finite(column, coded, _in_range)
    return Attribute(coded.mapped(_exact))


def _refuse(error: InputError, *, mapped: bool) -> None:
    if mapped:
        raise error
    raise Unusable(error.message if error.row is None else f"{error.place}: {error.message}")


def _finite(column: str, coded: Coded, change: Callable[[Any], Any]) -> Attribute:
    """The column as numbers by `change`, with a note of how many values that loses."""
    changed = coded.mapped(change)
    lost = int(((coded.codes >= 0) & (changed.codes < 0)).sum())
    if pa.types.is_floating(coded.values.type):  # there, NaN is how a missing number is written
        nan = np.isnan(f32(coded.values))
        lost -= int(take(nan, coded.codes, np.bool_(False)).sum())
    note = f"{column} is no finite number in {lost:,} {'row' if lost == 1 else 'rows'}: read as missing"
    return Attribute(changed, (note,) if lost else ())


def _numbers(texts: Any) -> Any:
    """Text that matches FLOAT or NOT_FINITE as numbers, null where it isn't finite."""
    finite = _without_infinite(texts)
    return finite.cast(pa.int64()) if _all_match(finite, INT) else _in_range(finite.cast(pa.float64()))


def _in_range(numbers: Any) -> Any:
    """Floats, null where f32 can't hold them."""
    return pc.if_else(pc.less_equal(pc.abs(numbers.cast(pa.float64())), LARGEST), numbers, None)


def _exact(numbers: Any) -> Any:
    """Whole numbers that are too long for i32 as floats, so that they stay numbers."""
    return (
        numbers if not pa.types.is_integer(numbers.type) or _fits(numbers) else numbers.cast(pa.float64(), safe=False)
    )


def _fits(numbers: Any) -> bool:
    extremes = pc.min_max(numbers).as_py()
    return (extremes["max"] or 0) < 2**31 and (extremes["min"] or 0) >= -(2**31)


def _texts(source: Source, values: Any) -> Any:
    if pa.types.is_timestamp(values.type):
        texts = values.cast(pa.timestamp(values.type.unit)).cast(pa.large_string())
        return pc.replace_substring_regex(texts, r" 00:00:00(\.0+)?$|\.0+$|(\.\d*[1-9])0+$", r"\2")
    if pa.types.is_large_string(values.type) or pa.types.is_date(values.type):
        return values.cast(pa.large_string())
    return id_texts(source, values)


def _narrowed(texts: Any) -> Any:
    if _all_match(texts, BOOL):
        return pc.equal(pc.utf8_lower(texts), "true")
    if _all_match(texts, INSTANT):
        try:
            return pa.array(parse_texts(texts) * 1e6).cast(pa.int64(), safe=False).cast(pa.timestamp("us"))
        except pa.ArrowInvalid:
            return texts
    return texts


def _without_infinite(texts: Any) -> Any:
    return pc.if_else(pc.match_substring_regex(texts, NOT_FINITE), pa.scalar(None, texts.type), texts)


def _all_match(texts: Any, pattern: str) -> bool:
    return len(texts) > 0 and bool(pc.all(pc.match_substring_regex(texts, pattern)).as_py())
