"""Arrow columns -> what the rest of bootstrap computes with: id codes and weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bootstrap.coding import Coded, code, first_refused, take, trimmed
from bootstrap.source import Source, type_text

ABSENT = frozenset(["", "NA", "N/A", "NaN", "nan", "null", "NULL", "None"])
"""Text that means "nothing" in an attribute or a weight of a CSV file. Ids are never read that way."""
MAX_ID_BYTES = 256
"""Of ids and event names in UTF-8; a request can't name longer ones."""


def ids(source: Source, name: str, column: Any) -> tuple[NDArray[np.int32], list[str]]:
    """Codes i32[n] (-1: empty or null) into the distinct ids, as text and byte for byte as written.

    A float column of whole numbers gives "17850", not "17850.0"; so does such a column of a CSV file.
    Raises InputError for types that can't be ids.
    """
    _check_ids(source, name, column.type)
    return _numbered(source, code(column))


def events(source: Source, name: str, column: Any) -> tuple[NDArray[np.int32], list[str]]:
    """As `ids`, but text is read as an attribute's is: trimmed, and "null" and its kin missing in a CSV file."""
    _check_ids(source, name, column.type)
    coded = code(column)
    if pa.types.is_large_string(coded.values.type):
        coded = coded.mapped(lambda values: trimmed(values, missing=missing(source)))
    return _numbered(source, coded)


def too_long(codes: NDArray[np.int32], names: list[str]) -> NDArray[np.bool_]:
    """bool[n]: whether `names[code]` has more than MAX_ID_BYTES bytes."""
    return take(np.array([len(name.encode()) > MAX_ID_BYTES for name in names], np.bool_), codes, np.bool_(False))


def _check_ids(source: Source, name: str, kind: Any) -> None:
    fits = (pa.types.is_large_string, is_number, pa.types.is_boolean, pa.types.is_null)
    if not any(test(kind) for test in fits):
        raise source.error(f"has type {type_text(kind)}. Expected text or whole numbers.", column=name)


def _numbered(source: Source, coded: Coded) -> tuple[NDArray[np.int32], list[str]]:
    texts = id_texts(source, coded.values)
    values: list[str | None] = texts.to_pylist()
    distinct = sorted({value for value in values if value})
    place = {value: number for number, value in enumerate(distinct)}
    numbers = np.array([place.get(value or "", -1) for value in values], np.int32)
    return take(numbers, coded.codes, np.int32(-1)), distinct


def id_texts(source: Source, values: Any) -> Any:
    """Text, numbers or booleans as ids are written."""
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
    return values.cast(pa.large_string())


def weights(source: Source, name: str, column: Any) -> NDArray[np.float32]:
    """f32[n], NaN where nothing is written.

    Raises InputError, which names the row, for text that is no number.
    """
    if pa.types.is_large_string(column.type):
        coded = code(column)
        texts = trimmed(coded.values, missing=ABSENT)
        try:
            numbers = f32(texts)
        except pa.ArrowInvalid:
            bad = first_refused(texts, f32)
            message = f"{texts[bad].as_py()[:40]!r} is no number. Expected a weight such as 1 or 2.5."
            raise source.error(message, row=coded.first(bad), column=name) from None
        return take(numbers, coded.codes, np.float32(np.nan))
    if not is_number(column.type) and not pa.types.is_null(column.type):
        raise source.error(f"has type {type_text(column.type)}. Expected numbers.", column=name)
    return f32(column)


def missing(source: Source) -> frozenset[str]:
    """The texts that mean "nothing" in the source's attributes."""
    return ABSENT if source.text else frozenset({""})


def f32(values: Any) -> NDArray[np.float32]:
    """Numbers as f32, NaN where they are null."""
    with np.errstate(over="ignore"):
        return np.array(values.cast(pa.float64()).to_numpy(zero_copy_only=False)).astype(np.float32)


def is_number(kind: Any) -> bool:
    """Whether an Arrow type is one of numbers."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))
