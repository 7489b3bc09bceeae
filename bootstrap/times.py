"""Timestamps in whatever form exports write them -> epoch seconds (UTC)."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bootstrap.coding import code, first_refused, take, trimmed
from bootstrap.source import Source, type_text

EXPECTED = "Expected epoch seconds or milliseconds, or ISO 8601 such as 2011-12-09T12:50:00Z."
UNITS = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}
DAY_FIRST = r"^(?P<a>\d{1,2})[/.-](?P<b>\d{1,2})[/.-](?P<year>\d{4})(?P<rest>(?:[ T]+\d{1,2}:\d{2}.*)?)$"
YEAR_FIRST = r"^(\d{4})[/.](\d{1,2})[/.](\d{1,2})"
ZONE = r":\d{2}(\.\d+)? ?(Z|[+-]\d{2}(:?\d{2})?)$"


def epoch_seconds(source: Source, name: str, column: Any) -> NDArray[np.float64]:
    """f64[n] epoch seconds of a column, NaN where it has nothing; times without a zone are UTC.

    Integers and floats are epoch seconds, ms, us or ns by their magnitude, or days written as 20111209.
    Raises InputError naming the row of the first value that is no time.
    """
    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return _instants(column)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return _numbers(source, name, _floats(column))
    if pa.types.is_null(kind):
        return np.full(len(column), np.nan)
    if not pa.types.is_large_string(kind):
        raise source.error(f"has type {type_text(kind)}, which is no time. {EXPECTED}", column=name)
    coded = code(column)
    texts = trimmed(coded.values)
    numeric = pc.match_substring_regex(texts, r"^-?\d+(\.\d*)?$")
    if pc.all(numeric).as_py():
        return _numbers(source, name, take(_floats(texts), coded.codes, np.float64(np.nan)))
    try:
        day_first = reads_day_first(texts)
    except ValueError as error:
        raise source.error(f"{error} {EXPECTED}", column=name) from None
    try:
        seconds = parse_texts(texts, day_first=day_first)
    except pa.ArrowInvalid:
        bad, what = first_refused(texts, partial(parse_texts, day_first=day_first)), "is no time"
        if numeric[bad].as_py():  # not wrong in itself: what is unlike it is to blame
            bad, what = pc.index(numeric, False).as_py(), "is no time, or not written like the numbers in this column"
        message = f"{_shown(texts[bad].as_py())} {what}. {EXPECTED}"
        raise source.error(message, row=coded.first(bad), column=name) from None
    return take(seconds, coded.codes, np.float64(np.nan))


def parse_time(text: str) -> float:
    """Epoch seconds of one time as a person types it (`--as-of`): ISO 8601, or epoch seconds.

    Raises ValueError with what was expected.
    """
    try:
        seconds = float(text)
    except ValueError:
        texts = trimmed(pa.array([text], pa.large_string()))
        try:
            seconds = float(parse_texts(texts, day_first=reads_day_first(texts))[0])
        except ValueError:  # ArrowInvalid is one
            seconds = np.nan
    if not np.isfinite(seconds):
        raise ValueError(f"{_shown(text)} is no time. {EXPECTED}")
    return seconds


def parse_texts(texts: Any, *, day_first: bool = False) -> NDArray[np.float64]:
    """f64[n] epoch seconds of an array of trimmed text; `day_first` reads 1/12/2010 as the first of December.

    Raises pyarrow.ArrowInvalid for text that is no time.
    """
    texts = pc.replace_substring_regex(texts, r" *(UTC|GMT)$", "Z")
    texts = pc.replace_substring_regex(texts, YEAR_FIRST, r"\1-\2-\3")
    texts = pc.replace_substring_regex(texts, r"(\.\d{6})\d+", r"\1")
    texts = _year_first(texts, day_first=day_first)
    zoned = pc.match_substring_regex(texts, ZONE)
    none = pa.scalar(None, texts.type)
    compact = pc.replace_substring_regex(texts, r" (Z|[+-])", r"\1")
    utc = pc.if_else(zoned, compact, none).cast(pa.timestamp("us", "UTC"))
    naive = pc.if_else(zoned, none, texts).cast(pa.timestamp("us"))
    return _instants(pc.coalesce(utc.cast(pa.timestamp("us")), naive))


def reads_day_first(texts: Any) -> bool:
    """Whether dates such as 1/12/2010 have the day first: a value over 12 anywhere in the column tells.

    Raises ValueError where there are such dates and nothing tells.
    """
    parts = pc.extract_regex(texts, DAY_FIRST)
    if parts.null_count == len(parts):
        return False
    top_a, top_b = (pc.max(pc.struct_field(parts, name).cast(pa.int32())).as_py() for name in ("a", "b"))
    if top_a <= 12 and top_b <= 12:
        raise ValueError("could be day/month or month/day.")
    return bool(top_a > 12)


def _year_first(texts: Any, *, day_first: bool) -> Any:
    """12/1/2010 8:26 -> 2010-12-01 08:26."""
    parts = pc.extract_regex(texts, DAY_FIRST)
    if parts.null_count == len(parts):
        return texts
    a, b, year, rest = (pc.struct_field(parts, name) for name in ("a", "b", "year", "rest"))
    month, day = (b, a) if day_first else (a, b)
    rest = pc.replace_substring_regex(rest, r"^[ T]+(\d):", r" 0\1:")
    dash, nothing = pa.scalar("-", texts.type), pa.scalar("", texts.type)
    dates = pc.binary_join_element_wise(year, _two(month), _two(day), dash)
    return pc.coalesce(pc.binary_join_element_wise(dates, rest, nothing), texts)


def _two(digits: Any) -> Any:
    return pc.utf8_lpad(digits, 2, "0")


def _instants(column: Any) -> NDArray[np.float64]:
    if pa.types.is_date(column.type):
        column = column.cast(pa.timestamp("ms"))
    unit = UNITS[column.type.unit]
    missing = pc.is_null(column).to_numpy(zero_copy_only=False)
    whole = pc.fill_null(column.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    out: NDArray[np.float64] = whole / unit
    out[missing] = np.nan
    return out


def _floats(column: Any) -> NDArray[np.float64]:
    out = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return np.array(out, np.float64)


def _numbers(source: Source, name: str, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    known = numbers[~np.isnan(numbers)]
    if len(known) == 0:
        return numbers
    if np.isinf(known).any():
        row = int(np.argmax(np.isinf(numbers)))
        raise source.error(f"{numbers[row]} is no time. {EXPECTED}", row=row, column=name)
    if _are_days(known):
        days = [f"{int(d):08d}" for d in np.unique(known)]
        texts = pa.array([f"{d[:4]}-{d[4:6]}-{d[6:]}" for d in days], pa.large_string())
        try:
            seconds = parse_texts(texts)
        except pa.ArrowInvalid:
            return numbers
        out = np.full(len(numbers), np.nan)
        out[~np.isnan(numbers)] = seconds[np.searchsorted(np.unique(known), known)]
        return out
    unit = _unit(float(known.max()))
    odd = (numbers > 1e8) & (numbers < 1e11 * UNITS[unit] / 1e3) & (unit != "s")
    if odd.any():
        row = int(np.argmax(odd))
        message = f"{numbers[row]:.0f} isn't in the unit of the others ({unit} since 1970). {EXPECTED}"
        raise source.error(message, row=row, column=name)
    return numbers / UNITS[unit]


def _are_days(known: NDArray[np.float64]) -> bool:
    month, day = known // 100 % 100, known % 100
    inside = (known >= 19000101) & (known <= 21001231) & (known % 1 == 0)
    return bool((inside & (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)).all())


def _unit(largest: float) -> str:
    for unit, limit in (("s", 1e11), ("ms", 1e14), ("us", 1e17)):
        if largest < limit:
            return unit
    return "ns"


def _shown(text: str | None) -> str:
    return repr(text if text is None or len(text) <= 40 else text[:40] + "...")
