"""Derived columns: a named transform bound to its arguments.

One that depends on item columns alone is worked out for the whole catalogue at load and becomes resident.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from expression import Strings
from features.transforms import TRANSFORMS, ParameterKind
from stages.columns import Columns, Derived
from stages.errors import ReleaseError
from stages.types import Candidates, Column

_WHOLE = (ParameterKind.RESIDENT_COLUMN, ParameterKind.RESIDENT_MATRIX, ParameterKind.RESIDENT_CODES)
_FIXED = (ParameterKind.COLUMN, ParameterKind.CONSTANT)

Argument = Callable[[Columns, Candidates], Any]


@dataclass(frozen=True, slots=True)
class DerivedSpec:
    """`name: {transform: args}` as configured; args are column names and constants, in the transform's order."""

    name: str
    transform: str
    args: tuple[Any, ...]

    @property
    def reads(self) -> frozenset[str]:
        """Columns among the arguments."""
        return frozenset(a for a in self.args if isinstance(a, str))


def stored_reads(specs: Sequence[DerivedSpec]) -> dict[str, frozenset[str]]:
    """For each derived column, every stored column that it is made of, through other derived ones."""
    by_name = {spec.name: spec for spec in specs}
    found: dict[str, frozenset[str]] = {}

    def reads(name: str) -> frozenset[str]:
        if name not in by_name:
            return frozenset((name,))
        if name not in found:
            found[name] = frozenset().union(*(reads(arg) for arg in by_name[name].reads))
        return found[name]

    for name in by_name:
        reads(name)
    return found


def bind_derived(
    specs: Sequence[DerivedSpec], resident: Mapping[str, Column]
) -> tuple[dict[str, Derived], dict[str, Column]]:
    """Functions for the derived columns that depend on the request, and columns for those that don't.

    ReleaseError when a transform needs a whole column that isn't resident.
    """
    columns: dict[str, Column] = {}
    functions: dict[str, Derived] = {}
    for spec in specs:
        known = {**resident, **columns}
        if _depends_on_items_only(spec) and spec.reads <= known.keys():
            values = [known[arg] if isinstance(arg, str) else arg for arg in spec.args]
            made = np.asarray(TRANSFORMS[spec.transform].apply(*values), np.float32)
            made.setflags(write=False)
            columns[spec.name] = made
        else:
            functions[spec.name] = _function(spec, known)
    return functions, columns


def _depends_on_items_only(spec: DerivedSpec) -> bool:
    return all(kind in _FIXED for kind in TRANSFORMS[spec.transform].parameters.values())


def _function(spec: DerivedSpec, known: Mapping[str, Column]) -> Derived:
    transform = TRANSFORMS[spec.transform]
    given = iter(spec.args)
    arguments: list[Argument] = []
    for kind in transform.parameters.values():
        if kind is ParameterKind.ROWS:
            arguments.append(lambda _, batch: batch.rows)
        elif kind is ParameterKind.NOW:
            arguments.append(lambda columns, _: columns.view.now)
        else:
            value = next(given, None)
            if value is None:
                break  # the transform's own default, always in last place
            arguments.append(_argument(spec, kind, value, known))
    apply = transform.apply
    return lambda columns, batch: apply(*[argument(columns, batch) for argument in arguments])


def _codes(column: Column) -> np.ndarray[Any, Any]:
    """A column's values as small numbers without gaps, -1 for a negative one or none. O(items log items)."""
    if isinstance(column, Strings):
        return column.codes
    codes = np.unique(column, return_inverse=True)[1].astype(np.int32)
    codes[~(column >= 0)] = -1
    return codes


def _argument(spec: DerivedSpec, kind: ParameterKind, value: Any, known: Mapping[str, Column]) -> Argument:
    if kind in _WHOLE:
        whole = known.get(value)
        if whole is None:
            raise ReleaseError(f"{spec.name}: {spec.transform} needs {value} in memory. Expected a resident column.")
        fixed = _codes(whole) if kind is ParameterKind.RESIDENT_CODES else whole
        return lambda _columns, _batch: fixed
    if kind is ParameterKind.HISTORY:
        return lambda columns, _: columns.digest(value)
    if kind is ParameterKind.USER_VECTOR:
        return lambda columns, _: columns.view.columns.get(value)
    if kind is ParameterKind.CONSTANT:
        return lambda _columns, _batch: value
    return lambda _columns, batch: batch[value]
