"""Components for tests: each role as a plain function, async channels with a delay, and views without a release."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import numpy as np

from expression import Strings
from stages.columns import Columns
from stages.registry import component
from stages.roles import Filter, PreRanker, Recaller, Reranker, Scorer
from stages.scene import StepConfig
from stages.types import Candidates, Column, Hits, Index, Mask, Request, View


@component("fake_recall")
class FakeRecall(Recaller):
    """A channel in place."""

    run: Callable[[View], Any]
    reads: tuple[str, ...] = ()

    @property
    def needs(self) -> frozenset[str]:
        return frozenset(self.reads)

    def recall(self, view: View) -> Any:
        return self.run(view)


@component("fake_async")
class FakeAsync(Recaller):
    """A channel that waits."""

    run: Callable[[View], Awaitable[Any]]
    reads: tuple[str, ...] = ()

    @property
    def needs(self) -> frozenset[str]:
        return frozenset(self.reads)

    async def recall(self, view: View) -> Any:
        return await self.run(view)


@component("fake_filter")
class FakeFilter(Filter):
    run: Callable[[View, Candidates], Any]
    reads: tuple[str, ...] = ()

    @property
    def needs(self) -> frozenset[str]:
        return frozenset(self.reads)

    def keep(self, view: View, batch: Candidates) -> Mask:
        return self.run(view, batch)  # type: ignore[no-any-return]  # a fake may return what its role forbids


@component("fake_scorer")
class FakeScorer(Scorer):
    run: Callable[[View, Candidates], Any]
    reads: tuple[str, ...] = ()

    @property
    def needs(self) -> frozenset[str]:
        return frozenset(self.reads)

    def score(self, view: View, batch: Candidates) -> Any:
        return self.run(view, batch)


@component("fake_pre_ranker")
class FakePreRanker(PreRanker):
    run: Callable[[View, Candidates], Any]
    reads: tuple[str, ...] = ()

    @property
    def needs(self) -> frozenset[str]:
        return frozenset(self.reads)

    def score(self, view: View, batch: Candidates) -> Any:
        return self.run(view, batch)


@component("fake_reranker")
class FakeReranker(Reranker):
    run: Callable[[View, Candidates], Any]
    reads: tuple[str, ...] = ()

    @property
    def needs(self) -> frozenset[str]:
        return frozenset(self.reads)

    def order(self, view: View, batch: Candidates, size: int) -> Index:
        return self.run(view, batch)  # type: ignore[no-any-return]  # a fake may return what its role forbids


FAKES: Mapping[str, Any] = {
    "recall": FakeRecall,
    "filter": FakeFilter,
    "pre_rank": FakePreRanker,
    "rank": FakeScorer,
    "re_rank": FakeReranker,
}


def fake(
    role: str, run: Callable[..., Any], name: str = "fake", reads: Sequence[str] = (), **common: Any
) -> StepConfig:
    """A step of `role` that runs a plain function."""
    prefix = "filters" if role == "filter" else role
    return StepConfig(role, f"{prefix}.{name}", FAKES[role], {"run": run, "reads": tuple(reads)}, **common)  # type: ignore[arg-type]


def waiting(name: str, run: Callable[[View], Awaitable[Any]], reads: Sequence[str] = (), **common: Any) -> StepConfig:
    """A channel that awaits a plain async function."""
    return StepConfig("recall", f"recall.{name}", FakeAsync, {"run": run, "reads": tuple(reads)}, **common)


def delayed(name: str, seconds: float, *found: int, **common: Any) -> StepConfig:
    """A channel that finds rows after a delay."""

    async def run(view: View) -> Hits:
        await asyncio.sleep(seconds)
        return hits(*found)

    return waiting(name, run, **common)


def hits(*found: int, scores: Sequence[float] | None = None) -> Hits:
    """Hits on rows with falling scores."""
    given = np.linspace(1.0, 0.5, len(found)) if scores is None else scores
    return Hits(np.array(found, np.int32), np.asarray(given, np.float32))


def view_of(columns: Mapping[str, Any] | None = None, now: float = 0.0, excluded: Sequence[int] = ()) -> View:
    """What a component sees, without a pipeline."""
    request = Request(scene="home", user_id="u", size=10, request_id="q")
    return View(request, {}, dict(columns or {}), now, np.array(excluded, np.int32))


def batch_of(
    rows: Sequence[int],
    scores: Sequence[float] | None = None,
    resident: Mapping[str, Column] | None = None,
    view: View | None = None,
) -> Candidates:
    """Candidates over resident columns."""
    n = len(rows)
    score = np.linspace(1.0, 0.0, n, dtype=np.float32) if scores is None else np.asarray(scores, np.float32)
    sources = Columns(view or view_of(), resident or {}, {})
    return Candidates(np.asarray(rows, np.int32), score, np.zeros(n, np.uint64), {}, sources)


def texts(*values: str | None) -> Strings:
    """A string column."""
    return Strings.encode(list(values))
