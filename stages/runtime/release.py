"""Loading a release: everything the configuration names, memory-mapped, checked and warm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from features.item_table import IdTable
from features.lists import Lists
from features.manifest import Column, Manifest, ManifestError, read_golden, read_ids, read_lists
from features.resident import FieldSpec, ResidentUsers, load_view
from stages.columns import Derived
from stages.derived import DerivedSpec, bind_derived
from stages.errors import ReleaseError
from stages.roles import Table, VectorIndex
from stages.runtime.indexes import FaissIndex
from stages.runtime.models import Assemble, Features, OnnxModel, SplitInputs, check_golden, load_model


@dataclass(frozen=True, slots=True)
class ViewSpec:
    """A view to load: its entity (`item`, `user`), its artefact and its fields."""

    entity: str
    artefact: str
    fields: Mapping[str, FieldSpec]


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A model to load: its heads and its inputs, one matrix or user, item and history sides."""

    heads: tuple[str, ...]
    features: tuple[str, ...] | None = None
    user: tuple[str, ...] = ()
    item: tuple[str, ...] = ()
    history: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class ReleaseSpec:
    """What the configuration wants of a release. `widths`: d of each vector column by full name."""

    views: Sequence[ViewSpec]
    derived: Sequence[DerivedSpec] = ()
    indexes: Mapping[str, str] = field(default_factory=dict)
    tables: Sequence[str] = ()
    models: Mapping[str, ModelSpec] = field(default_factory=dict)
    widths: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class LoadedRelease:
    """A release in memory. Immutable; requests in flight keep the one they started with."""

    manifest: Manifest
    items: IdTable
    users: ResidentUsers
    resident: Mapping[str, Column]
    derived: Mapping[str, Derived]
    indexes: Mapping[str, VectorIndex]
    tables: Mapping[str, Table]
    models: Mapping[str, OnnxModel]
    spaces: Mapping[str, str]


def load_release(root: Path, spec: ReleaseSpec, *, verify: bool = True) -> LoadedRelease:
    """Read the release folder `root`. ReleaseError names what it lacks or what does not fit."""
    try:
        manifest = Manifest.read(root, verify=verify)
        columns = {"item": dict[str, Column](), "user": dict[str, Column]()}
        spaces: dict[str, str] = {}
        for view in spec.views:
            columns[view.entity].update(load_view(manifest, view.entity, view.artefact, view.fields))
            held = manifest.views[view.artefact]["spaces"]
            spaces.update({f"{view.entity}.{name}": held[name] for name in view.fields if name in held})
        items = read_ids(manifest, "item")
        users = ResidentUsers.load(manifest, columns["user"])
    except ManifestError as error:
        raise ReleaseError(str(error)) from None
    _check_dots(spec.derived, spaces)
    derived, made = bind_derived(spec.derived, columns["item"])
    resident = {**columns["item"], **made}
    return LoadedRelease(
        manifest=manifest,
        items=items,
        users=users,
        resident=resident,
        derived=derived,
        indexes={name: _index(manifest, name, over, spaces, resident) for name, over in spec.indexes.items()},
        tables={name: _table(manifest, name, len(items)) for name in spec.tables},
        models={name: _model(manifest, name, model, spec, resident) for name, model in spec.models.items()},
        spaces=spaces,
    )


def _check_dots(derived: Sequence[DerivedSpec], spaces: Mapping[str, str]) -> None:
    for spec in derived:
        met = {spaces[name] for name in spec.reads if name in spaces}
        if spec.transform == "dot" and len(met) > 1:
            raise ReleaseError(f"{spec.name}: vectors of different spaces, {' and '.join(sorted(met))}. Expected one.")


def _known(section: Mapping[str, object], kind: str, name: str, manifest: Manifest) -> str:
    if name not in section:
        raise ReleaseError(f"Release {manifest.release} has no {kind} {name!r}. It has {', '.join(section) or 'none'}.")
    return name


def _table(manifest: Manifest, name: str, items: int) -> Lists:
    lists = read_lists(manifest, _known(manifest.lists, "list", name, manifest))
    if not lists.groups and len(lists) != items:
        raise ReleaseError(f"List {name!r} has {len(lists)} entries. Expected one for each of {items} items.")
    if len(lists.rows) and not 0 <= int(lists.rows.min()) <= int(lists.rows.max()) < items:
        raise ReleaseError(f"List {name!r} names rows {lists.rows.min()} to {lists.rows.max()} of {items} items.")
    return lists


def _index(
    manifest: Manifest, name: str, over: str, spaces: Mapping[str, str], resident: Mapping[str, Column]
) -> FaissIndex:
    entry = manifest.indexes[_known(manifest.indexes, "index", name, manifest)]
    space = spaces.get(over)
    if space is not None and entry["space"] != space:
        raise ReleaseError(
            f"Index {name!r} is of space {entry['space']!r} and {over} of {space!r}. Expected one space."
        )
    index = FaissIndex.load(manifest.root / entry["file"], space=entry["space"], effort=entry["effort"])
    vectors = resident.get(over)
    held = (index.index.ntotal, index.dim)
    if isinstance(vectors, np.ndarray) and vectors.shape != held:
        raise ReleaseError(f"Index {name!r} holds {held[0]} x {held[1]} and {over} is {_shape(vectors)}. Rebuild it.")
    return index


def _shape(vectors: np.ndarray[Any, Any]) -> str:
    return " x ".join(map(str, vectors.shape))


def _model(
    manifest: Manifest, name: str, model: ModelSpec, spec: ReleaseSpec, resident: Mapping[str, Column]
) -> OnnxModel:
    entry = manifest.models[_known(manifest.models, "model", name, manifest)]
    assemble: Assemble
    if model.features is not None:
        assemble = Features(model.features, spec.widths, resident)
        trained = tuple(entry.get("features", model.features))
        if trained != model.features:
            difference = _difference(trained, model.features)
            raise ReleaseError(f"Model {name!r} was trained on other features than are configured: {difference}.")
    else:
        assemble = SplitInputs(model.user, model.item, model.history, spec.widths, resident)
    loaded = load_model(manifest.root / entry["file"], name, model.heads, assemble)
    check_golden(loaded, *read_golden(manifest, name))
    return loaded


def _difference(trained: Sequence[str], listed: Sequence[str]) -> str:
    for position, (a, b) in enumerate(zip(trained, listed, strict=False)):
        if a != b:
            return f"place {position + 1} is {a} in the model and {b} in the list"
    return f"{len(trained)} in the model, {len(listed)} in the list"
