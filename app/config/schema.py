"""JSON Schemas of the files, for editors: the shapes, and the settings of every component that was found."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from app.config.bind import keys_of
from app.config.quantities import DURATION, SIZE, Bytes
from app.config.schema_abtest import ABTEST
from app.config.schema_steps import step_schemas
from app.config.shapes import (
    BehaviourShape,
    Doc,
    FeaturesShape,
    ModelsShape,
    SceneShape,
    ServiceShape,
    ViewShape,
)
from stages.registry import Duration, Range, Ref, Registry
from stages.roles import ColumnName

Schema = dict[str, Any]
DIALECT = "https://json-schema.org/draft/2020-12/schema"
VARIABLE: Schema = {"type": "string", "pattern": r"^\$"}  # ${NAME} or $parameter
NUMBERS: Mapping[Any, str] = types.MappingProxyType({int: "integer", float: "number", bool: "boolean"})


def json_schemas(registry: Registry) -> dict[str, Schema]:
    """A JSON Schema (2020-12) for each kind of file, by file name; `scenes/*.yaml` for all scenes."""
    features = schema_for(FeaturesShape)
    views = {"type": "object", "additionalProperties": schema_for(ViewShape)}
    features["properties"]["item"] = views
    features["properties"]["user"] = {**views, "properties": {"behaviour": schema_for(BehaviourShape)}}
    scene = schema_for(SceneShape)
    steps, definitions = step_schemas(registry, schema_for)
    scene["properties"] |= steps
    scene["$defs"] = definitions
    files = {
        "service.yaml": schema_for(ServiceShape),
        "features.yaml": features,
        "models.yaml": schema_for(ModelsShape),
        "abtest.yaml": ABTEST,
        "scenes/*.yaml": scene,
    }
    return {name: {"$schema": DIALECT, "title": f"recserve {name}", **schema} for name, schema in files.items()}


def schema_for(tp: Any) -> Schema:
    """The schema of a shape's or a setting's type."""
    origin, args = get_origin(tp), get_args(tp)
    if origin is Annotated:
        return _noted(schema_for(args[0]), args[1:])
    if origin is Literal:
        return {"enum": list(args)}
    if origin in (Union, types.UnionType):
        options = [schema_for(arg) for arg in args if arg is not types.NoneType]
        return {"anyOf": [*options, *([{"type": "null"}] if types.NoneType in args else [])]}
    if origin in (list, tuple):
        return {"type": "array", "items": schema_for(args[0]) if args else {}}
    if origin is Ref:
        return {"type": "string"}
    if origin is not None:
        return {"type": "object", "additionalProperties": schema_for(args[1])}
    if tp in (Duration, Bytes):
        pattern = DURATION if tp is Duration else SIZE
        return {"type": "string", "pattern": rf"^(?:{pattern.pattern}|\$.*)$"}
    if tp in NUMBERS:
        return {"anyOf": [{"type": NUMBERS[tp]}, VARIABLE]}
    if tp is ColumnName:
        return {"type": "string", "pattern": r"^(?:(?:user|item|context|channel)\.|\$)"}
    if isinstance(tp, type) and dataclasses.is_dataclass(tp):
        return _record(tp)
    return {} if tp is Any else {"type": "string"}


def _record(shape: type) -> Schema:
    keys = keys_of(shape)
    schema: Schema = {"type": "object", "description": (shape.__doc__ or "").split("\n")[0]}
    schema["properties"] = {key.name: schema_for(key.type) for key in keys}
    schema["required"] = [key.name for key in keys if key.required]
    schema["additionalProperties"] = False
    return schema


def _noted(schema: Schema, notes: tuple[Any, ...]) -> Schema:
    for note in notes:
        if isinstance(note, Doc):
            schema = {**schema, "description": note.text}
        elif isinstance(note, Range) and "anyOf" in schema:
            number = {**schema["anyOf"][0], "minimum": note.low, "maximum": note.high}
            schema = {**schema, "anyOf": [number, *schema["anyOf"][1:]]}
    return schema
