"""Names of columns: the input's own must not meet those that bootstrap adds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bootstrap.popularity import popularity_columns
from bootstrap.recipe import HISTORY, RECENT, Found, derived

GIVEN = "_given"
_OF_CODES = ("_share", "_days")  # derived columns of a column with codes, see `recipe.derived`


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


def _own(entity: str) -> frozenset[str]:
    if entity == "user":
        return frozenset({"embedding", HISTORY.removeprefix("user."), RECENT.removeprefix("user.")})
    none = np.empty(0, np.int32)
    counted = popularity_columns(none, none, np.empty(0), 1, 0.0)
    made = derived(Found({"title": "str"}, {}, ()))
    return frozenset({"id", "embedding", "title_vector", *counted, *(name.removeprefix("item.") for name in made)})
