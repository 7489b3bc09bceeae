"""One experiment of a parsed `abtest.yaml`, checked and compiled.

A field that has a problem is replaced by a harmless value, so that the rest is still checked; the caller
throws the result away when anything was reported.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from itertools import accumulate
from types import MappingProxyType
from typing import Final

from abtest.condition import read_condition
from abtest.hashing import SLOTS, salt_prefix
from abtest.plan import Bucket, Experiment, Slots
from abtest.problems import Path, Report, described
from abtest.read_buckets import Surroundings, read_buckets, read_testers

_KEY = re.compile(r"[A-Za-z_][\w.-]*@[1-9]\d{0,8}", re.ASCII)

_RESTING: Final[Mapping[str, str | None]] = MappingProxyType(
    {"draft": "not_started", "running": None, "paused": "paused", "ended": "ended"}
)
_REQUIRED: Final = ("owner", "status", "slots", "buckets")
_OPTIONAL: Final = ("when", "whitelist", "salt", "description", "start", "end")


def read_experiment(report: Report, key: str, value: object, path: Path, around: Surroundings) -> Experiment:
    """Return the experiment `key`; problems go to `report`."""
    report.name(key, path, "an experiment", _KEY, "name@version with a whole version, such as exp_mmr@1")
    fields = report.fields(value, path, f"the experiment {key}", _REQUIRED, _OPTIONAL)
    salt = f"{around.scene}/{around.layer}/{key.replace('@', '/')}"
    owner = description = ""
    status, when = "draft", None
    slots: Slots = ()
    buckets: tuple[Bucket, ...] = ()
    if "owner" in fields:
        owner = report.text(fields["owner"], (*path, "owner"), f"the owner of {key}") or ""
    if "description" in fields:
        description = report.text(fields["description"], (*path, "description"), "the description") or ""
    if "salt" in fields:
        salt = report.text(fields["salt"], (*path, "salt"), f"the salt of {key}") or salt
    if "status" in fields:
        status = report.choice(fields["status"], (*path, "status"), f"the status of {key}", _RESTING) or "draft"
    if "slots" in fields:
        slots = _slots(report, fields["slots"], (*path, "slots"), key)
    if "when" in fields:
        when = read_condition(report, fields["when"], (*path, "when"), around.context)
    if "buckets" in fields:
        buckets = read_buckets(report, key, fields["buckets"], (*path, "buckets"), around)
    start, end = _period(report, fields, path, key)
    return Experiment(
        scene=around.scene,
        layer=around.layer,
        key=key,
        owner=owner,
        description=description,
        status=status,
        slots=slots,
        salt=salt,
        prefix=salt_prefix(salt),
        when=when,
        buckets=buckets,
        bounds=tuple(accumulate(bucket.weight for bucket in buckets)),
        testers=read_testers(report, fields.get("whitelist", {}), (*path, "whitelist"), buckets),
        start=start,
        end=end,
        resting=_RESTING[status],
    )


def _slots(report: Report, value: object, path: Path, key: str) -> Slots:
    """Return the ranges that make sense, sorted; overlaps are the layer's business."""
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


def _period(report: Report, fields: Mapping[str, object], path: Path, key: str) -> tuple[float | None, float | None]:
    start, end = (
        _instant(report, fields[name], (*path, name), f"the {name} of {key}") if name in fields else None
        for name in ("start", "end")
    )
    if start is not None and end is not None and end <= start:
        report.add((*path, "end"), f"the end of {key} isn't after its start", "Expected a later time.")
    return start, end


def _instant(report: Report, value: object, path: Path, what: str) -> float | None:
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
    return moment.timestamp()
