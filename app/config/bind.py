"""Binds plain values to types: dataclasses, mappings, tuples, literals and the notations of quantities.

`Binder.value` reports what doesn't fit and answers INVALID for it; a record with one bad entry keeps the
rest where that entry has a default, so that one run finds everything.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from app.config.findings import Findings
from app.config.hidden import is_secret, kind_of, may_be_key
from app.config.problems import Path, choices, suggestion
from app.config.quantities import Bytes, QuantityError, duration_text, seconds, size, size_text
from app.config.yaml_nodes import INVALID
from stages.registry import Duration, Range, Ref, core_of
from stages.roles import ColumnName

QUANTITIES: Mapping[type, Callable[[object], Any]] = types.MappingProxyType(
    {Duration: lambda value: Duration(seconds(value)), Bytes: size}
)
WRITTEN: Mapping[type, tuple[str, Callable[[Any], str]]] = types.MappingProxyType(
    {Duration: ("a duration", duration_text), Bytes: ("a size", size_text)}
)


@dataclasses.dataclass(frozen=True, slots=True)
class Key:
    """One key that a mapping may have; `default` is dataclasses.MISSING where it must stand."""

    name: str
    attribute: str
    type: Any
    default: Any

    @property
    def required(self) -> bool:
        """Whether the key must be given."""
        return self.default is dataclasses.MISSING


class Refused(str):
    """Holds the place of a text that was refused in a list."""

    __slots__ = ()


def entries(names: Iterable[str]) -> Iterator[tuple[int, str]]:
    """The usable entries of a list with their places."""
    return ((place, name) for place, name in enumerate(names) if not isinstance(name, Refused))


@cache
def keys_of(shape: type) -> tuple[Key, ...]:
    """The keys of a shape; a trailing underscore (`return_`) is Python's, not YAML's."""
    hints = typing.get_type_hints(shape, include_extras=True)
    return tuple(
        Key(
            f.name.rstrip("_"),
            f.name,
            hints[f.name],
            f.default if f.default_factory is dataclasses.MISSING else f.default_factory(),
        )
        for f in dataclasses.fields(shape)
    )


def shown(value: object) -> str:
    """A value as a message shows it."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def described(tp: Any) -> str:
    """What a type expects, in words."""
    origin, args = get_origin(tp), get_args(tp)
    if origin is Annotated:
        bounds = next((extra for extra in args[1:] if isinstance(extra, Range)), None)
        if bounds is None:
            return described(args[0])
        what, written = WRITTEN.get(core_of(args[0])[0], (described(args[0]), "{:g}".format))
        return f"{what} from {written(bounds.low)} to {written(bounds.high)}"
    if origin is Literal:
        return choices(map(str, args))
    if origin in (Union, types.UnionType):
        return choices(described(arg) for arg in args if arg is not types.NoneType)
    if origin in (list, tuple):
        inner = described(args[0]).removeprefix("a ").removeprefix("an ") if args else "values"
        return f"a list [{inner}, ...]"
    if origin is Ref:
        return "a name"
    simple = {int: "an integer", float: "a number", bool: "true or false", str: "text", Any: "a value"}
    simple |= {Duration: "a duration such as 90s or 30d", Bytes: "a size such as 64MiB"}
    simple[ColumnName] = "a column such as user.age or item.price"
    if tp in simple:
        return simple[tp]
    return "a mapping" if origin is not None or dataclasses.is_dataclass(tp) else "text"


def _shown_at(path: Path, value: object) -> str:
    return kind_of(value) if is_secret(path) else shown(value)


def _instead(key: Key) -> Any:
    """What stands in for a missing or refused value: for a version the one there is, so that checks go on."""
    core = get_args(key.type)[0] if get_origin(key.type) is Annotated else key.type
    only = get_args(core) if get_origin(core) is Literal else ()
    return only[0] if key.required and len(only) == 1 else key.default


