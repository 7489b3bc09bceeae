"""Static kinds, and how a column or a request's value of each kind is read at run time."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np
from numpy import ndarray
from numpy.typing import NDArray

from expression.strings import Strings

Kind = Literal["number", "bool", "str", "semver", "vector"]
Column = NDArray[Any] | Strings
# A value at run time is a column, or one scalar for all rows: float, int, bool, str, None or a version key.
Run = Callable[[Mapping[str, Any]], Any]

_NUMBERS = frozenset({"number", "int", "float", "time", *(f"{c}{bits}" for c in "iu" for bits in (8, 16, 32, 64))})
_FLOATS = frozenset({"number", "float", "time", "f16", "f32", "f64"})
_KINDS: dict[str, Kind] = {"bool": "bool", "str": "str", "vocab": "str", "semver": "semver"}
_VECTOR = re.compile(r"[fiu](?:8|16|32|64)\[\d+\]")
_INT64 = 2**63


def kind_of(type_name: str) -> Kind:
    """Return the kind of a declared type (`f32`, `vocab`, `f32[64]`); raises ValueError for any other."""
    if type_name in _NUMBERS or type_name in _FLOATS:
        return "number"
    if _VECTOR.fullmatch(type_name):
        return "vector"
    if type_name not in _KINDS:
        raise ValueError(f"{type_name!r} is not a type that expressions know")
    return _KINDS[type_name]


def is_float(type_name: str) -> bool:
    """Return whether the declared type may hold values that numpy warns about."""
    return type_name in _FLOATS


def load(name: str, kind: Kind) -> Run:
    """Return the closure that reads `name` out of a call's columns; it raises KeyError for an absent one."""
    scalar = _SCALARS[kind]

    def run(columns: Mapping[str, Any]) -> Any:
        value = columns[name]
        return value if value.__class__ is ndarray else scalar(value)

    return run


def as_float(value: Any) -> Any:
    """Return a number as arithmetic wants it: f32 and f64 arrays as they are, all else widened to float."""
    if value.__class__ is ndarray:
        if value.dtype.char in "fd":
            return value
        return value.astype(np.float32 if value.dtype.char == "e" else np.float64)
    return float(value)


def _number(value: Any) -> Any:
    if value is None:
        return math.nan
    if isinstance(value, ndarray):
        return np.asarray(value)
    # A Python number is weak in numpy's promotion, so that one scalar doesn't turn a f32 column into f64.
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, int) and not -_INT64 <= plain < _INT64:
        try:
            return float(plain)
        except OverflowError:
            return math.inf if plain > 0 else -math.inf
    return plain


def _flag(value: Any) -> Any:
    if isinstance(value, np.generic):
        return bool(value)
    return np.asarray(value) if isinstance(value, ndarray) else value


def _text(value: Any) -> Any:
    if value is None or isinstance(value, str | Strings):
        return value
    raise TypeError(f"a text column is Strings, a text is str or None, not {type(value).__name__}")


def _version(value: Any) -> Any:
    if value is None or isinstance(value, str):
        return value
    raise TypeError(f"a version is one str or None for all rows, not {type(value).__name__}")


def _vector(value: Any) -> Any:
    return None if value is None else np.asarray(value)


_SCALARS: dict[Kind, Callable[[Any], Any]] = {
    "number": _number,
    "bool": _flag,
    "str": _text,
    "semver": _version,
    "vector": _vector,
}
