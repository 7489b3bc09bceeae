"""The whitelist of functions. It is fixed: an extension adds components, not functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy import ndarray

from expression.kinds import Kind
from expression.operators import missing, missing_vector, missing_version, plain, truth
from expression.strings import Strings, Vocabulary
from expression.versions import version_key


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the language: `usage` as shown to people, how many arguments (`most` None: any number).

    `call` takes numbers and gives a number; None where the compiler has a rule for the arguments' kinds.
    """

    usage: str
    least: int
    most: int | None
    call: Callable[..., Any] | None = None


_minimum = plain(np.minimum)
_maximum = plain(np.maximum)


def _clip(value: Any, low: Any, high: Any) -> Any:
    # Not np.clip, which costs three times these two.
    return _minimum(_maximum(value, low), high)


def choose(condition: Any, first: Any, second: Any) -> Any:
    """Return `first` where the condition (a `truth`) holds, else `second`."""
    if condition.__class__ is ndarray or first.__class__ is ndarray or second.__class__ is ndarray:
        return np.where(condition, first, second)
    return first if condition else second


def fill_number(value: Any, default: Any) -> Any:
    """Return `default` where the number is NaN."""
    return choose(missing(value), default, value)


def fill_flag(value: Any, default: Any) -> Any:
    """Return `default` (a `truth`) for a missing flag; a column of flags has none."""
    return choose(value is None, default, truth(value))


def fill_version(value: str | None, default: str | None) -> str | None:
    """Return `default` for a text that is no version."""
    return default if version_key(value) is None else value


def fill_text(value: Any, default: Any) -> Any:
    """Return `default` where the text is missing. O(n) in Python when both are columns."""
    if not isinstance(default, Strings):
        if isinstance(value, Strings):
            return value if default is None else value.filled(default)
        return default if value is None else value
    if value is None:
        return default
    if isinstance(value, str):
        return Strings(np.zeros(len(default), dtype=np.int32), Vocabulary.of([value]))
    texts, others = value.decode(), default.decode()
    # As numpy would broadcast them: one row beside many is repeated.
    size = len(texts) if len(others) == 1 else len(others)
    pairs = zip(*(each * size if len(each) == 1 else each for each in (texts, others)), strict=True)
    return Strings.encode([other if text is None else text for text, other in pairs])


MISSING: Mapping[Kind, Callable[[Any], Any]] = MappingProxyType(
    {
        "number": missing,
        "bool": missing,
        "str": missing,
        "semver": missing_version,
        "vector": missing_vector,
    }
)
FILL: Mapping[Kind, Callable[[Any, Any], Any]] = MappingProxyType(
    {"number": fill_number, "bool": fill_flag, "str": fill_text, "semver": fill_version}
)
FUNCTIONS: Mapping[str, Function] = MappingProxyType(
    {
        "abs": Function("abs(x)", 1, 1, abs),
        "clip": Function("clip(x, low, high)", 3, 3, _clip),
        "coalesce": Function("coalesce(x, default)", 2, 2),
        "exp": Function("exp(x)", 1, 1, plain(np.exp)),
        "floor": Function("floor(x)", 1, 1, plain(np.floor)),
        "has": Function("has(x)", 1, 1),
        "isnan": Function("isnan(x)", 1, 1),
        "log": Function("log(x)", 1, 1, plain(np.log)),
        "log1p": Function("log1p(x)", 1, 1, plain(np.log1p)),
        "max": Function("max(x, y, ...)", 2, None, lambda *values: reduce(_maximum, values)),
        "min": Function("min(x, y, ...)", 2, None, lambda *values: reduce(_minimum, values)),
        "missing": Function("missing(x)", 1, 1),
        "round": Function("round(x)", 1, 1, plain(np.rint)),
        "sqrt": Function("sqrt(x)", 1, 1, plain(np.sqrt)),
        "where": Function("where(condition, a, b)", 3, 3),
    }
)
