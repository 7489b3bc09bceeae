"""Attributes of units from a file of users, for checking the split within each group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from abtest.analysis import Attribute
from app.ab.errors import AbError
from bootstrap.coding import take
from bootstrap.columns import events, ids
from bootstrap.csv_source import open_source
from bootstrap.errors import BootstrapError
from bootstrap.mapping import ROLES, find, plain

_MOST_VALUES = 100


def read_attributes(
    path: Path, units: Sequence[str], unit_type: str, names: Sequence[str], unit_column: str | None = None
) -> Mapping[str, Attribute]:
    """The columns `names` of a CSV or Parquet file, a value for each of `units` (the last row of a unit counts).

    Raises AbError, also for a column of so many values that no group of them is large.
    """
    try:
        source = open_source(path)
        usual = (unit_type, *(ROLES["user_id"] if unit_type == "user_id" else ()))
        by_plain = {plain(name): name for name in source.names}
        column = find(source, "unit", unit_column) if unit_column else None
        column = column or next((by_plain[plain(name)] for name in usual if plain(name) in by_plain), None)
        if column is None:
            raise source.error(f"has no column {unit_type}. There are {', '.join(source.names)}.")
        codes, texts = ids(source, column, source.column(column))
        place = {text: number for number, text in enumerate(texts)}
        row_of = np.full(len(texts) + 1, -1, np.int64)
        row_of[codes] = np.arange(len(codes))
        rows = row_of[np.array([place.get(unit, -1) for unit in units], np.int64)]
        rows[np.array([unit not in place for unit in units], bool)] = -1
        found = {}
        for name in names:
            if name not in source.names:
                raise source.error(f"has no column {name!r} (--by). There are {', '.join(source.names)}.")
            values, known = events(source, name, source.column(name))
            if len(known) > _MOST_VALUES:
                raise source.error(f"has {len(known):,} values. Expected at most {_MOST_VALUES} for --by.", column=name)
            found[name] = Attribute(take(values.astype(np.int64), rows.astype(np.int32), np.int64(-1)), tuple(known))
    except (BootstrapError, OSError) as error:
        raise AbError(str(error)) from None
    return found
