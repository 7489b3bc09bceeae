"""The buckets of one experiment and its whitelist, checked."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from abtest.condition import Context
from abtest.hashing import SLOTS, encode_unit
from abtest.params import Param, Value
from abtest.plan import Bucket
from abtest.problems import Path, Report, described, nearest
from abtest.read_values import NAME, NAME_FORM


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What an experiment is checked against.

    `params` are the declared parameters (None: faulty), `context` what conditions may read, `domains` the scene's
    domains by name, and which of them are exclusive; `unit` is the layer's.
    """

    params: Mapping[str, Param | None]
    context: Context
    domains: Mapping[str, bool]
    scene: str
    layer: str
    unit: str


def read_buckets(report: Report, key: str, value: object, path: Path, around: Surroundings) -> tuple[Bucket, ...]:
    """Return the buckets of `key` in the order of their names."""
    entries = report.mapping(value, path, f"the buckets of {key}")
    buckets: list[Bucket] = []
    whole = True
    for name in sorted(entries):
        where = (*path, name)
        report.name(name, where, "a bucket", NAME, NAME_FORM)
        fields = report.fields(entries[name], where, f"the bucket {name}", ("weight",), ("control", "set"))
        weight = None
        if "weight" in fields:
            weight = report.integer(
                fields["weight"], (*where, "weight"), f"the weight of {name}, out of {SLOTS},", 0, SLOTS
            )
        whole = whole and weight is not None
        control = fields.get("control", False)
        if not isinstance(control, bool):
            report.add((*where, "control"), f"control is {described(control)}", "Expected true or false.")
        values = read_settings(report, fields.get("set", {}), (*where, "set"), around)
        label, read_only = f"{key}/{name}", MappingProxyType(values)
        buckets.append(Bucket(name, label, weight or 0, control is True, read_only, values))
    if isinstance(value, Mapping):
        _check_buckets(report, key, buckets, path, whole)
    return tuple(buckets)


def _check_buckets(report: Report, key: str, buckets: list[Bucket], path: Path, whole: bool) -> None:
    total = sum(bucket.weight for bucket in buckets)
    if whole and total != SLOTS:
        report.add(path, f"the weights of {key} sum to {total}", f"Expected {SLOTS}.")
    controls = [bucket.name for bucket in buckets if bucket.control]
    if len(controls) != 1:
        said = " and ".join(controls) or "no bucket"
        report.add(path, f"{key} has {said} as control", "Expected exactly one bucket with `control: true`.")
    union = {name for bucket in buckets for name in bucket.values}
    if buckets and not union:
        fix = "Expected at least one; buckets that are to behave alike set the same value."
        report.add(path, f"{key} sets no parameter, so that nobody could be exposed to it", fix)
    for bucket in buckets:
        missing = sorted(union - bucket.values.keys())
        if missing:
            fix = f"Expected the same keys in every bucket: {', '.join(sorted(union))}."
            where = (*path, bucket.name)
            report.add(where, f"the bucket {bucket.name} doesn't set {', '.join(missing)}", fix)


def read_settings(report: Report, value: object, path: Path, around: Surroundings) -> dict[str, Value]:
    """Return what a bucket or launch sets; a faulty value stays in by name, so that key sets can be compared."""
    values: dict[str, Value] = {}
    for name, entry in report.mapping(value, path, "set").items():
        where = (*path, name)
        values[name] = 0
        if name not in around.params:
            report.add(where, f"the parameter {name!r} isn't declared", nearest(name, around.params))
            continue
        param = around.params[name]
        if param is None:
            continue
        if (param.scene, param.layer) != (around.scene, around.layer):
            wrong = f"{name} belongs to the layer {param.scene}/{param.layer}"
            fix = f"{around.scene}/{around.layer} can't set it; a parameter has one layer."
            report.add(where, wrong, fix)
            continue
        admitted = param.admit(entry)
        if admitted is None:
            report.add(where, f"{name} is {described(entry)}", f"Expected {param.expected}.")
        else:
            values[name] = admitted
    return values


def read_testers(report: Report, value: object, path: Path, buckets: tuple[Bucket, ...]) -> Mapping[bytes, Bucket]:
    """Return the whitelist as encoded units and their buckets."""
    by_name = {bucket.name: bucket for bucket in buckets}
    testers: dict[bytes, Bucket] = {}
    for name, entry in report.mapping(value, path, "whitelist").items():
        where = (*path, name)
        if name not in by_name:
            report.add(where, f"there is no bucket {name!r}", nearest(name, by_name))
        for index, unit in enumerate(report.sequence(entry, where, f"the whitelist of {name}")):
            encoded = encode_unit(unit)
            if encoded is None:
                fix = "Expected text or an integer, at most 256 bytes."
                report.add((*where, index), f"{described(unit)} is no unit", fix)
            elif encoded in testers and testers[encoded].name != name:
                wrong = f"{unit!r} is in the whitelists of {testers[encoded].name} and {name}"
                report.add((*where, index), wrong, "Expected one bucket for each unit.")
            elif name in by_name:
                testers[encoded] = by_name[name]
    return MappingProxyType(testers)
