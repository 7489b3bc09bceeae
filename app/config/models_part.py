"""models.yaml -> Models, and its references into features.yaml and the scenes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.config.bind import Binder, entries
from app.config.catalog import HISTORY, Catalog, check_column
from app.config.findings import Findings
from app.config.model import (
    HistoryInput,
    IndexConfig,
    ModelConfig,
    ModelInputs,
    Models,
    SpaceConfig,
    TableConfig,
)
from app.config.problems import Path
from app.config.service_part import NAME
from app.config.shapes import ModelShape, ModelsShape
from app.config.yaml_nodes import INVALID

FILE = "models.yaml"
SECTIONS = ("spaces", "indexes", "tables", "models")
NO_INPUT = ("str", "semver", HISTORY)


def models_of(binder: Binder, document: Any) -> Models:
    """Everything that could be understood; the rest is reported."""
    shape = binder.value(document, (FILE,), ModelsShape)
    if shape is INVALID:
        return Models()
    for section in SECTIONS:
        for name in getattr(shape, section):
            if not NAME.fullmatch(name):
                binder.findings.add((FILE, section, name), f"{name!r} isn't a name. Expected letters, digits and _.")
    return Models(
        spaces={name: SpaceConfig(name, space.dim, space.metric) for name, space in shape.spaces.items()},
        indexes={
            name: IndexConfig(name, index.over, index.kind, index.recall_floor) for name, index in shape.indexes.items()
        },
        tables=_tables(binder.findings, shape),
        models=_models(binder.findings, shape),
    )


def _tables(findings: Findings, shape: ModelsShape) -> dict[str, TableConfig]:
    found: dict[str, TableConfig] = {}
    for name, table in shape.tables.items():
        if (table.items is None) == (table.group is None):
            findings.add((FILE, "tables", name), "Expected either {items: item} or {group: NAME}.")
        elif table.group is not None:
            found[name] = TableConfig(name, "group", table.group)
        else:
            found[name] = TableConfig(name, "items", "item")
    return found


def _models(findings: Findings, shape: ModelsShape) -> dict[str, ModelConfig]:
    found: dict[str, ModelConfig] = {}
    for name, model in shape.models.items():
        path: Path = (FILE, "models", name)
        if (model.features is None) == (model.inputs is None):
            findings.add(path, "Expected either 'features' (one matrix) or 'inputs' (two sides).")
            continue
        if not model.heads:
            findings.add((*path, "heads"), "No heads. Expected names such as [buy].")
            continue
        for index, head in entries(model.heads):
            if not NAME.fullmatch(head):
                findings.add((*path, "heads", index), f"{head!r} isn't a head's name. Expected letters, digits and _.")
        found[name] = _model(name, model)
    return found


def _model(name: str, shape: ModelShape) -> ModelConfig:
    if shape.inputs is None:
        return ModelConfig(name, shape.heads, shape.features, None)
    history = shape.inputs.history
    made = HistoryInput(history.gather, history.by) if history else None
    return ModelConfig(name, shape.heads, None, ModelInputs(shape.inputs.user, shape.inputs.item, made))


def check_models(findings: Findings, catalog: Catalog, channels: Mapping[str, str]) -> None:
    """Check the columns of indexes and models; `channels` are the channel columns of all scenes together."""
    for index in catalog.models.indexes.values():
        _check_index(findings, catalog, index)
    columns = {**catalog.columns, **channels}
    for model in catalog.models.models.values():
        path: Path = (FILE, "models", model.name)
        for position, name in entries(model.features or ()):
            found = _check_input(findings, catalog, (*path, "features", position), name, columns)
            if found is not None and found.endswith("]"):
                message = f"{name} is {found}. A feature is one number; give vectors to a model with 'inputs'."
                findings.add((*path, "features", position), message)
        _check_repeats(findings, (*path, "features"), model.features or ())
        if model.inputs is not None:
            _check_inputs(findings, catalog, (*path, "inputs"), model.inputs, columns)


def _check_index(findings: Findings, catalog: Catalog, index: IndexConfig) -> None:
    path = (FILE, "indexes", index.name, "over")
    found = check_column(findings, catalog, path, index.over, catalog.columns)
    if found is None:
        return
    if not index.over.startswith("item.") or not found.endswith("]"):
        findings.add(path, f"{index.over} is {found}. Expected a vector of the item, such as f32[64].")
        return
    _, field = catalog.features.fields[index.over]
    dims = {space.dim for space in catalog.models.spaces.values()}
    if dims and field.width not in dims:
        spaces = ", ".join(f"{space.name} ({space.dim})" for space in catalog.models.spaces.values())
        findings.add(path, f"{index.over} has {field.width} dimensions, and no space has. Spaces: {spaces}.")


def _check_input(findings: Findings, catalog: Catalog, path: Path, name: str, columns: Mapping[str, str]) -> str | None:
    found = check_column(findings, catalog, path, name, columns)
    if found in NO_INPUT:
        fix = "Declare the field as vocab." if found == "str" and name.startswith(("item.", "user.")) else ""
        findings.add(path, f"{name} is {found}, which no model takes. {fix or 'Expected a number, vocab or vector.'}")
        return None
    return found


def _check_inputs(
    findings: Findings, catalog: Catalog, path: Path, inputs: ModelInputs, columns: Mapping[str, str]
) -> None:
    for side, names in (("user", inputs.user), ("item", inputs.item)):
        _check_repeats(findings, (*path, side), names)
        for position, name in entries(names):
            where = (*path, side, position)
            found = _check_input(findings, catalog, where, name, columns)
            of_item = name.startswith(("item.", "channel."))
            if found is not None and of_item != (side == "item"):
                other = "item" if side == "user" else "user"
                findings.add(where, f"{name} differs by {'item' if of_item else 'request'}. Move it to {other!r}.")
    if inputs.history is None:
        return
    path = (*path, "history")
    found = check_column(findings, catalog, (*path, "by"), inputs.history.by, columns)
    if found not in (None, HISTORY):
        findings.add((*path, "by"), f"{inputs.history.by} is {found}. Expected a history of the user.")
    gather = inputs.history.gather
    found = _check_input(findings, catalog, (*path, "gather"), gather, columns)
    if found is not None and not gather.startswith("item."):
        findings.add((*path, "gather"), f"{gather} isn't a column of the item. Expected one such as item.embedding.")


def _check_repeats(findings: Findings, path: Path, names: tuple[str, ...]) -> None:
    for position, name in entries(names):
        if name in names[:position]:
            findings.add((*path, position), f"{name} is there twice. Remove one.")
