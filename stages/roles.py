"""The roles that a component may have, and what its settings may refer to.

Each role returns the smallest value that can't break its invariant: hits, a mask, scores, positions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from expression import Expression
from stages.types import F32, Candidates, Index, Mask, Rows, View


class Component:
    """Base of every role. A component is a frozen dataclass whose fields are its settings.

    Settings may be typed int, float, bool, str, Duration, `ColumnName`, `Annotated[Expression, "bool"]` (or
    "number"), Literal[...], tuple[X, ...] of those, `X | None`, or `Ref[T]`, a name resolved while building.
    `Annotated[VectorColumn, "item"]` (or "request") says whose column it must be, and `Annotated[Ref[Table], "items"]`
    (or "group") what the table must have a list for.
    A setting whose key is the role's method (`score`) has an attribute with a trailing underscore (`score_`).
    """

    role: ClassVar[str] = ""

    @property
    def needs(self) -> frozenset[str]:
        """Names of the columns this component reads. By default: its ColumnName and Expression settings."""
        return frozenset(_columns_of(vars(self).values()))


class ColumnName(str):
    """A setting that names a column, such as `item.embedding`; the aliases below narrow its kind."""

    __slots__ = ()


LISTED: Mapping[str, str] = {"items": "item", "group": "group"}  # notes of a Ref[Table]: what each of its lists is for
EventName = Annotated[str, "event"]  # checked against the events that features.yaml declares
VectorColumn = Annotated[ColumnName, "vector"]
HistoryColumn = Annotated[ColumnName, "history"]
ScalarColumn = Annotated[ColumnName, "number", "str", "bool"]


def _columns_of(values: Any) -> set[str]:
    names: set[str] = set()
    for value in values:
        if isinstance(value, ColumnName):
            names.add(str(value))
        elif isinstance(value, Expression):
            names |= value.names
        elif isinstance(value, (list, tuple)):
            names |= _columns_of(value)
    return names


class Recaller(Component):
    """A channel. `recall` may be a plain method (in memory, run in place) or `async def` (does I/O)."""

    role = "recall"

    def recall(self, view: View) -> Any:
        """Return Hits for this request (or an awaitable of them)."""
        raise NotImplementedError  # a role's hook: every component overrides it


class Filter(Component):
    """Says which candidates may stay."""

    role = "filter"

    def keep(self, view: View, batch: Candidates) -> Mask:
        """bool[n], pure and synchronous."""
        raise NotImplementedError  # a role's hook: every component overrides it


class Scorer(Component):
    """Scores candidates; the engine sorts."""

    role = "rank"

    def score(self, view: View, batch: Candidates) -> F32:
        """f32[n], pure and synchronous; higher is better."""
        raise NotImplementedError  # a role's hook: every component overrides it


class PreRanker(Scorer):
    """A cheap scorer before the ranker; the step keeps the best `keep`."""

    role = "pre_rank"


class Reranker(Component):
    """Orders the list as a whole."""

    role = "re_rank"

    def order(self, view: View, batch: Candidates, size: int) -> Index:
        """Positions into the batch, each at most once, in the new order; batch arrives best first.

        `size` is how many items the answer needs: beyond it order doesn't matter, but candidates should stay.
        """
        raise NotImplementedError  # a role's hook: every component overrides it


class VectorIndex(Protocol):
    """A nearest-neighbour index over the release's item rows."""

    @property
    def space(self) -> str:
        """The embedding space that its vectors are of."""

    @property
    def dim(self) -> int:
        """Width of its vectors."""

    def search(self, query: F32, k: int, *, effort: int | None = None) -> tuple[Rows, F32]:
        """Rows i32[<=k] and scores f32[<=k], best first; -1 is removed inside."""


class Table(Protocol):
    """Lists of rows with scores: by item row (`slice`) or by group name (`group`)."""

    def slice(self, group: int) -> tuple[Rows, F32]:
        """Rows and scores of one group, best first."""

    def group(self, name: str) -> int:
        """The group's number, -1 when there is none of that name."""

    def gather(self, groups: Rows) -> tuple[Rows, F32, NDArray[np.int64]]:
        """Rows and scores of several groups end to end, and each group's length."""

    def __len__(self) -> int:
        """How many lists it has."""

    @property
    def groups(self) -> Sequence[str]:
        """Names of the groups by number; none when the lists are by item row."""


@runtime_checkable
class Model(Protocol):
    """A loaded ranking model."""

    @property
    def name(self) -> str:
        """Its name in models.yaml."""

    @property
    def heads(self) -> Sequence[str]:
        """Names of what it predicts."""

    @property
    def needs(self) -> frozenset[str]:
        """Columns that it reads."""

    @property
    def cost_ms(self) -> float:
        """Its usual time, measured when it was warmed."""

    def score(self, view: View, batch: Candidates) -> Mapping[str, F32]:
        """f32[n] in (0, 1) for each head."""
