"""A whole parsed `abtest.yaml`: every problem in one run, or a compiled plan."""

from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from abtest.hashing import SLOTS, salt_prefix
from abtest.params import LayerName, Param, Value, read_params
from abtest.plan import UNITS, Bucket, Experiment, Holdout, Layer, ScenePlan
from abtest.problems import Path, Report, described, nearest
from abtest.read_buckets import NAME, NAME_FORM, Surroundings
from abtest.read_experiment import read_experiment
from abtest.slots import check_overlaps, slot_table

_ABSENT: Final[Mapping[str, object]] = MappingProxyType({})
_NO_DEFAULTS: Final[Mapping[str, Value]] = MappingProxyType({})


def read_document(
    report: Report, document: object, context: Mapping[str, str], scenes: Collection[str]
) -> tuple[dict[str, ScenePlan], dict[str, Param]]:
    """Return a plan for each of `scenes` and the declared parameters; worthless if anything was reported."""
    fields = report.fields(document, (), "the document", (), ("version", "params", "scenes"))
    if type(fields.get("version", 1)) is not int or fields.get("version", 1) != 1:
        report.add(("version",), f"the version is {described(fields['version'])}", "Expected 1.")
    entries = report.mapping(fields.get("scenes", _ABSENT), ("scenes",), "scenes")
    layers = _layer_names(entries)
    params = read_params(report, fields.get("params", _ABSENT), ("params",), layers)
    plans = {name: ScenePlan(name, None, (), _NO_DEFAULTS) for name in scenes}
    for name, entry in entries.items():
        if name not in scenes:
            report.add(("scenes", name), f"there is no scene {name!r}", nearest(name, scenes))
        plans[name] = _scene(report, name, entry, params, context)
    _check_salts(report, plans)
    return plans, {name: param for name, param in params.items() if param is not None}


def _layer_names(scenes: Mapping[str, object]) -> list[LayerName]:
    """Return every layer that stands in the document, however faulty: parameters may refer to it."""
    names: list[LayerName] = []
    for scene, entry in scenes.items():
        layers = entry.get("layers") if isinstance(entry, Mapping) else None
        if isinstance(layers, Mapping):
            names += [(scene, layer) for layer in layers if isinstance(layer, str)]
    return names


def _scene(
    report: Report, name: str, value: object, params: Mapping[str, Param | None], context: Mapping[str, str]
) -> ScenePlan:
    path: Path = ("scenes", name)
    fields = report.fields(value, path, f"the scene {name}", (), ("holdout", "layers"))
    holdout = None
    if "holdout" in fields:
        holdout = _holdout(report, name, fields["holdout"], (*path, "holdout"))
    entries = report.mapping(fields.get("layers", _ABSENT), (*path, "layers"), f"the layers of {name}")
    layers = [
        _layer(report, entry, (*path, "layers", layer), Surroundings(params, context, name, layer))
        for layer, entry in entries.items()
    ]
    defaults = {key: param.default for key, param in params.items() if param and param.scene == name}
    return ScenePlan(name, holdout, tuple(layers), MappingProxyType(defaults))


def _holdout(report: Report, scene: str, value: object, path: Path) -> Holdout:
    what = f"the holdout of {scene}"
    fields = report.fields(value, path, what, ("slots", "unit"))
    slots, unit = None, None
    if "slots" in fields:
        slots = report.integer(fields["slots"], (*path, "slots"), f"the number of slots of {what}", 0, SLOTS)
    if "unit" in fields:
        unit = report.choice(fields["unit"], (*path, "unit"), f"the unit of {what}", UNITS)
    salt = f"{scene}/holdout/1"
    return Holdout(slots or 0, unit or UNITS[0], salt, salt_prefix(salt))


def _layer(report: Report, value: object, path: Path, around: Surroundings) -> Layer:
    scene, name = around.scene, around.layer
    report.name(name, path, "a layer", NAME, NAME_FORM)
    fields = report.fields(value, path, f"the layer {name}", ("unit", "experiments"), ("salt",))
    unit, salt = None, f"{scene}/{name}/1"
    if "unit" in fields:
        unit = report.choice(fields["unit"], (*path, "unit"), f"the unit of {name}", UNITS)
    if "salt" in fields:
        salt = report.text(fields["salt"], (*path, "salt"), f"the salt of {name}") or salt
    inside = (*path, "experiments")
    entries = report.mapping(fields.get("experiments", _ABSENT), inside, f"the experiments of {name}")
    experiments = [
        read_experiment(report, key, entry, (*inside, key), around) for key, entry in sorted(entries.items())
    ]
    check_overlaps(report, experiments, inside)
    return Layer(
        scene=scene,
        name=name,
        unit=unit or UNITS[0],
        salt=salt,
        prefix=salt_prefix(salt),
        experiments=tuple(experiments),
        table=slot_table(experiments),
        testers=_testers(report, experiments, inside),
    )


def _testers(report: Report, experiments: list[Experiment], path: Path) -> Mapping[bytes, tuple[Experiment, Bucket]]:
    """Return the whitelists in force: a paused experiment's is checked and rests, an ended one's is void."""
    testers: dict[bytes, tuple[Experiment, Bucket]] = {}
    for experiment in experiments:
        if experiment.status == "ended":
            continue
        for unit, bucket in experiment.testers.items():
            if unit in testers:
                wrong = f"{unit.decode()!r} is in the whitelists of {testers[unit][0].key} and {experiment.key}"
                where = (*path, experiment.key, "whitelist", bucket.name)
                report.add(where, wrong, "Expected one experiment of a layer for each unit.")
            testers[unit] = experiment, bucket
    return MappingProxyType({unit: pair for unit, pair in testers.items() if pair[0].status != "paused"})


def _check_salts(report: Report, plans: Mapping[str, ScenePlan]) -> None:
    """Report each salt that stands twice: its two users would split the units alike."""
    seen: dict[str, Path] = {}
    for salt, path in _salts(plans):
        if salt in seen:
            wrong = f"the salt {salt!r} is already that of {'.'.join(map(str, seen[salt]))}"
            report.add(path, wrong, "Expected a salt of its own; without the key there is a default.")
        seen.setdefault(salt, path)


def _salts(plans: Mapping[str, ScenePlan]) -> Iterator[tuple[str, Path]]:
    for scene, plan in plans.items():
        path: Path = ("scenes", scene)
        if plan.holdout is not None:
            yield plan.holdout.salt, (*path, "holdout")
        for layer in plan.layers:
            inside: Path = (*path, "layers", layer.name)
            yield layer.salt, _salted(inside, layer.salt, f"{scene}/{layer.name}/1")
            for experiment in layer.experiments:
                where = (*inside, "experiments", experiment.key)
                default = f"{scene}/{layer.name}/{experiment.key.replace('@', '/')}"
                yield experiment.salt, _salted(where, experiment.salt, default)


def _salted(path: Path, salt: str, default: str) -> Path:
    return path if salt == default else (*path, "salt")
