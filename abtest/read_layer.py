"""One layer of a parsed `abtest.yaml`: its launches and experiments, checked and compiled."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from types import MappingProxyType

from abtest.condition import read_condition
from abtest.hashing import salt_prefix
from abtest.plan import UNITS, Bucket, Experiment, Launch, Layer
from abtest.problems import Path, Report
from abtest.read_buckets import Surroundings, read_settings
from abtest.read_experiment import read_experiment
from abtest.read_values import KEY, KEY_FORM, NAME, NAME_FORM, read_period
from abtest.slots import check_overlaps, slot_table


def read_layer(report: Report, value: object, path: Path, around: Surroundings) -> Layer:
    """Return a layer; `around.unit` is found here."""
    scene, name = around.scene, around.layer
    report.name(name, path, "a layer", NAME, NAME_FORM)
    fields = report.fields(value, path, f"the layer {name}", ("unit", "experiments"), ("salt", "launches"))
    unit, salt = None, f"{scene}/{name}/1"
    if "unit" in fields:
        unit = report.choice(fields["unit"], (*path, "unit"), f"the unit of {name}", UNITS)
    if "salt" in fields:
        salt = report.text(fields["salt"], (*path, "salt"), f"the salt of {name}") or salt
    around = replace(around, unit=unit or UNITS[0])
    inside = (*path, "experiments")
    entries = report.mapping(fields.get("experiments", {}), inside, f"the experiments of {name}")
    experiments = [
        read_experiment(report, key, entry, (*inside, key), around) for key, entry in sorted(entries.items())
    ]
    overlapping = [experiment for experiment in experiments if experiment.domain is None]
    check_overlaps(report, overlapping, "this layer")
    return Layer(
        scene=scene,
        name=name,
        unit=around.unit,
        salt=salt,
        prefix=salt_prefix(salt),
        launches=_launches(report, fields.get("launches", {}), (*path, "launches"), around),
        experiments=tuple(experiments),
        table=slot_table(overlapping),
        testers=_testers(report, experiments),
    )


def _launches(report: Report, value: object, path: Path, around: Surroundings) -> tuple[Launch, ...]:
    """Return the launches of a layer; no two set the same parameter, so that they have no order."""
    launches: list[Launch] = []
    setters: dict[str, str] = {}
    for key, entry in sorted(report.mapping(value, path, f"the launches of {around.layer}").items()):
        where = (*path, key)
        report.name(key, where, "a launch", KEY, KEY_FORM)
        launch = _launch(report, key, entry, where, around)
        for name in launch.values:
            if name in setters:
                wrong = f"{name} is set by the launches {setters[name]} and {key}"
                report.add((*where, "set", name), wrong, "Expected one launch for each parameter.")
            setters.setdefault(name, key)
        launches.append(launch)
    return tuple(launches)


def _launch(report: Report, key: str, value: object, path: Path, around: Surroundings) -> Launch:
    what = f"the launch {key}"
    fields = report.fields(value, path, what, ("set",), ("when", "start", "end", "owner", "description"))
    words = {
        name: report.text(fields[name], (*path, name), f"the {name} of {key}") or ""
        for name in ("owner", "description")
        if name in fields
    }
    when = read_condition(report, fields["when"], (*path, "when"), around.context) if "when" in fields else None
    found = len(report.problems)
    values = read_settings(report, fields.get("set", {}), (*path, "set"), around)
    if "set" in fields and not values and len(report.problems) == found:
        report.add((*path, "set"), f"{what} sets nothing", "Expected at least one parameter.")
    start, end = read_period(report, fields, path, key)
    description = words.get("description", "")
    return Launch(key, description, when, start, end, MappingProxyType(values), values)


def _testers(report: Report, experiments: Collection[Experiment]) -> Mapping[bytes, tuple[Experiment, Bucket]]:
    """Return the whitelists in force: a paused experiment's is checked and rests, an ended one's is void."""
    testers: dict[bytes, tuple[Experiment, Bucket]] = {}
    for experiment in experiments:
        if experiment.status == "ended":
            continue
        for unit, bucket in experiment.testers.items():
            if unit in testers:
                wrong = f"{unit.decode()!r} is in the whitelists of {testers[unit][0].key} and {experiment.key}"
                where = (*experiment.place, "whitelist", bucket.name)
                report.add(where, wrong, "Expected one experiment of a layer for each unit.")
            testers[unit] = experiment, bucket
    return MappingProxyType({unit: pair for unit, pair in testers.items() if pair[0].status != "paused"})
