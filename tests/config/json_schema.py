"""The part of JSON Schema that our schemas use, checked independently of how they are made."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "null": (type(None),),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}
KNOWN = {
    "$schema", "$defs", "$ref", "title", "description", "default", "type", "properties", "required", "items", "enum",
    "const", "additionalProperties", "anyOf", "allOf", "if", "then", "else", "pattern", "minimum", "maximum",
}  # fmt: skip


def violations(value: Any, schema: dict[str, Any], root: dict[str, Any], path: str = "") -> Iterator[str]:
    assert set(schema) <= KNOWN, set(schema) - KNOWN
    if "$ref" in schema:
        target = root
        for part in schema["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        yield from violations(value, target, root, path)
    kinds = schema.get("type", list(TYPES))
    allowed = [kind for one in ([kinds] if isinstance(kinds, str) else kinds) for kind in TYPES[one]]
    if type(value) not in allowed:
        yield f"{path}: {value!r} is no {kinds}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{path}: {value!r} not in {schema['enum']}"
    if "const" in schema and value != schema["const"]:
        yield f"{path}: {value!r} isn't {schema['const']!r}"
    if isinstance(value, str) and not re.search(schema.get("pattern", ""), value):
        yield f"{path}: {value!r} doesn't match {schema['pattern']}"
    if isinstance(value, (int, float)) and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        yield f"{path}: {value!r} is out of range"
    yield from _combined(value, schema, root, path)
    if isinstance(value, dict):
        yield from _object(value, schema, root, path)
    if isinstance(value, list) and "items" in schema:
        for index, entry in enumerate(value):
            yield from violations(entry, schema["items"], root, f"{path}[{index}]")


def _combined(value: Any, schema: dict[str, Any], root: dict[str, Any], path: str) -> Iterator[str]:
    options = [list(violations(value, option, root, path)) for option in schema.get("anyOf", [])]
    if options and all(options):
        yield f"{path}: fits none of {options}"
    for one in schema.get("allOf", []):
        yield from violations(value, one, root, path)
    if "if" in schema:
        branch = "else" if list(violations(value, schema["if"], root, path)) else "then"
        yield from violations(value, schema.get(branch, {}), root, path)


def _object(value: dict[str, Any], schema: dict[str, Any], root: dict[str, Any], path: str) -> Iterator[str]:
    for key in schema.get("required", []):
        if key not in value:
            yield f"{path}: lacks {key}"
    for key, entry in value.items():
        inner = schema.get("properties", {}).get(key, schema.get("additionalProperties", {}))
        if inner is False:
            yield f"{path}: no key {key}"
        else:
            yield from violations(entry, inner, root, f"{path}.{key}")