class Binder:
    """Binds values at paths and reports to `findings`."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings

    def value(self, value: Any, path: Path, tp: Any) -> Any:
        """`value` as `tp`, or INVALID (reported)."""
        if value is INVALID:
            return INVALID
        origin, args = get_origin(tp), get_args(tp)
        if origin is Annotated:
            return self._ranged(self.value(value, path, args[0]), path, tp)
        if origin in (Union, types.UnionType):
            return self._union(value, path, tp, args)
        if origin is Literal:
            return self._literal(value, path, args)
        if origin in (list, tuple):
            return self._sequence(value, path, tp, args)
        if origin is not None and issubclass(origin, Mapping):
            return self._mapping(value, path, args[1])
        if tp in QUANTITIES:
            return self._quantity(value, path, QUANTITIES[tp])
        if isinstance(tp, type) and dataclasses.is_dataclass(tp):
            return self.record(value, path, tp)
        return self._scalar(value, path, tp)

    def record(self, value: Any, path: Path, shape: type) -> Any:
        """A mapping as `shape`, or INVALID when it isn't one or a required key is missing or bad."""
        keys = keys_of(shape)
        given = self.keys(value, path, tuple(key.name for key in keys))
        if given is None:
            return INVALID
        attributes: dict[str, Any] = {}
        for key in keys:
            if key.name in given:
                bound = self.value(given[key.name], (*path, key.name), key.type)
                bound = _instead(key) if bound is INVALID else bound
            else:
                bound = _instead(key)
                if key.required:
                    self.findings.add(path, f"The key {key.name!r} is missing. Expected {described(key.type)}.")
            attributes[key.attribute] = bound
        return INVALID if dataclasses.MISSING in attributes.values() else shape(**attributes)

    def keys(self, value: Any, path: Path, known: tuple[str, ...]) -> dict[str, Any] | None:
        """The mapping without its unknown keys, each of which is reported; None when it is no mapping."""
        if not isinstance(value, dict):
            self.wrong(value, path, f"a mapping with {choices(known)}")
            return None
        for name in value:
            if name not in known:
                said = "" if is_secret(path) and may_be_key(name) else f" {name!r}"
                self.findings.add((*path, name), f"Unknown key{said}. {suggestion(name, known)}")
        return {name: found for name, found in value.items() if name in known}

    def wrong(self, value: Any, path: Path, expected: str) -> Any:
        """Report a value of the wrong kind (silently skipping refused ones) and answer INVALID."""
        if value is not INVALID:
            self.findings.add(path, f"Got {_shown_at(path, value)}. Expected {expected}.")
        return INVALID

    def _scalar(self, value: Any, path: Path, tp: Any) -> Any:
        if tp is Any:
            return value
        if tp is float and isinstance(value, int) and not isinstance(value, bool):
            return float(value)
        if tp in (int, float, bool):
            return value if type(value) is tp else self.wrong(value, path, described(tp))
        if not isinstance(value, str):
            fix = ". Quote it" if isinstance(value, (int, float)) else ""
            return self.wrong(value, path, described(tp) + fix)
        return ColumnName(value) if tp is ColumnName else value

    def _ranged(self, value: Any, path: Path, tp: Any) -> Any:
        bounds = next((extra for extra in get_args(tp)[1:] if isinstance(extra, Range)), None)
        if value is INVALID or bounds is None or value is None or bounds.low <= value <= bounds.high:
            return value
        _, written = WRITTEN.get(type(value), ("", "{:g}".format))
        self.findings.add(path, f"{written(value)} is out of range. Expected {described(tp)}.")
        return INVALID

    def _quantity(self, value: Any, path: Path, read: Callable[[object], Any]) -> Any:
        try:
            return read(value)
        except QuantityError as error:
            self.findings.add(path, f"Got {_shown_at(path, value)}. {error}")
            return INVALID

    def _literal(self, value: Any, path: Path, args: tuple[Any, ...]) -> Any:
        if any(value == arg and type(value) is type(arg) for arg in args):
            return value
        if isinstance(value, str) and len(args) > 1:
            self.findings.add(path, f"Got {shown(value)}. {suggestion(value, map(str, args))}")
            return INVALID
        return self.wrong(value, path, choices(map(str, args)))

    def _union(self, value: Any, path: Path, tp: Any, args: tuple[Any, ...]) -> Any:
        if value is None and types.NoneType in args:
            return None
        others = [arg for arg in args if arg is not types.NoneType]
        if len(others) == 1:
            return self.value(value, path, others[0])
        records = [arg for arg in others if dataclasses.is_dataclass(arg)]
        if isinstance(value, dict) and records:
            return self.value(value, path, records[0])
        for arg in others:
            if arg in (int, float, bool, str) and (type(value) is arg or (arg is float and type(value) is int)):
                return self._scalar(value, path, arg)
        return self.wrong(value, path, described(tp))

    def _sequence(self, value: Any, path: Path, tp: Any, args: tuple[Any, ...]) -> Any:
        if not isinstance(value, list):
            return self.wrong(value, path, described(tp))
        inner = args[0] if args else Any
        bound = [self.value(entry, (*path, index), inner) for index, entry in enumerate(value)]
        # The places must stay: later checks name an entry by its index.
        kept = (Refused() if entry is INVALID and inner is str else entry for entry in bound)
        return tuple(entry for entry in kept if entry is not INVALID)

    def _mapping(self, value: Any, path: Path, inner: Any) -> Any:
        if not isinstance(value, dict):
            return self.wrong(value, path, "a mapping of names")
        bound = {name: self.value(entry, (*path, name), inner) for name, entry in value.items()}
        return {name: entry for name, entry in bound.items() if entry is not INVALID}
