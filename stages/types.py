"""The funnel's core types: what a component receives, and the smallest thing it may return.

An item is a row number of the release's item table. A request's candidates are arrays over rows; no
Python object exists per item. Everything here is frozen: a stage answers with a new value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from expression import Strings

Rows = NDArray[np.int32]
F32 = NDArray[np.float32]
Mask = NDArray[np.bool_]
Index = NDArray[np.intp]
Column = np.ndarray[Any, Any] | Strings
Scalar = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Request:
    """One request, decoded and checked by the edge. Times are seconds of the event loop's clock."""

    scene: str
    user_id: str | None
    size: int
    request_id: str
    context: Mapping[str, Scalar] = field(default_factory=dict)
    device_id: str | None = None
    session_id: str | None = None
    exclude: tuple[str, ...] = ()
    candidates: tuple[str, ...] | None = None
    debug: bool = False
    why_not: tuple[str, ...] = ()
    forced: Mapping[str, str] = field(default_factory=dict)
    arrived: float = 0.0
    deadline: float = float("inf")


@dataclass(frozen=True, slots=True)
class Quality:
    """How much a request may cost, as the load allows: the ladder's level, and a share between 0 and 1.

    Levels, each with what those before it give up: 0 everything; 1 fewer candidates are ranked (`share` 1: as
    configured, 0: the scene's fewest); 2 the scene's slow channels are skipped; 3 the smaller model; 4 the
    pre-ranker's order; 5 the fallback list alone.
    """

    level: int = 0
    share: float = 1.0


FULL = Quality()


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer, still columnar: the edge turns it into JSON.

    `ids`, `channels` and each column of `fields` have one entry per item; `scores` is f32[n], and so are columns
    of that type (NaN: missing).
    `degraded` names (step, reason); `short` says why fewer items than asked came back.
    """

    request_id: str
    scene: str
    config: str
    release: str
    ids: list[str]
    scores: F32
    channels: list[list[str]]
    fields: dict[str, list[Any] | F32]
    buckets: dict[str, str]
    degraded: list[tuple[str, str]]
    short: str | None = None
    level: int = 0
    cursor: str | None = None
    trace: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class View:
    """All that a component sees of a request.

    `columns` holds `user.*` and `context.*` by full name: a scalar, f32[d], a History; a missing value is
    absent. `now` (epoch seconds) is the clock of features: the later of the release's as_of and the user's
    newest event. `excluded` are the rows that the caller asked to leave out.
    """

    request: Request
    params: Mapping[str, Scalar]
    columns: Mapping[str, Any]
    now: float
    excluded: Rows

    def get(self, name: str) -> Any:
        """The value of `user.*` or `context.*`, or None when it is missing."""
        return self.columns.get(name)


@dataclass(frozen=True, slots=True)
class Hits:
    """A channel's result, best first: rows i32[k] without repetition, scores f32[k]."""

    rows: Rows
    scores: F32


NO_ROWS: Rows = np.empty(0, np.int32)
NO_HITS = Hits(NO_ROWS, np.empty(0, np.float32))


class ColumnSource(Protocol):
    """Where a batch of candidates gets a column from (resident tables, derived transforms, the view)."""

    def column(self, name: str, batch: Candidates) -> Any:
        """The column `name` over `batch.rows`, or a scalar for `user.*` and `context.*`."""


class Candidates:
    """Candidates of one request: rows i32[n], score f32[n], source u64[n] (a bit per channel), and columns.

    Columns are gathered when first asked for and kept with this batch; `take` keeps only what cannot be
    gathered again (source bits, channel columns and fetched ones), as an index into the batch they came with.
    """

    __slots__ = ("_base", "_bits", "_memo", "_position", "_sources", "rows", "score")

    def __init__(
        self,
        rows: Rows,
        score: F32,
        source: NDArray[np.uint64],
        base: Mapping[str, Column],
        sources: ColumnSource,
        position: Index | None = None,
    ) -> None:
        self.rows = rows
        self.score = score
        self._bits = source
        self._base = base
        self._position = position
        self._sources = sources
        self._memo: dict[str, Any] = {}

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, name: str) -> Any:
        """The column `name`: an array or Strings over this batch's rows, or a scalar of the request."""
        value = self._memo.get(name)
        if value is None:
            if name in self._base:
                own = self._base[name]
                value = own if self._position is None else _gathered(own, self._position)
            else:
                value = self._sources.column(name, self)
            self._memo[name] = value
        return value

    @property
    def source(self) -> NDArray[np.uint64]:
        """u64[n], a bit for each channel that returned the candidate."""
        return self._bits if self._position is None else self._bits.take(self._position)

    @property
    def columns(self) -> Mapping[str, Any]:
        """This batch as a mapping of columns, as an Expression wants it; gathers what is asked for."""
        return _ColumnsOf(self)

    def has(self, name: str) -> bool:
        """Whether the column came with the batch (a channel's column, or one fetched for a segment)."""
        return name in self._base

    def take(self, index: Index) -> Candidates:
        """The candidates at `index`, in that order. O(len(index)); other columns are gathered again."""
        position = index if self._position is None else self._position.take(index)
        return Candidates(
            self.rows.take(index), self.score.take(index), self._bits, self._base, self._sources, position
        )

    def without(self, rows: Rows) -> Candidates:
        """The candidates that are not among `rows`. O((n + m) log m)."""
        return self.take((~np.isin(self.rows, rows)).nonzero()[0]) if len(rows) else self

    def scored(self, score: F32) -> Candidates:
        """The same candidates with another score; gathered columns are shared."""
        other = Candidates(self.rows, score, self._bits, self._base, self._sources, self._position)
        other._memo = self._memo
        return other

    def with_columns(self, columns: Mapping[str, Column]) -> Candidates:
        """The same candidates with further columns over these rows (what a segment fetched)."""
        base = {name: self[name] for name in self._base}
        return Candidates(self.rows, self.score, self.source, {**base, **columns}, self._sources)


def _gathered(column: Column, position: Index) -> Column:
    if isinstance(column, Strings):
        return column.take(position)
    gathered: np.ndarray[Any, Any] = column.take(position, axis=0)
    return gathered


class _ColumnsOf(Mapping[str, Any]):
    __slots__ = ("_batch",)

    def __init__(self, batch: Candidates) -> None:
        self._batch = batch

    def __getitem__(self, name: str) -> Any:
        return self._batch[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._batch._base)

    def __len__(self) -> int:
        return len(self._batch._base)
