"""Items or users of a file: one row each, with whatever attributes the file has."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from bootstrap.columns import MAX_ID_BYTES, ids, too_long
from bootstrap.data import Column, Entities, Report, count
from bootstrap.mapping import ROLES, attribute_names, find, plain, required_role
from bootstrap.source import Source
from bootstrap.typed import Unusable, attribute, typed


def entities_from(source: Source, mapping: Mapping[str, str], field: str) -> Entities:
    """The items (`field` "item_id") or users ("user_id") of a source, in the order of its rows.

    Rows without an id and exact repetitions are dropped and counted. Raises InputError when there is no id
    column, no id, or two rows say different things about one id.
    """
    column = _id_column(source, mapping, field)
    codes, texts = ids(source, column, source.column(column))
    long = too_long(codes, texts)
    unnamed = int((codes < 0).sum())
    named = np.flatnonzero((codes >= 0) & ~long)
    if len(named) == 0:
        raise source.error(f"every id is empty or too long. Expected 1 to {MAX_ID_BYTES} bytes.", column=column)
    rows, again = _first_rows(codes[named], named)
    columns: dict[str, Column] = {}
    used, ignored = {field: column}, {}
    notes: tuple[str, ...] = ()
    further = [name for name in source.names if name != column]
    names = attribute_names(further, source, mapping, of_items=field == "item_id")
    for name, origin in names.items():
        role = name if field == "item_id" else None
        try:
            found = attribute(source, origin, role, mapped=name in mapping)
        except Unusable as why:
            ignored[origin] = str(why)
            continue
        _agree(source, (column, origin), found.coded.codes, again)
        columns[name] = typed(source, origin, found.coded, found.coded.codes[rows])
        used[name] = origin
        notes += found.notes
    reasons = [("no id", unnamed), (f"id longer than {MAX_ID_BYTES} bytes", int(long.sum()))]
    dropped = count([*reasons, ("repeats an earlier row", len(again))])
    report = Report(source.file, source.rows, len(rows), dropped, used, ignored, notes=notes)
    return Entities([texts[c] for c in codes[rows].tolist()], columns, report)


def _id_column(source: Source, mapping: Mapping[str, str], field: str) -> str:
    """As for a log; and a plain `id` will do."""
    mapped = find(source, field, mapping[field]) if mapping.get(field) else None
    usual = {plain(alias) for alias in ROLES[field]}
    if mapped is None and not any(plain(name) in usual for name in source.names):
        alike = [name for name in source.names if plain(name) == "id"]
        if len(alike) == 1:
            return alike[0]
    return mapped or required_role(source, field, mapping, strict=False)


def _first_rows(codes: NDArray[np.int32], rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(each id's first row, ascending; pairs i64[m, 2] of a later row and its id's first)."""
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    origin = first[inverse]
    later = np.flatnonzero(origin != np.arange(len(codes)))
    pairs = np.stack([rows[later], rows[origin[later]]], axis=1)
    return np.sort(rows[first]), pairs


def _agree(
    source: Source,
    names: tuple[str, str],
    values: NDArray[np.int32],
    again: NDArray[np.int64],
) -> None:
    """Raises InputError for the first later row whose value isn't its id's first row's."""
    differs = np.flatnonzero(values[again[:, 0]] != values[again[:, 1]])
    if len(differs) == 0:
        return
    later, first = (int(row) for row in again[differs[0]])
    id_column, column = names
    shown = source.column(id_column)[later].as_py()
    old, new = (source.column(column)[row].as_py() for row in (first, later))
    raise source.error(
        f"{id_column} {shown!r} has {new!r} here and {old!r} in row {first + 1}. Expected one row per id;"
        " remove one of them.",
        row=later,
        column=column,
    )
