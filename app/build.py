"""From a checked configuration and an active release to a Snapshot: built aside and warmed; the caller swaps it in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, time
from typing import Literal

import mmh3

from app.config.ages import stale_views
from app.config.catalog import schema_of
from app.config.model import Config, Features, FieldConfig, Models, ViewConfig
from app.config.problems import ConfigError
from app.rehearsal import Rehearsed, rehearse
from app.snapshot import Snapshot
from features.behaviour import Behaviour, event_codes
from features.codec import RowField, RowSchema
from features.commands import Commands
from features.keys import KeyTemplate, OwnKey
from features.live import CachePolicy, LiveField, LiveView
from features.manifest import active
from features.memory_store import MemoryStore
from features.reader import ItemFetcher, Recent, UserReader
from features.resident import FieldSpec
from features.store import FeatureStore, UserPlan
from stages.abandoned import Abandoned
from stages.compose import Resources, compose
from stages.derived import DerivedSpec, stored_reads
from stages.errors import ReleaseError
from stages.pipeline import Pipeline
from stages.plan import ScenePlan
from stages.release import Release
from stages.runtime.release import LoadedRelease, ModelSpec, ReleaseSpec, ViewSpec, load_release

NO_CACHE_LIMIT = float("inf")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What outlives a snapshot: connections to the store, the compute pool and what it may run at once, the clock
    (epoch seconds), and what requests have left behind."""

    commands: Commands
    pool: Executor
    clock: Callable[[], float]
    threads: int = 1
    abandoned: Abandoned = field(default_factory=Abandoned)


def release_folder(config: Config, version: str | None = None) -> Path:
    """The folder of a release, by default the active one. ReleaseError, with the fix, when there is none."""
    releases = Path(config.service.releases)
    version = active(releases) if version is None else version
    if version is None:
        raise ReleaseError(f"{releases}: no release is active. Run `recserve bootstrap` to build one.")
    return releases / version


def build_snapshot(
    config: Config, around: Surroundings, *, previous: Snapshot | None = None, release: str | None = None
) -> Snapshot:
    """Load a release (the active one), compose every scene, warm the models. Blocking: call it off the event loop.

    ReleaseError or ConfigError when configuration and release don't fit.
    """
    loaded = load_release(release_folder(config, release), release_spec(config.features, config.models))
    stale = stale_views(config, around.clock() - loaded.manifest.as_of)
    if stale:
        raise ConfigError(stale)
    views = live_views(config)
    counts = None if previous is None else previous.behaviour.counts
    behaviour = Behaviour(around.commands, event_codes(_events(config.features)), counts=counts)
    store = FeatureStore(around.commands, behaviour, monotonic)
    if previous is not None:
        store.caches = previous.store.caches  # views that didn't change keep their rows
        store.undecoded = previous.store.undecoded  # a counter of the process, which must not fall
    user_views = tuple(views["user"].values())
    store.prepare([UserPlan(user_views)])
    recent = None
    if config.features.behaviour is not None:
        recent = Recent(config.features.behaviour.column, config.features.behaviour.last)
    reader = UserReader(loaded.items, loaded.users, store, user_views, recent)
    fetcher = ItemFetcher(loaded.items, store, views["item"])
    manifest = loaded.manifest
    tables = Release(manifest.release, manifest.as_of, loaded.items, loaded.resident, loaded.derived)
    pipeline = Pipeline(config.id, tables, reader, fetcher, around.pool, monotonic, around.threads, around.abandoned)
    plans = _plans(config, loaded)
    wrong = rehearse(config, plans, pipeline, Rehearsed(loaded.items, loaded.users, recent, manifest.as_of))
    if wrong:
        raise ConfigError(wrong)
    return Snapshot(config, loaded, pipeline, plans, config.experiments, store, behaviour)


def check_release(config: Config) -> str:
    """Check the configuration against the active release, as serving would; its version. No store is needed.

    ReleaseError or ConfigError when they don't fit.
    """
    nowhere = MemoryStore()
    with ThreadPoolExecutor(1) as pool:
        return build_snapshot(config, Surroundings(nowhere, pool, time)).release


def _events(features: Features) -> tuple[str, ...]:
    return () if features.behaviour is None else features.behaviour.events


