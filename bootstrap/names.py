"""Inputs joined into one, with names of columns that don't meet those that bootstrap adds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from bootstrap.data import Entities, Inputs, Interactions, Report, merged
from bootstrap.popularity import popularity_columns
from bootstrap.recipe import HISTORY, RECENT, Found, Recipe, derived

GIVEN = "_given"
_OF_CODES = ("_share", "_days", "_variety", "_recent", "_part", "_lift", "_expected", "_sold_30d")
"""Ends of the columns made for a column with codes, see `recipe.derived`."""


def joined(log: Interactions, items: Entities | None, users: Entities | None) -> Inputs:
    """A log with what its own columns and the files of items and users say; a file's column stands before the log's.

    Columns called like those that bootstrap makes get another name, and a note in the report of their file.
    """
    of_items = merged(log.items) if items is None else merged(items, log.items)
    of_users = merged(log.users) if users is None else merged(users, log.users)
    new_items = _new_names("item", tuple(of_items.columns))
    new_users = _new_names("user", tuple(of_users.columns))
    reports = [_noted(log.report, _kept(new_items, log.items) | _kept(new_users, log.users))]
    for part, new in ((items, new_items), (users, new_users)):
        if part is not None and part.report is not None:
            reports.append(_noted(part.report, new))
    return Inputs(log, _renamed(of_items, new_items), _renamed(of_users, new_users), tuple(reports))


def free_names(entity: str, names: Sequence[str]) -> list[str]:
    """The names, with `_given` behind those that a release of bootstrap uses for something else."""
    taken = _own(entity)
    free: list[str] = []
    for name in names:
        stem = next((name.removesuffix(end) for end in _OF_CODES if name.endswith(end)), None)
        while name in taken or name in free or (stem in names and not name.endswith(GIVEN)):
            name += GIVEN
        free.append(name)
    return free


def _new_names(entity: str, names: Sequence[str]) -> dict[str, str]:
    return {old: new for old, new in zip(names, free_names(entity, names), strict=True) if old != new}


def _kept(new: Mapping[str, str], part: Entities) -> dict[str, str]:
    return {old: name for old, name in new.items() if old in part.columns}


def _renamed(part: Entities, new: Mapping[str, str]) -> Entities:
    return replace(part, columns={new.get(name, name): column for name, column in part.columns.items()})


def _noted(report: Report, new: Mapping[str, str]) -> Report:
    new = {old: name for old, name in new.items() if old in report.used}
    used = {new.get(name, name): column for name, column in report.used.items()}
    notes = (f"{report.used[old]} is called {name}: recserve makes a column {old} itself" for old, name in new.items())
    return replace(report, used=used, notes=(*report.notes, *notes))


def _own(entity: str) -> frozenset[str]:
    if entity == "user":
        return frozenset({"embedding", "wide", HISTORY.removeprefix("user."), RECENT.removeprefix("user.")})
    none = np.empty(0, np.int32)
    counted = popularity_columns(none, none, np.empty(0), 1, 0.0)
    made = derived(Recipe(), Found({"title": "str", "price": "f32"}, {}, ()))
    names = (name.removeprefix("item.") for name in made)
    return frozenset({"id", "embedding", "wide", "title_vector", *counted, *names})
