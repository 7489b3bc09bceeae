"""Where a batch gets its columns from: resident item columns, derived ones, and the request's own values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from expression import Strings
from features.history import History
from features.history_digest import HistoryDigest
from stages.types import Candidates, Column, View

Derived = Callable[["Columns", Candidates], Any]


class Columns:
    """The column source of one request.

    `resident` maps `item.x` to a column over all rows of the release; `derived` maps a name to its function.
    """

    __slots__ = ("_derived", "_digests", "_resident", "view")

    def __init__(self, view: View, resident: Mapping[str, Column], derived: Mapping[str, Derived]) -> None:
        self.view = view
        self._resident = resident
        self._derived = derived
        self._digests: dict[str, HistoryDigest] = {}

    def column(self, name: str, batch: Candidates) -> Any:
        """The column over `batch.rows`, or the request's scalar; None for a value the request doesn't have.

        An item column that is neither resident nor fetched is a KeyError: a component read what it didn't declare.
        """
        held = self._resident.get(name)
        if held is not None:
            return held.take(batch.rows, axis=0) if isinstance(held, np.ndarray) else held.take(batch.rows)
        make = self._derived.get(name)
        if make is not None:
            return make(self, batch)
        if name.startswith(("user.", "context.")):
            return self.view.columns.get(name)
        if name.startswith("channel."):
            return np.full(len(batch), np.nan, np.float32)  # the channel did not run for this request
        raise KeyError(name)

    def digest(self, name: str) -> HistoryDigest:
        """The history column `name`, digested once per request; an absent history is an empty one."""
        digest = self._digests.get(name)
        if digest is None:
            history = self.view.columns.get(name) or History.empty()
            digest = self._digests[name] = HistoryDigest(history.known(), self.view.now)
        return digest


def concatenated(first: Column, second: Column) -> Column:
    """Two columns of one type end to end. O(n), strings included: for what is returned, not for candidates."""
    if isinstance(first, np.ndarray):
        assert isinstance(second, np.ndarray)
        joined: np.ndarray[Any, Any] = np.concatenate([first, second])
        return joined
    assert not isinstance(second, np.ndarray)
    return Strings.encode([*first.decode(), *second.decode()])
