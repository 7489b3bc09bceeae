"""JSON Schemas of a scene's steps, out of the components that a registry holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from app.config.forms import COMMON
from stages.guard import POLICIES
from stages.registry import Duration, Registry, Setting, settings_of
from stages.roles import Component
from stages.scene import Role

Schema = dict[str, Any]
SchemaFor = Callable[[Any], Schema]


def step_schemas(registry: Registry, schema_for: SchemaFor) -> tuple[Schema, Schema]:
    """Schemas of the keys `recall` to `re_rank`, and the definitions that they refer to."""
    maker = _Maker(registry, schema_for)
    steps = {
        "recall": maker.named("recall"),
        "filters": maker.named("filter"),
        "pre_rank": maker.keyed("pre_rank"),
        "rank": maker.keyed("rank"),
        "re_rank": {"type": "array", "items": maker.keyed("re_rank")},
    }
    return steps, maker.definitions


class _Maker:
    def __init__(self, registry: Registry, schema_for: SchemaFor) -> None:
        self.registry = registry
        self.schema_for = schema_for
        self.definitions: Schema = {}

    def named(self, role: Role) -> Schema:
        """`name: settings`, where the name is the component unless `use` says otherwise."""
        known = sorted(self.registry.of(role))
        cases = []
        for name in known:
            self.definitions[f"{role}.{name}"] = self._settings(role, name)
            this = {"properties": {"use": {"const": name}}, "required": ["use"]}
            cases.append({"if": this, "then": {"$ref": f"#/$defs/{role}.{name}"}})
        by_use: Schema = {"type": "object", "properties": {"use": {"enum": known}}, "required": ["use"], "allOf": cases}
        short = [{"type": "string"}] if role == "filter" else []
        own = {
            name: {
                "if": {"required": ["use"]},
                "then": by_use if not short else {"anyOf": [by_use, *short]},
                "else": {"anyOf": [{"$ref": f"#/$defs/{role}.{name}"}, {"type": "null"}, *short]},
            }
            for name in known
        }
        other: Schema = {"anyOf": [by_use, *short]} if short else by_use
        return {"type": "object", "properties": own, "additionalProperties": other}

    def keyed(self, role: Role) -> Schema:
        """`{component: settings, key: value}`."""
        known = sorted(self.registry.of(role))
        options: list[Schema] = []
        for name in known:
            whole = self._settings(role, name)
            inner = {"anyOf": [{"type": ["array", "string", "number", "boolean", "null"]}, {"type": "object"}]}
            properties = {**whole["properties"], name: inner}
            options.append(
                {"type": "object", "properties": properties, "required": [name], "additionalProperties": False}
            )
        return {"anyOf": [*options, {"enum": known}]}

    def _settings(self, role: Role, name: str) -> Schema:
        cls = self.registry.of(role)[name]
        settings = settings_of(cls)
        implied = {"table"} if role == "recall" else set()
        return {
            "type": "object",
            "description": _first_line(cls),
            "properties": {**self._common(role), **{one.name: self._setting(one) for one in settings}},
            "required": [one.name for one in settings if one.required and one.name not in implied],
            "additionalProperties": False,
        }

    def _setting(self, setting: Setting) -> Schema:
        schema = self.schema_for(setting.type)
        plain = isinstance(setting.default, (str, int, float)) and not isinstance(setting.default, Duration)
        return {**schema, "default": setting.default} if plain else schema

    def _common(self, role: Role) -> Mapping[str, Schema]:
        known: dict[str, Schema] = {
            "use": {"enum": sorted(self.registry.of(role))},
            "cap": {**self.schema_for(Duration), "description": "Most time for this step."},
            "on_fail": {"enum": list(POLICIES[role]), "default": POLICIES[role][0]},
            "when": {"type": "string", "description": "A condition over user.* and context.*."},
            "at_least": {"type": "integer", "minimum": 0},
            "keep": self.schema_for(int),
        }
        return {key: known[key] for key in COMMON[role]}


def _first_line(cls: type[Component]) -> str:
    return (cls.__doc__ or "").strip().split("\n")[0]
