"""Arrow columns -> what the rest of bootstrap computes with: id codes, weights, typed attributes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bootstrap.coding import Coded, code, first_refused, take, trimmed
from bootstrap.data import Column
from bootstrap.source import Source
from bootstrap.times import epoch_seconds, parse_texts

ABSENT = frozenset(["", "NA", "N/A", "NaN", "nan", "null", "NULL", "None"])
"""Text that means "nothing" in an attribute or a weight of a CSV file. Ids are never read that way."""
MAX_ID_BYTES = 256
"""Of ids and event names in UTF-8; a request can't name longer ones."""
INT = r"^-?(0|[1-9]\d{0,17})$"
FLOAT = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
BOOL = r"^(?i:true|false)$"
INSTANT = r"^\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}.*)?$"


def ids(source: Source, name: str, column: Any) -> tuple[NDArray[np.int32], list[str]]:
    """Codes i32[n] (-1: empty or null) into the distinct ids, as text and byte for byte as written.

    A float column of whole numbers gives "17850", not "17850.0"; so does such a column of a CSV file.
    Raises InputError for types that can't be ids.
    """
    return _numbered(source, name, code(column))


def events(source: Source, name: str, column: Any) -> tuple[NDArray[np.int32], list[str]]:
    """As `ids`, but text is read as an attribute's is: trimmed, and "null" and its kin missing in a CSV file."""
    coded = code(column)
    if pa.types.is_large_string(coded.values.type):
        coded = coded.mapped(lambda values: trimmed(values, missing=_missing(source)))
    return _numbered(source, name, coded)


def too_long(codes: NDArray[np.int32], names: list[str]) -> NDArray[np.bool_]:
    """bool[n]: whether `names[code]` has more than MAX_ID_BYTES bytes."""
    return take(np.array([len(name.encode()) > MAX_ID_BYTES for name in names], np.bool_), codes, np.bool_(False))


def _numbered(source: Source, name: str, coded: Coded) -> tuple[NDArray[np.int32], list[str]]:
    texts = _id_texts(source, name, coded.values)
    values: list[str | None] = texts.to_pylist()
    distinct = sorted({value for value in values if value})
    place = {value: number for number, value in enumerate(distinct)}
    numbers = np.array([place.get(value or "", -1) for value in values], np.int32)
    return take(numbers, coded.codes, np.int32(-1)), distinct


def _id_texts(source: Source, name: str, values: Any) -> Any:
    kind = values.type
    if pa.types.is_large_string(kind):
        if source.text and pc.all(pc.match_substring_regex(values, r"^(-?\d+\.0+)?$")).as_py():
            return pc.replace_substring_regex(values, r"\.0+$", "")
        return values
    if pa.types.is_floating(kind):
        numbers = values.cast(pa.float64())
        numbers = pc.if_else(pc.is_finite(numbers), numbers, None)
        whole = pc.and_(pc.equal(pc.floor(numbers), numbers), pc.less(pc.abs(numbers), 2.0**63))
        if pc.all(whole).as_py() is not False:
            numbers = numbers.cast(pa.int64())
        return numbers.cast(pa.large_string())
    if pa.types.is_decimal(kind):
        return pc.replace_substring_regex(values.cast(pa.large_string()), r"\.0+$", "")
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind):
        return values.cast(pa.large_string())
    raise source.error(f"has type {kind}. Expected ids as text or whole numbers.", column=name)


def weights(source: Source, name: str, column: Any, rows: NDArray[np.int64]) -> NDArray[np.float32]:
    """f32[n], NaN where nothing is written; `rows` i64[n] are the source's rows that the values come from.

    Raises InputError, which names the row, for text that is no number.
    """
    if pa.types.is_large_string(column.type):
        coded = code(column)
        texts = trimmed(coded.values, missing=ABSENT)
        try:
            numbers = _f32(texts)
        except pa.ArrowInvalid:
            bad = first_refused(texts, _f32)
            message = f"{texts[bad].as_py()[:40]!r} is no number. Expected a weight such as 1 or 2.5."
            raise source.error(message, row=int(rows[coded.first(bad)]), column=name) from None
        return take(numbers, coded.codes, np.float32(np.nan))
    if not _is_number(column.type) and not pa.types.is_null(column.type):
        raise source.error(f"has type {column.type}. Expected numbers.", column=name)
    return _f32(column)


def attribute(source: Source, column: Any) -> Coded | None:
    """An attribute's distinct values: text is trimmed and the empty text missing.

    None for a type that is no attribute (lists, structs, durations). In a CSV file, "NA" and its kin are
    missing too, and the values get the narrowest type that holds all of them.
    """
    kind = column.type
    if pa.types.is_large_string(kind):
        coded = code(column).mapped(lambda values: trimmed(values, missing=_missing(source)))
        return Coded(coded.codes, _narrowed(coded.values)) if source.text else coded
    if pa.types.is_floating(kind):
        return code(pc.if_else(pc.is_finite(column), column, None))
    if _is_number(kind) or any(test(kind) for test in (pa.types.is_boolean, pa.types.is_timestamp, pa.types.is_date)):
        return code(column)
    return None


def _missing(source: Source) -> frozenset[str]:
    return ABSENT if source.text else frozenset({""})


def _narrowed(texts: Any) -> Any:
    def all_match(pattern: str) -> bool:
        return len(texts) > 0 and bool(pc.all(pc.match_substring_regex(texts, pattern)).as_py())

    if all_match(INT):
        return texts.cast(pa.int64())
    if all_match(FLOAT):
        return texts.cast(pa.float64())
    if all_match(BOOL):
        return pc.equal(pc.utf8_lower(texts), "true")
    if all_match(INSTANT):
        try:
            return pa.array(parse_texts(texts) * 1e6).cast(pa.int64(), safe=False).cast(pa.timestamp("us"))
        except pa.ArrowInvalid:
            return texts
    return texts


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
        extremes = pc.min_max(values).as_py()
        if (extremes["max"] or 0) >= 2**31 or (extremes["min"] or 0) < -(2**31):
            values, kind = values.cast(pa.large_string()), pa.large_string()
        elif whole:
            return np.array(values.to_numpy(zero_copy_only=False), np.int32)[codes]
    if _is_number(kind):
        return take(_f32(values), codes, np.float32(np.nan))
    texts: list[str | None] = values.to_pylist()
    texts.append(None)
    return [texts[c] for c in codes.tolist()]


def _f32(values: Any) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):
        return np.array(values.cast(pa.float64()).to_numpy(zero_copy_only=False)).astype(np.float32)


def _is_number(kind: Any) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))