def _plans(config: Config, loaded: LoadedRelease) -> dict[str, ScenePlan]:
    values = {name: config.experiments.values_of(name) for name in config.experiments.params}
    derived = _derived(config.features)
    live = {
        f"item.{name}": view.name
        for view in config.features.entities.get("item", {}).values()
        if view.kind == "live"
        for name in view.fields
    }
    plans, problems = {}, []
    for scene in config.scenes.values():
        resources = Resources(
            indexes=loaded.indexes,
            tables=loaded.tables,
            models=loaded.models,
            schema=schema_of(config.service, config.features, config.models, scene, values),
            live=live,
            reads=stored_reads(derived),
            spaces=loaded.spaces,
        )
        try:
            plans[scene.name] = compose(scene, resources, values)
        except ReleaseError as error:
            problems.append(config.problem(error.path or scene.path, str(error)))
    if problems:
        raise ConfigError(problems)
    return plans


def release_spec(features: Features, models: Models) -> ReleaseSpec:
    """What the configuration wants of a release."""
    views = [
        ViewSpec(view.entity, view.artefact, {f.name: FieldSpec(_type(f), default_of(f)) for f in view.fields.values()})
        for view in features.views()
        if view.kind == "release" and view.artefact is not None
    ]
    return ReleaseSpec(
        views=views,
        derived=_derived(features),
        indexes={index.name: index.over for index in models.indexes.values()},
        tables=tuple(models.tables),
        models={
            model.name: ModelSpec(model.heads, model.features)
            if model.inputs is None
            else ModelSpec(
                model.heads,
                user=model.inputs.user,
                item=model.inputs.item,
                history=None
                if model.inputs.history is None
                else (model.inputs.history.gather, model.inputs.history.by),
            )
            for model in models.models.values()
        },
        widths={name: found.width for name, (_, found) in features.fields.items() if found.width is not None},
    )


def _derived(features: Features) -> list[DerivedSpec]:
    return [DerivedSpec(d.name, d.transform, d.args) for d in features.derived.values()]


def _type(field: FieldConfig) -> str:
    return f"{field.type}[{field.width}]" if field.width is not None and "[" not in field.type else field.type


def default_of(field: FieldConfig) -> str | int | float | bool | None:
    """A field's default as a value of its type; `mean` stays the word."""
    text = field.default
    if text is None or text == "mean" or field.type in ("str", "vocab"):
        return text
    if field.type == "bool":
        return text.lower() == "true"
    return int(text) if field.type in ("i32", "i64") else float(text)


def live_views(config: Config) -> dict[str, dict[str, LiveView]]:
    """Live views by entity and name. ConfigError for a default that only a release can know."""
    features = config.features
    wrong = [
        config.problem(
            ("features.yaml", view.entity, view.name, "fields", f.name),
            "A live field's mean isn't known. Expected a literal default, or none.",
        )
        for view in features.views()
        if view.kind == "live"
        for f in view.fields.values()
        if f.default == "mean"
    ]
    if wrong:
        raise ConfigError(wrong)
    return {
        entity: {view.name: _live_view(view) for view in views.values() if view.kind == "live"}
        for entity, views in {"user": {}, "item": {}, **features.entities}.items()
    }


def _live_view(view: ViewConfig) -> LiveView:
    fields = tuple(LiveField(f.name, _type(f), default_of(f)) for f in view.fields.values())
    layout: Literal["hash", "row"] = "row" if view.layout == "protobuf" else "hash"
    cache = None
    if view.cache is not None:
        cache = CachePolicy(view.cache.bytes, NO_CACHE_LIMIT if view.cache.ttl is None else view.cache.ttl)
    return LiveView(
        name=view.name,
        key=OwnKey(view.name, "1") if view.key is None else KeyTemplate.compile(view.key),
        layout=layout,
        fields=fields,
        schema=row_schema(view.fields) if layout == "row" else None,
        cache=cache,
    )


def row_schema(fields: Mapping[str, FieldConfig]) -> RowSchema:
    """The row format of a view's fields; its number is a hash of them, so that a changed view is never misread."""
    rows = tuple(RowField(f.name, "f32", f.width or 1) for f in fields.values())
    text = ",".join(f"{row.name}:{row.kind}:{row.width}" for row in rows)
    return RowSchema(mmh3.hash(text.encode(), 0, signed=False) or 1, rows)
