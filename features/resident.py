"""Resident columns: a release's views, memory-mapped, addressed by row, with declared defaults filled in.

A column whose values are all present stays the mapped file that every process shares; one with holes is
copied once at load. Missing without a default stays missing: NaN in floats, code -1 in strings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from expression import Strings
from features.item_table import IdTable
from features.manifest import Column, Manifest, ManifestError, read_column, read_ids


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """A field as configured: type name (`f32`, `str`, `f32[64]`...), default (None: missing is missing)."""

    type: str
    default: str | int | float | bool | None = None


def load_view(manifest: Manifest, entity: str, view: str, fields: Mapping[str, FieldSpec]) -> dict[str, Column]:
    """Columns `entity.field` of one view. ManifestError when the release lacks it or the type differs."""
    entry = manifest.views.get(view)
    if entry is None:
        raise ManifestError(f"Release {manifest.release} has no view {view!r}. It has {', '.join(manifest.views)}.")
    if entry["entity"] != entity:
        raise ManifestError(f"Release {manifest.release}: view {view!r} is of {entry['entity']}s. Expected {entity}s.")
    columns: dict[str, Column] = {}
    rows = manifest.entities[entity]["n"]
    for name, spec in fields.items():
        held = entry["fields"].get(name)
        if held is None:
            raise ManifestError(
                f"Release {manifest.release}: view {view!r} has no field {name!r}. It has {', '.join(entry['fields'])}."
            )
        if not _same_type(held, spec.type):
            raise ManifestError(
                f"Release {manifest.release} holds {view}.{name} as {held}, the configuration says {spec.type}. "
                "Change the type in features.yaml, or rebuild the release."
            )
        column = read_column(manifest, view, name)
        if len(column) != rows:
            raise ManifestError(
                f"Release {manifest.release}: {view}.{name} has {len(column)} rows. The {entity} table has {rows}."
            )
        columns[f"{entity}.{name}"] = filled(column, spec.default)
    return columns


def _same_type(held: str, wanted: str) -> bool:
    aliases = {"vocab": "str", "time": "f64"}
    return held == aliases.get(wanted, wanted)


def filled(column: Column, default: str | int | float | bool | None) -> Column:
    """The column with missing values replaced; `mean` is the mean of the present ones. O(n) when there are holes."""
    if default is None:
        return column
    if isinstance(column, Strings):
        if not (column.codes < 0).any():
            return column
        texts = [str(default) if text is None else text for text in column.decode()]
        return Strings.encode(texts)
    if column.dtype.kind != "f" or not np.isnan(column).any():
        return column
    present = column[~np.isnan(column)]
    value = (float(present.mean()) if len(present) else 0.0) if default == "mean" else float(default)
    made = np.where(np.isnan(column), column.dtype.type(value), column)
    made.setflags(write=False)
    return made


@dataclass(frozen=True, slots=True)
class ResidentUsers:
    """A release's user rows: looked up by id, one value per declared column."""

    ids: IdTable
    columns: Mapping[str, Column]

    @classmethod
    def load(cls, manifest: Manifest, columns: Mapping[str, Column]) -> ResidentUsers:
        """The users of a release, with the columns that were loaded by `load_view`."""
        return cls(read_ids(manifest, "user"), columns)

    def values(self, user_id: str) -> dict[str, Any]:
        """`user.*` values of one user: scalars and vectors; a missing one is left out. {} for an unknown user."""
        row = self.ids.row(user_id)
        if row < 0:
            return {}
        found = {}
        for name, column in self.columns.items():
            value = _value(column, row)
            if value is not None:
                found[name] = value
        return found


def _value(column: Column, row: int) -> Any:
    if isinstance(column, Strings):
        code = int(column.codes[row])
        return None if code < 0 else column.vocab.text(code)
    value = column[row]
    if column.ndim == 2:
        return None if np.isnan(value[0]) else value
    return None if value != value else value.item()
