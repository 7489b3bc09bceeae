"""One experiment of a parsed `abtest.yaml`, checked and compiled.

A field that has a problem is replaced by a harmless value, so that the rest is still checked; the caller
throws the result away when anything was reported.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from abtest.condition import read_condition
from abtest.hashing import salt_prefix
from abtest.plan import Bucket, Experiment, Freed, Slots
from abtest.problems import Path, Report, described, nearest
from abtest.read_buckets import Surroundings, read_buckets, read_testers
from abtest.read_values import KEY, KEY_FORM, read_instant, read_length, read_period, read_slots

_RESTING: Final[Mapping[str, str | None]] = MappingProxyType(
    {"draft": "not_started", "running": None, "paused": "paused", "ended": "ended"}
)
_REQUIRED: Final = ("owner", "status", "slots", "buckets")
_OPTIONAL: Final = ("when", "whitelist", "salt", "description", "start", "end", "unit", "domain", "slices", "freed")


def read_experiment(report: Report, key: str, value: object, path: Path, around: Surroundings) -> Experiment:
    """Return the experiment `key`; problems go to `report`."""
    report.name(key, path, "an experiment", KEY, KEY_FORM)
    fields = report.fields(value, path, f"the experiment {key}", _REQUIRED, _OPTIONAL)
    owner = description = ""
    status, when = "draft", None
    slots: Slots = ()
    buckets: tuple[Bucket, ...] = ()
    if "owner" in fields:
        owner = report.text(fields["owner"], (*path, "owner"), f"the owner of {key}") or ""
    if "description" in fields:
        description = report.text(fields["description"], (*path, "description"), "the description") or ""
    if "status" in fields:
        status = report.choice(fields["status"], (*path, "status"), f"the status of {key}", _RESTING) or "draft"
    if "slots" in fields:
        slots = read_slots(report, fields["slots"], (*path, "slots"), key)
    if "when" in fields:
        when = read_condition(report, fields["when"], (*path, "when"), around.context)
    if "buckets" in fields:
        buckets = read_buckets(report, key, fields["buckets"], (*path, "buckets"), around)
    salt, every = _hashed(report, fields, path, key, around)
    start, end = read_period(report, fields, path, key)
    resting = _RESTING[status]
    _check_unit(report, fields, path, key, around)
    return Experiment(
        scene=around.scene,
        layer=around.layer,
        key=key,
        owner=owner,
        description=description,
        status=status,
        domain=_domain(report, fields, path, key, around),
        slots=slots,
        salt=salt,
        prefix=salt_prefix(salt),
        when=when,
        buckets=buckets,
        split=_split(buckets),
        testers=read_testers(report, fields.get("whitelist", {}), (*path, "whitelist"), buckets),
        freed=_freed(report, fields.get("freed", {}), (*path, "freed"), key),
        start=start,
        end=end,
        every=every,
        resting=resting,
        steady=resting is None and when is None and start is None and end is None and every is None,
    )


def _split(buckets: tuple[Bucket, ...]) -> Sequence[int]:
    """Return the index of the bucket of each of 10,000 slots, as bytes where it fits: 10 kB an experiment."""
    if len(buckets) > 256:
        return tuple(index for index, bucket in enumerate(buckets) for _ in range(bucket.weight))
    return b"".join(bytes((index,)) * bucket.weight for index, bucket in enumerate(buckets))


def _hashed(
    report: Report, fields: Mapping[str, object], path: Path, key: str, around: Surroundings
) -> tuple[str, int | None]:
    """Return the salt of the second hash, and the length of a time slice where slices are what it splits."""
    salt, every = f"{around.scene}/{around.layer}/{key.replace('@', '/')}", None
    if "salt" in fields:
        salt = report.text(fields["salt"], (*path, "salt"), f"the salt of {key}") or salt
    if "slices" in fields:
        where = (*path, "slices")
        slices = report.fields(fields["slices"], where, f"the slices of {key}", ("every",), ("salt",))
        if "every" in slices:
            every = read_length(report, slices["every"], (*where, "every"), f"the length of a slice of {key}")
        if "salt" in slices and "salt" in fields:
            report.add((*where, "salt"), f"{key} has two salts", "Expected one: there is one split.")
        elif "salt" in slices:
            salt = report.text(slices["salt"], (*where, "salt"), f"the salt of {key}") or salt
    return salt, every


def _check_unit(report: Report, fields: Mapping[str, object], path: Path, key: str, around: Surroundings) -> None:
    if "unit" in fields and fields["unit"] != around.unit:
        wrong = f"the unit of {key} is {described(fields['unit'])}, and that of its layer {around.unit}"
        report.add((*path, "unit"), wrong, "Expected the layer's: its slots are those of the layer.")


def _domain(report: Report, fields: Mapping[str, object], path: Path, key: str, around: Surroundings) -> str | None:
    """Return the name of an exclusive domain, None for the overlapping one."""
    if "domain" not in fields:
        if around.domains and all(around.domains.values()):
            fix = f"Expected `domain`, one of {', '.join(sorted(around.domains))}: no domain is overlapping."
            report.add(path, f"{key} is in no domain", fix)
        return None
    name = fields["domain"]
    if not isinstance(name, str) or name not in around.domains:
        report.add((*path, "domain"), f"there is no domain {name!r}", nearest(name, around.domains))
        return None
    return name if around.domains[name] else None


def _freed(report: Report, value: object, path: Path, key: str) -> tuple[Freed, ...]:
    """Return what the experiment gave up, and when."""
    freed: list[Freed] = []
    for moment, ranges in report.mapping(value, path, f"what {key} freed").items():
        at = read_instant(report, moment, (*path, moment), f"a time at which {key} freed slots")
        slots = read_slots(report, ranges, (*path, moment), key)
        if at is not None:
            freed.append(Freed(slots, key, at))
    return tuple(freed)
