"""From a scene's configuration and a loaded release to a ScenePlan: the only caller of component constructors.

A step that reads experiment parameters gets one component for every combination of the values that the
configuration names, here and once; a request only picks.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, get_args, get_origin

from expression import Expression, compile_expression, parameters_of
from stages.errors import ReleaseError
from stages.filters.exclude import Exclude
from stages.guard import POLICIES
from stages.plan import ScenePlan, Step, Variant, cut_segments
from stages.registry import Duration, Setting, core_of, settings_of
from stages.roles import LISTED, ColumnName, Model, Table, VectorIndex
from stages.scene import Param, SceneConfig, StepConfig
from stages.types import Scalar

MAX_VARIANTS = 32
MAX_CHANNELS = 63  # a bit each in u64, and one for the fallback


@dataclass(frozen=True, slots=True)
class Resources:
    """What names in a scene stand for.

    `schema` gives the type of every column; `live` maps a fetched item column to its view; `reads` maps a derived
    column to the stored ones behind it; `spaces` gives the embedding space of vector columns that name one.
    """

    indexes: Mapping[str, VectorIndex]
    tables: Mapping[str, Table]
    models: Mapping[str, Model]
    schema: Mapping[str, str]
    live: Mapping[str, str] = field(default_factory=dict)
    reads: Mapping[str, frozenset[str]] = field(default_factory=dict)
    spaces: Mapping[str, str] = field(default_factory=dict)


def compose(scene: SceneConfig, resources: Resources, values: Mapping[str, Sequence[Scalar]]) -> ScenePlan:
    """Build every step of a scene. `values` gives, per experiment parameter, all values that the configuration names.

    ReleaseError names the step and what the release lacks.
    """
    if len(scene.recall) > MAX_CHANNELS:
        raise ReleaseError(f"{scene.name}: {len(scene.recall)} channels. Expected at most {MAX_CHANNELS}.")
    built = {step.name: _built(step, resources, values) for step in scene.steps}
    small = scene.ladder.small
    if small is not None and scene.rank is not None:
        other = replace(small, name=f"{scene.rank.name}.small")
        built[scene.rank.name] = replace(built[scene.rank.name], small=_built(other, resources, values))
    ordering = [step for step in (scene.pre_rank, scene.rank, *scene.re_rank) if step is not None]
    filters = tuple(built[step.name] for step in scene.filters)
    stored = tuple(f for f in filters if not _live(f.needs, resources))
    fetched = tuple(f for f in filters if _live(f.needs, resources))
    steps = (*stored, *fetched, *(built[step.name] for step in ordering))
    returned = tuple(f"item.{name}" for name in scene.returned)
    segments = cut_segments(steps, resources.live, resources.reads, frozenset(returned))
    fallback = None
    if scene.fallback is not None:
        fallback = _named("table", resources.tables, scene.fallback)
        _check_lists(scene.fallback, fallback, "group", (*scene.path, "fallback"))
    return ScenePlan(
        name=scene.name,
        budget=scene.budget,
        recall=tuple(built[step.name] for step in scene.recall),
        segments=segments,
        filters=filters,
        limit=scene.limit,
        returned=returned,
        fallback=fallback,
        group=scene.group,
        excludes=any(issubclass(step.component, Exclude) for step in scene.filters),
        least=scene.ladder.least,
        slow=_slow(scene, built),
        priority=scene.priority,
    )


def _slow(scene: SceneConfig, built: Mapping[str, Step]) -> frozenset[str]:
    """The channels that the ladder leaves out: as configured, else those that wait, unless that is all of them."""
    if scene.ladder.skip is not None:
        return frozenset(scene.ladder.skip)
    waiting = frozenset(step.name for step in scene.recall if built[step.name].waits)
    return waiting if len(waiting) < len(scene.recall) else frozenset()


def _live(needs: frozenset[str], resources: Resources) -> bool:
    stored = needs.union(*(resources.reads.get(name, frozenset()) for name in needs))
    return any(name in resources.live for name in stored)


def _built(config: StepConfig, resources: Resources, values: Mapping[str, Sequence[Scalar]]) -> Step:
    try:
        return _step(config, resources, values)
    except (ReleaseError, ValueError) as error:  # a component's __post_init__ may refuse its settings
        raise ReleaseError(_naming(config.name, str(error)), config.path) from error


def _naming(step: str, message: str) -> str:
    return message if message.startswith(step) else f"{step}: {message}"


def _step(config: StepConfig, resources: Resources, values: Mapping[str, Sequence[Scalar]]) -> Step:
    settings = settings_of(config.component)
    reads = _parameters(config, settings)
    count = math.prod(len(set(values[name])) for name in reads)
    if count > MAX_VARIANTS:
        raise ReleaseError(f"{config.name}: {count} variants of one step. Expected at most {MAX_VARIANTS}.")
    variants: dict[tuple[Scalar, ...], Variant] = {}
    for choice in itertools.product(*(values[name] for name in reads)):
        params = dict(zip(reads, choice, strict=True))
        keep = params[config.keep.name] if isinstance(config.keep, Param) else config.keep
        variants[choice] = Variant(
            _component(config, settings, resources, params),
            keep=None if keep is None else int(keep),
            when=None if config.when is None else compile_expression(config.when, resources.schema, params),
        )
    needs = frozenset().union(*(v.needs for v in variants.values()))
    return Step(
        role=config.role,
        name=config.name,
        variants=variants,
        reads=reads,
        cap=config.cap,
        on_fail=config.on_fail or POLICIES[config.role][0],
        at_least=config.at_least or 0,
        behind=frozenset().union(*(resources.reads.get(name, ()) for name in needs)),
    )


def _parameters(config: StepConfig, settings: Sequence[Setting]) -> tuple[str, ...]:
    names: set[str] = set()
    if isinstance(config.keep, Param):
        names.add(config.keep.name)
    if config.when is not None:
        names |= parameters_of(config.when)
    for setting in settings:
        value = config.settings.get(setting.name)
        if isinstance(value, Param):
            names.add(value.name)
        elif isinstance(value, str) and _is_expression(setting.type):
            names |= parameters_of(value)
    return tuple(sorted(names))


def _component(
    config: StepConfig, settings: Sequence[Setting], resources: Resources, params: Mapping[str, Scalar]
) -> Any:
    given: dict[str, Any] = {}
    for setting in settings:
        if setting.name in config.settings:
            value = config.settings[setting.name]
            value = params[value.name] if isinstance(value, Param) else value
            given[setting.attribute] = _resolve(config, setting, value, resources, params, _heads(given))
    _check_spaces(config, given, resources)
    return config.component(**given)


def _resolve(
    config: StepConfig,
    setting: Setting,
    value: Any,
    resources: Resources,
    params: Mapping[str, Scalar],
    heads: Mapping[str, str],
) -> Any:
    kind = _referred(setting.type)
    if kind is not None:
        found: Mapping[type, tuple[str, Mapping[str, Any]]] = {
            VectorIndex: ("index", resources.indexes),
            Table: ("table", resources.tables),
            Model: ("model", resources.models),
        }
        held = _named(*_at(found, kind, config), value)
        for keyed in LISTED:
            if keyed in core_of(setting.type)[1]:
                _check_lists(value, held, keyed)
        return held
    if _is_expression(setting.type) and isinstance(value, str):
        return compile_expression(value, {**resources.schema, **heads}, params)
    plain, _ = core_of(setting.type)
    if plain is ColumnName:
        return ColumnName(value)
    return Duration(value) if plain is Duration else value


def _at(found: Mapping[type, tuple[str, Mapping[str, Any]]], kind: Any, config: StepConfig) -> tuple[str, Any]:
    if kind not in found:
        raise ReleaseError(f"{config.name}: Ref[{kind.__name__}]. Expected Ref of VectorIndex, Table or Model.")
    return found[kind]


def _named(kind: str, held: Mapping[str, Any], name: str) -> Any:
    if name not in held:
        raise ReleaseError(f"The release has no {kind} {name!r}. It has {', '.join(held) or 'none'}.")
    return held[name]


def _check_lists(name: str, table: Table, keyed: str, path: tuple[str | int, ...] = ()) -> None:
    """A release may hold lists of another kind than models.yaml declares. A table without lists is of either."""
    held = "group" if table.groups else "items"
    if len(table) and keyed != held:
        raise ReleaseError(
            f"The release's table {name!r} has a list for each {LISTED[held]}. "
            f"Expected a list for each {LISTED[keyed]}, as models.yaml declares it.",
            path,
        )


def _heads(given: Mapping[str, Any]) -> dict[str, str]:
    """The heads of a model among the settings resolved so far: names that an expression after it may read."""
    return {head: "f32" for value in given.values() if isinstance(value, Model) for head in value.heads}


def _check_spaces(config: StepConfig, given: Mapping[str, Any], resources: Resources) -> None:
    """Vectors of different spaces refuse to meet: all that a component is given must agree."""
    spaces: dict[str, str] = {}
    for name, value in given.items():
        space = resources.spaces.get(value) if isinstance(value, ColumnName) else getattr(value, "space", None)
        if isinstance(space, str):
            spaces[name] = space
    if len(set(spaces.values())) > 1:
        raise ReleaseError(
            f"{config.name}: vectors of different spaces, "
            + ", ".join(f"{name} in {space!r}" for name, space in spaces.items())
            + ". Expected one space."
        )


def _referred(kind: Any) -> Any:
    core, _ = core_of(kind)
    return get_args(core)[0] if getattr(get_origin(core), "__name__", "") == "Ref" else None


def _is_expression(kind: Any) -> bool:
    return core_of(kind)[0] is Expression
