"""A whole parsed `abtest.yaml`: every problem in one run, or a compiled plan."""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final

from abtest.condition import Context
from abtest.hashing import SLOTS, salt_prefix
from abtest.params import LayerName, Param, Value, read_params
from abtest.plan import UNITS, Holdout, ScenePlan
from abtest.problems import Path, Report, described, nearest
from abtest.read_buckets import Surroundings
from abtest.read_domains import read_domains, with_experiments
from abtest.read_layer import read_layer
from abtest.salts import check_salts

_ABSENT: Final[Mapping[str, object]] = MappingProxyType({})
_NO_DEFAULTS: Final[Mapping[str, Value]] = MappingProxyType({})


def read_document(
    report: Report, document: object, context: Context, scenes: Collection[str]
) -> tuple[dict[str, ScenePlan], dict[str, Param]]:
    """Return a plan for each of `scenes` and the declared parameters; worthless if anything was reported."""
    fields = report.fields(document, (), "the document", (), ("version", "params", "scenes"))
    if type(fields.get("version", 1)) is not int or fields.get("version", 1) != 1:
        report.add(("version",), f"the version is {described(fields['version'])}", "Expected 1.")
    entries = report.mapping(fields.get("scenes", _ABSENT), ("scenes",), "scenes")
    layers = _layer_names(entries)
    params = read_params(report, fields.get("params", _ABSENT), ("params",), layers)
    plans = {name: ScenePlan(name, None, None, (), _NO_DEFAULTS, _NO_DEFAULTS, (), ()) for name in scenes}
    for name, entry in entries.items():
        if name not in scenes:
            report.add(("scenes", name), f"there is no scene {name!r}", nearest(name, scenes))
        plans[name] = _scene(report, name, entry, params, context)
    check_salts(report, plans)
    return plans, {name: param for name, param in params.items() if param is not None}


def _layer_names(scenes: Mapping[str, object]) -> list[LayerName]:
    """Return every layer that stands in the document, however faulty: parameters may refer to it."""
    names: list[LayerName] = []
    for scene, entry in scenes.items():
        layers = entry.get("layers") if isinstance(entry, Mapping) else None
        if isinstance(layers, Mapping):
            names += [(scene, layer) for layer in layers if isinstance(layer, str)]
    return names


def _scene(report: Report, name: str, value: object, params: Mapping[str, Param | None], context: Context) -> ScenePlan:
    path: Path = ("scenes", name)
    fields = report.fields(value, path, f"the scene {name}", (), ("holdout", "domains", "layers"))
    holdout = domains = None
    if "holdout" in fields:
        holdout = _holdout(report, name, fields["holdout"], (*path, "holdout"))
    if "domains" in fields:
        domains = read_domains(report, name, fields["domains"], (*path, "domains"))
    exclusive = {domain.name: domain.exclusive for domain in domains.each} if domains else {}
    entries = report.mapping(fields.get("layers", _ABSENT), (*path, "layers"), f"the layers of {name}")
    layers = [
        read_layer(report, entry, (*path, "layers", layer), Surroundings(params, context, exclusive, name, layer, ""))
        for layer, entry in entries.items()
    ]
    defaults = {key: param.default for key, param in params.items() if param and param.scene == name}
    launches = [launch for layer in layers for launch in layer.launches]
    deciding = (holdout, domains, *layers)
    launched = dict(defaults)
    for launch in launches:
        launched |= launch.settings if launch.always else {}
    return ScenePlan(
        name=name,
        holdout=holdout,
        domains=domains and with_experiments(report, domains, layers),
        layers=tuple(layers),
        defaults=MappingProxyType(defaults),
        launched=MappingProxyType(launched),
        launches=tuple(launch for launch in launches if not launch.always),
        units=tuple(dict.fromkeys(each.unit for each in deciding if each is not None)),
    )


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
