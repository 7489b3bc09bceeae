"""Times of events and exposures: read from JSON as bootstrap reads columns, and which of them can be true."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from time import time as now_by_clock
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from app.ab.enrolled import DAY
from app.ab.errors import AbError
from bootstrap.coding import trimmed
from bootstrap.times import DAY_FIRST, UNITS, parse_texts, reads_day_first

EARLIEST = 631_152_000.0
"""1990-01-01 UTC. What claims to be older has lost its date on the way."""

_NUMBER = r"^-?\d+(\.\d*)?$"
_LEAST = {"ms": 1e11, "us": 1e14, "ns": 1e17}
_UNREADABLE = "is no time between 1990 and now"

Floats = NDArray[np.float64]


def latest(now: float | None) -> float:
    """The last time that can be true, for who reads at `now` (None: by the clock): clocks differ, but not by a day."""
    return (now_by_clock() if now is None else now) + DAY


def why_unread(said: object) -> str:
    """What to say about a value that is no time, or none that can be true."""
    shown = repr(said)
    return f"{shown if len(shown) <= 40 else shown[:40] + '...'} {_UNREADABLE}"


def why_impossible(seconds: float) -> str:
    """What to say about epoch seconds that can't be true, as a date where they are one."""
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} {_UNREADABLE}"
    except (ValueError, OverflowError, OSError):
        return f"{seconds} {_UNREADABLE}"


def possible(time: Floats, last: float) -> NDArray[np.bool_]:
    """bool[n]: which times lie from 1990 to `last` (see `latest`); NaN doesn't."""
    return np.asarray((time >= EARLIEST) & (time <= last), np.bool_)


class JsonTimes:
    """Times of one file of JSON lines, block after block, as `bootstrap.times.epoch_seconds` reads those of a column.

    A number is epoch seconds, milliseconds, microseconds or nanoseconds by its own size, or a day written as
    20111209; text is ISO 8601 or a number, UTC without a zone. Whether 1/12/2010 has the day first is the same in
    the whole file: `read` raises AbError where nothing tells, or where blocks tell different things.
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self._day_first: bool | None = None

    def read(self, said: Sequence[float | str]) -> Floats:
        """f64[n] epoch seconds, NaN for what is no time."""
        if str not in set(map(type, said)):
            return _of_numbers(np.array(said, np.float64))
        seconds = _of_numbers(np.array([np.nan if isinstance(one, str) else one for one in said], np.float64))
        texts = [one for one in said if isinstance(one, str)]
        places = {text: place for place, text in enumerate(dict.fromkeys(texts))}
        read = self._of_texts(list(places))[[places[text] for text in texts]]
        seconds[[isinstance(one, str) for one in said]] = read
        return seconds

    def _of_texts(self, distinct: Sequence[str]) -> Floats:
        texts = trimmed(pa.array(distinct, pa.large_string()))
        numeric = pc.fill_null(pc.match_substring_regex(texts, _NUMBER), False)
        chosen = numeric.to_numpy(zero_copy_only=False)
        seconds = np.full(len(distinct), np.nan)
        seconds[chosen] = _of_numbers(np.array(texts.filter(numeric).cast(pa.float64()), np.float64))
        written = texts.filter(pc.invert(numeric))
        seconds[~chosen] = _parsed(written, self._has_day_first(written))
        return seconds

    def _has_day_first(self, texts: Any) -> bool:
        if not pc.any(pc.match_substring_regex(texts, DAY_FIRST)).as_py():
            return False
        try:
            found = reads_day_first(texts)
        except ValueError as error:
            if self._day_first is None:
                raise AbError(f"{self._where}: a time such as 1/12/2010 {error} Expected ISO 8601.") from None
            return self._day_first
        if self._day_first not in (None, found):
            raise AbError(f"{self._where}: of times such as 1/12/2010 some have the day first. Expected ISO 8601.")
        self._day_first = found
        return found


def _of_numbers(numbers: Floats) -> Floats:
    """Seconds of numbers of any unit: those of one never lie where another's true times do."""
    seconds = numbers.copy()
    size = np.abs(numbers)
    for unit, least in _LEAST.items():
        seconds[size >= least] = numbers[size >= least] / UNITS[unit]
    days = (numbers >= 19_900_101) & (numbers <= 21_001_231) & (np.floor(numbers) == numbers)
    if days.any():
        written = [f"{int(day):08d}" for day in numbers[days]]
        seconds[days] = _parsed(pa.array([f"{d[:4]}-{d[4:6]}-{d[6:]}" for d in written], pa.large_string()), False)
    return seconds


def _parsed(texts: Any, day_first: bool) -> Floats:
    """f64[n], NaN for what is no time; found by halving, so that a few of those cost little."""
    if not len(texts):
        return np.empty(0)
    convert = partial(parse_texts, day_first=day_first)
    try:
        return convert(texts)
    except pa.ArrowInvalid:
        if len(texts) == 1:
            return np.full(1, np.nan)
        half = len(texts) // 2
        return np.concatenate([_parsed(texts[:half], day_first), _parsed(texts[half:], day_first)])
