"""Small readers that several parts of a document share: slot ranges, times, periods, lengths of time."""

import re
from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Final

from abtest.hashing import SLOTS
from abtest.plan import Slots
from abtest.problems import Path, Report, described

KEY = re.compile(r"[A-Za-z_][\w.-]*@[1-9]\d{0,8}", re.ASCII)
KEY_FORM = "name@version with a whole version, such as exp_mmr@1"
NAME = re.compile(r"[A-Za-z_][\w.-]*", re.ASCII)
NAME_FORM = "a letter or `_`, then letters, digits, `_`, `.` and `-`"

_EARLIEST, _LATEST = 0.0, 253_370_764_800.0  # of year 9999: zones must not lead out of what a date can be
_LENGTH = re.compile(r"([1-9]\d{0,5})(m|h|d)", re.ASCII)
_SECONDS: Final[Mapping[str, int]] = MappingProxyType({"m": 60, "h": 3600, "d": 86_400})


def read_slots(report: Report, value: object, path: Path, key: str) -> Slots:
    """Return the ranges that make sense, sorted; overlaps are the business of `abtest.slots`."""
    ranges: list[tuple[int, int]] = []
    for index, entry in enumerate(report.sequence(value, path, f"the slots of {key}")):
        where = (*path, index)
        pair = report.sequence(entry, where, f"a slot range of {key}")
        if len(pair) != 2:
            if pair or entry == []:
                report.add(where, f"a slot range of {key} has {len(pair)} ends", "Expected [from, to).")
            continue
        low, high = (
            report.integer(end, (*where, place), f"a slot of {key}", 0, SLOTS) for place, end in enumerate(pair)
        )
        if low is None or high is None:
            continue
        if low >= high:
            wrong = f"the slot range [{low}, {high}) of {key} is {'empty' if low == high else 'inverted'}"
            report.add(where, wrong, "Expected [from, to) with from below to.")
            continue
        ranges.append((low, high))
    return tuple(sorted(ranges))


def read_period(
    report: Report, fields: Mapping[str, object], path: Path, key: str
) -> tuple[float | None, float | None]:
    """Return `start` and `end` in epoch seconds, None where absent."""
    start, end = (
        read_instant(report, fields[name], (*path, name), f"the {name} of {key}") if name in fields else None
        for name in ("start", "end")
    )
    if start is not None and end is not None and end <= start:
        report.add((*path, "end"), f"the end of {key} isn't after its start", "Expected a later time.")
    return start, end


def read_instant(report: Report, value: object, path: Path, what: str) -> float | None:
    """Return a time with a zone in epoch seconds."""
    moment = value
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            moment = None
    if not isinstance(moment, datetime):
        report.add(path, f"{what} is {described(value)}", "Expected a time such as 2026-03-01T09:00:00+08:00.")
        return None
    if moment.utcoffset() is None:
        report.add(path, f"{what} has no time zone", f"Expected one, such as {moment.isoformat()}+00:00.")
        return None
    if not _EARLIEST <= moment.timestamp() < _LATEST:
        report.add(path, f"{what} is out of range", "Expected a year from 1970 to 9998.")
        return None
    return moment.timestamp()


def read_length(report: Report, value: object, path: Path, what: str) -> int | None:
    """Return a length of time of at least a minute in seconds."""
    match = _LENGTH.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        report.add(path, f"{what} is {described(value)}", "Expected minutes, hours or days such as 30m, 1h or 1d.")
        return None
    return int(match[1]) * _SECONDS[match[2]]
