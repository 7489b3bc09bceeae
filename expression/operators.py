"""What operators do with values: columns or scalars in, a new column or scalar out, nothing mutated.

Scalars stay plain Python values, because a numpy float64 scalar would widen every f32 column it meets.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
from numpy import ndarray

from expression.kinds import Kind
from expression.strings import Strings
from expression.versions import version_key

Operation = Callable[[Any, Any], Any]

# Above this many options one sorted search beats one pass per option.
_FEW = 8


def plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a ufunc so that scalars give a Python scalar."""

    def call(*values: Any) -> Any:
        result = function(*values)
        return result if result.__class__ is ndarray else result.item()

    return call


# Python's own / % and ** raise where numpy answers inf or NaN.
ARITHMETIC: dict[str, Operation] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": plain(np.divide),
    "%": plain(np.remainder),
    "**": plain(np.power),
}


def truth(value: Any) -> Any:
    """Return a bool column or a bool; a missing flag is false."""
    if value.__class__ is ndarray:
        # A flag that came as a number is false where it is NaN.
        return value if value.dtype.char == "?" else (value == value) & (value != 0)
    return bool(value)


def negate(value: Any) -> Any:
    """Return boolean not of a `truth`."""
    return ~value if value.__class__ is ndarray else not value


def both_ordered(left: Any, right: Any) -> Any:
    """Return `!=` of numbers: unlike numpy's, false when a side is NaN."""
    return (left < right) | (left > right)


def _same_text(left: Any, right: Any) -> Any:
    if isinstance(left, Strings):
        if isinstance(right, Strings):
            return (left.codes >= 0) & (left.codes == right.recode(left.vocab))
        return left.equals(right)
    if isinstance(right, Strings):
        return right.equals(left)
    return left is not None and left == right


def _other_text(left: Any, right: Any) -> Any:
    return negate(_same_text(left, right)) & has(left) & has(right)


def _flags(compare: Operation) -> Operation:
    def run(left: Any, right: Any) -> Any:
        return compare(truth(left), truth(right)) & has(left) & has(right)

    return run


def _versions(compare: Operation) -> Operation:
    def run(left: Any, right: Any) -> bool:
        first, second = version_key(left), version_key(right)
        return first is not None and second is not None and bool(compare(first, second))

    return run


_ORDER: dict[str, Operation] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_EQUALITY: dict[str, Operation] = {"==": operator.eq, "!=": operator.ne}
COMPARISONS: dict[Kind, dict[str, Operation]] = {
    "number": {**_ORDER, "==": operator.eq, "!=": both_ordered},
    "bool": {name: _flags(compare) for name, compare in _EQUALITY.items()},
    "str": {"==": _same_text, "!=": _other_text},
    "semver": {name: _versions(compare) for name, compare in {**_ORDER, **_EQUALITY}.items()},
}


def missing(value: Any) -> Any:
    """Return bool[n] or bool: the number is NaN, the flag or the text is None."""
    if value.__class__ is ndarray:
        return value != value
    if isinstance(value, Strings):
        return value.missing()
    return value is None or value != value


def missing_vector(value: Any) -> Any:
    """Return bool[n] for vectors [n, d], bool for one vector [d] or None: some element is NaN."""
    if value is None:
        return True
    absent = np.isnan(value).any(axis=-1)
    return absent if absent.__class__ is ndarray else bool(absent)


def missing_version(value: str | None) -> bool:
    """Return whether a text is absent or not a version."""
    return version_key(value) is None


def has(value: Any) -> Any:
    """Return the opposite of `missing`."""
    return negate(missing(value))


def member(kind: Kind, options: tuple[Any, ...]) -> Callable[[Any], Any]:
    """Return the closure for `in` a fixed list of one kind; a missing value is in no list."""
    if kind == "str":
        texts = frozenset(options)
        return lambda value: value.isin(texts) if isinstance(value, Strings) else value in texts
    same = COMPARISONS[kind]["=="]
    if kind != "number" or len(options) <= _FEW:
        return lambda value: reduce(operator.or_, [same(value, option) for option in options])
    numbers = frozenset(options)
    table = np.array(sorted(numbers))

    def run(value: Any) -> Any:
        if value.__class__ is not ndarray:
            return value in numbers
        # As in a comparison, a f32 column is matched against the options' nearest f32.
        return np.isin(value, table.astype(value.dtype) if value.dtype.kind == "f" else table)

    return run
