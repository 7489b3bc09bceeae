"""Values with a notation of their own: durations, sizes, and the `type = default` of fields and context."""

from __future__ import annotations

import re
from dataclasses import dataclass

from app.config.model import ContextField, FieldConfig
from app.config.problems import suggestion
from features.ranges import REAL, WHOLE

UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
SIZES = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
FIELD_TYPES = ("f32", "f64", "i32", "i64", "bool", "str", "vocab", "time")
CONTEXT_TYPES = ("str", "int", "float", "bool", "semver")
STATISTICS = ("mean",)
DURATION = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(ms|s|m|h|d)")
SIZE = re.compile(r"([0-9]{1,12})(B|KiB|MiB|GiB)")
VECTOR = re.compile(r"f32\[([1-9][0-9]{0,4})\]")
INTEGER = re.compile(r"[-+]?[0-9]{1,18}")
I64 = re.compile(r"[-+]?[0-9]{1,19}")
VERSION = re.compile(r"[0-9]+(\.[0-9]+)*([-+][0-9A-Za-z.+-]+)?")


class QuantityError(Exception):
    """A value that isn't in its notation; the message says what was expected."""


class Bytes(int):
    """A setting in bytes; written `64MiB` or `1GiB`."""

    __slots__ = ()


def seconds(value: object) -> float:
    """`120ms`, `90s`, `15m`, `12h` or `30d` in seconds."""
    match = DURATION.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise QuantityError("Expected a duration such as 120ms, 90s, 15m, 12h or 30d.")
    return float(match[1]) * UNITS[match[2]]


def duration_text(value: float) -> str:
    """Seconds in the notation of durations, in the largest unit that keeps them whole."""
    for unit in ("d", "h", "m", "s"):
        if value >= UNITS[unit] and value % UNITS[unit] == 0:
            return f"{value / UNITS[unit]:.0f}{unit}"
    number, unit = (value, "s") if value >= 1 else (value * 1000, "ms")
    return f"{number:.9f}".rstrip("0").rstrip(".") + unit


def size(value: object) -> Bytes:
    """`64MiB` in bytes."""
    match = SIZE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise QuantityError("Expected a size such as 512KiB, 64MiB or 1GiB.")
    return Bytes(int(match[1]) * SIZES[match[2]])


def size_text(value: int) -> str:
    """Bytes in the notation of sizes, in the largest unit that keeps them whole."""
    unit = next(name for name, factor in reversed(SIZES.items()) if value % factor == 0)
    return f"{value // SIZES[unit]}{unit}"


@dataclass(frozen=True, slots=True)
class _Declared:
    type: str
    default: str | None


def _split(text: object, example: str) -> _Declared:
    if not isinstance(text, str):
        raise QuantityError(f"Expected text such as {example!r}.")
    kind, equals, default = text.partition("=")
    return _Declared(kind.strip(), default.strip() if equals else None)


def field_config(name: str, text: object) -> FieldConfig:
    """A field from `f32[64]`, `vocab = other`, `f32 = mean`."""
    declared = _split(text, "f32 = mean")
    vector = VECTOR.fullmatch(declared.type)
    if vector is None and declared.type not in FIELD_TYPES:
        raise QuantityError(f"There is no field type {declared.type!r}. {_near_type(declared.type)}")
    if declared.default is not None:
        _check_field_default("f32[d]" if vector else declared.type, declared.default)
    return FieldConfig(name, declared.type, int(vector[1]) if vector else None, declared.default)


def _near_type(kind: str) -> str:
    return suggestion(kind, (*FIELD_TYPES, "f32[64]"))


def _check_field_default(kind: str, default: str) -> None:
    if kind == "f32[d]":
        raise QuantityError("A vector has no default: missing stays missing. Remove it.")
    if kind in WHOLE or kind in REAL:
        statistics = () if kind == "time" else STATISTICS
        if default not in statistics and not _fits(default, kind):
            expected = " or ".join(("a number", *statistics))
            raise QuantityError(f"{default!r} isn't a default for {kind}. Expected {expected}.")
    elif kind == "bool" and default not in ("true", "false"):
        raise QuantityError(f"{default!r} isn't a default for bool. Expected true or false.")


def _fits(text: str, kind: str) -> bool:
    if kind in WHOLE:
        return I64.fullmatch(text) is not None and -WHOLE[kind] <= int(text) < WHOLE[kind]
    return _is_number(text, REAL[kind])


def _is_number(text: str, end: float) -> bool:
    try:
        return abs(float(text)) < end
    except ValueError:
        return False


def context_field(text: object) -> ContextField:
    """A context attribute from `str = all`, `int`, `semver = 0.0.0`."""
    declared = _split(text, "str = all")
    kind, default = declared.type, declared.default
    if kind not in CONTEXT_TYPES:
        raise QuantityError(f"There is no context type {kind!r}. {suggestion(kind, CONTEXT_TYPES)}")
    if default is None or kind == "str":
        return ContextField(kind, default)
    if kind == "bool" and default in ("true", "false"):
        return ContextField(kind, default == "true")
    if kind == "int" and INTEGER.fullmatch(default):
        return ContextField(kind, int(default))
    if kind == "float" and _is_number(default, REAL["f64"]):
        return ContextField(kind, float(default))
    if kind == "semver" and VERSION.fullmatch(default):
        return ContextField(kind, default)
    raise QuantityError(f"{default!r} isn't a default for {kind}. Expected one of its values, or none.")
