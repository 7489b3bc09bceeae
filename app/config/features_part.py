"""features.yaml -> Features."""

from __future__ import annotations

from typing import Any

from app.config.bind import Binder, shown
from app.config.catalog import ALL_HISTORY
from app.config.model import (
    BehaviourConfig,
    CacheConfig,
    DerivedConfig,
    Entity,
    Features,
    FieldConfig,
    ViewConfig,
)
from app.config.problems import Path
from app.config.quantities import QuantityError, field_config
from app.config.service_part import NAME
from app.config.shapes import BehaviourShape, FeaturesShape, LiveShape, ViewShape
from app.config.yaml_nodes import INVALID

FILE = "features.yaml"
ENTITIES: tuple[Entity, ...] = ("user", "item")
BEHAVIOUR = "behaviour"
RESERVED = ("item.id", ALL_HISTORY)
NEVER_MISSING = {
    "i32": "such as `i32 = 0`, or f64",
    "i64": "such as `i64 = 0`, or f64",
    "bool": "such as `bool = false`",
}


class FeaturesReader:
    """Reads the file once; `broken` then names fields whose definition was refused."""

    def __init__(self, binder: Binder) -> None:
        self.binder = binder
        self.broken: set[str] = set()
        self._where: dict[str, str] = {}

    def read(self, document: Any) -> Features:
        """Everything that could be understood; the rest is reported."""
        shape = self.binder.value(document, (FILE,), FeaturesShape)
        if shape is INVALID:
            return Features(entities={"user": {}, "item": {}})
        behaviour = self._behaviour(shape.user.get(BEHAVIOUR), "user" in document and BEHAVIOUR in shape.user)
        entities: dict[str, dict[str, ViewConfig]] = {
            entity: self._views(entity, getattr(shape, entity)) for entity in ENTITIES
        }
        return Features(entities, behaviour, self._derived(shape.derived))

    def _views(self, entity: Entity, declared: dict[str, Any]) -> dict[str, ViewConfig]:
        views: dict[str, ViewConfig] = {}
        for name, value in declared.items():
            path: Path = (FILE, entity, name)
            if name == BEHAVIOUR:
                if entity != "user":
                    self._add(path, "Only the user has behaviour. Move it under user.")
                continue
            if not NAME.fullmatch(name):
                self._add(path, f"{name!r} isn't a view's name. Expected letters, digits and _.")
            self._note_fields(entity, value)
            view = self._view(entity, name, value, path)
            if view is not None:
                views[name] = view
            else:
                self._note_fields(entity, value)
        return views

    def _note_fields(self, entity: Entity, value: Any) -> None:
        fields = value.get("fields") if isinstance(value, dict) else None
        if isinstance(fields, dict):
            self.broken |= {f"{entity}.{name}" for name in fields}

    def _view(self, entity: Entity, name: str, value: Any, path: Path) -> ViewConfig | None:
        shape = self.binder.value(value, path, ViewShape)
        if shape is INVALID:
            return None
        fields = self._fields(entity, name, shape.fields, path, shape.live)
        if (shape.release is None) == (shape.live is None):
            said = "neither" if shape.release is None else "both"
            if not ("live" in value or "release" in value) or said == "both":
                self._add(path, f"The view has {said} of 'release' and 'live'. Expected one of them.")
            return None
        cache = (
            CacheConfig(shape.cache.policy, int(shape.cache.bytes), _seconds(shape.cache.ttl)) if shape.cache else None
        )
        if cache is not None and (entity != "user" or shape.live is None):
            self._add(
                (*path, "cache"), "Only live views of the user have a cache. Remove it: release views are resident."
            )
        if shape.max_age is not None and shape.release is None:
            self._add((*path, "max_age"), "Only a release has an age. Remove it, or keep the data in a release view.")
        if shape.live is not None:
            if shape.live.key.count("{id}") != 1:
                self._add(
                    (*path, "live", "key"), f"{shown(shape.live.key)} has no place for the id. Expected {{id}} once."
                )
            return ViewConfig(name, entity, "live", None, shape.live.key, shape.live.layout, cache, fields)
        age = _seconds(shape.max_age)
        return ViewConfig(name, entity, "release", shape.release, None, None, cache, fields, age)

    def _fields(
        self, entity: Entity, view: str, declared: dict[str, Any], path: Path, live: LiveShape | None
    ) -> dict[str, FieldConfig]:
        fields: dict[str, FieldConfig] = {}
        if not declared:
            self._add((*path, "fields"), "The view has no fields. Expected name: type.")
        for name, text in declared.items():
            where, full = (*path, "fields", name), f"{entity}.{name}"
            other = self._where.setdefault(full, view)
            if not NAME.fullmatch(name):
                self._add(where, f"{name!r} isn't a field's name. Expected letters, digits and _.")
            elif full in RESERVED:
                self._add(where, f"{full} is a name of the product. Choose another.")
            elif other != view:
                self._add(
                    where, f"{full} is also a field of the view {other!r}. Rename one: a name is unique per entity."
                )
            else:
                try:
                    fields[name] = _stored(field_config(name, text), entity, live)
                    self.broken.discard(full)
                except QuantityError as error:
                    self._add(where, str(error))
        return fields

    def _behaviour(self, value: Any, stands: bool) -> BehaviourConfig | None:
        if not stands:
            return None
        path = (FILE, "user", BEHAVIOUR)
        self.broken |= {ALL_HISTORY}
        shape = self.binder.value(value, path, BehaviourShape)
        if shape is INVALID:
            name = value.get("as", "recent_items") if isinstance(value, dict) else "recent_items"
            self.broken.add(f"user.{name}")
            return None
        if not shape.events:
            self._add((*path, "events"), "No events. Expected names such as [click, purchase].")
        full = f"user.{shape.as_}"
        if not NAME.fullmatch(shape.as_) or full in RESERVED:
            self._add(
                (*path, "as"), f"{shown(shape.as_)} can't be the column's name. Expected one such as recent_items."
            )
        self._where[full] = BEHAVIOUR
        return BehaviourConfig(BEHAVIOUR, shape.events, shape.last, shape.as_)

    def _derived(self, declared: dict[str, Any]) -> dict[str, DerivedConfig]:
        found: dict[str, DerivedConfig] = {}
        for name, value in declared.items():
            path = (FILE, "derived", name)
            entity, _, short = name.partition(".")
            self.broken.add(name)
            if entity != "item" or not NAME.fullmatch(short):
                self._add(path, f"{name!r} isn't a derived column's name. Expected item.name.")
            elif name in self._where or name in RESERVED:
                self._add(path, f"{name} is also a field of the view {self._where.get(name, '')!r}. Rename one.")
            elif not isinstance(value, dict) or len(value) != 1:
                self.binder.wrong(value, path, "one transform with its arguments: {ratio: [item.a, item.b]}")
            else:
                ((transform, args),) = value.items()
                listed = tuple(args) if isinstance(args, list) else (args,)
                found[name] = DerivedConfig(name, transform, listed)
                self.broken.discard(name)
        return found

    def _add(self, path: Path, message: str) -> None:
        self.binder.findings.add(path, message)


def _stored(field: FieldConfig, entity: Entity, live: LiveShape | None) -> FieldConfig:
    if live is None:
        return field
    if live.layout == "protobuf" and not field.type.startswith("f32"):
        raise QuantityError(f"A protobuf row holds f32 and f32[d], not {field.type}. Use the layout hash for it.")
    if entity == "item" and field.default is None and field.type in NEVER_MISSING:
        raise QuantityError(
            f"An item's live {field.type} has no form for missing. Expected a default, {NEVER_MISSING[field.type]}."
        )
    return field


def _seconds(value: float | None) -> float | None:
    return None if value is None else float(value)
