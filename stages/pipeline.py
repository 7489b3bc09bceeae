"""One request, top to bottom: read the user, recall, merge, run the segments, fill, answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, Protocol, cast

import numpy as np

from features.reader import UserColumns
from stages.columns import Columns, Derived, concatenated
from stages.errors import StepFailed
from stages.explain import trace_of
from stages.guard import Outcome, Record, check_hits, reason_of, store_reason
from stages.merge import merge
from stages.plan import ScenePlan, Segment, Step
from stages.steps import Job, Watch, finish_recall, recall_in_place, run_filters, run_steps
from stages.types import (
    NO_HITS,
    Answer,
    Candidates,
    Column,
    Hits,
    Recaller,
    Request,
    Rows,
    Scalar,
    View,
)

IN_PLACE_MS = 2.0  # models that usually take longer go to the pool (evidence: a hop costs about a tenth of that)
FILL_RESERVE = 0.1  # share of the budget held back for fill and encoding
FALLBACK = "fallback"
_NO_ROWS: Rows = np.empty(0, np.int32)


class UserReader(Protocol):
    """Reads everything that scenes need of a user, in one round trip."""

    async def read(self, user_id: str | None, *, timeout: float) -> UserColumns:
        """Never raises for an outage: what could not be read stands in `failed`."""


class ItemFetcher(Protocol):
    """Reads live item columns, one round trip for a view."""

    async def fetch(self, view: str, names: Sequence[str], rows: Rows, *, timeout: float) -> Mapping[str, Column]:
        """The columns `names` over `rows`. Raises StoreError."""

    def absent(self, names: Sequence[str], n: int) -> Mapping[str, Column]:
        """The same columns when nothing could be read: defaults, else missing."""


class ItemIds(Protocol):
    """The release's item table."""

    def __len__(self) -> int:
        """How many items the release has."""

    def rows(self, ids: Sequence[str]) -> Rows:
        """Rows, -1 for unknown ids."""

    def ids(self, rows: Rows) -> list[str]:
        """Ids of rows."""


@dataclass(frozen=True, slots=True)
class Release:
    """What the funnel uses of the pinned release."""

    version: str
    as_of: float
    items: ItemIds
    resident: Mapping[str, Column]
    derived: Mapping[str, Derived]


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The engine of one snapshot. Every request is answered from this one release and configuration."""

    config: str
    release: Release
    user_reader: UserReader
    item_fetcher: ItemFetcher
    pool: Executor
    clock: Callable[[], float]

    async def recommend(
        self, plan: ScenePlan, request: Request, params: Mapping[str, Scalar], buckets: dict[str, str]
    ) -> tuple[Answer, Outcome]:
        """Answer a request of `plan`'s scene. StepFailed when a step with `on_fail: fail` failed."""
        outcome = Outcome()
        deadline = request.deadline - FILL_RESERVE * plan.budget
        job = await self._start(request, params, deadline, outcome)
        batch = await self._candidates(plan, job, outcome)
        for segment in plan.segments:
            batch = await self._run(segment, batch, job, outcome)
        listed, short = self._fill(plan, batch, job)
        self._flush(job, outcome)
        outcome.sealed = True
        return self._answer(plan, job, listed, short, buckets, outcome), outcome

    async def _start(
        self,
        request: Request,
        params: Mapping[str, Scalar],
        deadline: float,
        outcome: Outcome,
    ) -> Job:
        started = perf_counter()
        read = await self.user_reader.read(request.user_id, timeout=deadline - self.clock())
        failed = {name: store_reason(reason) for name, reason in read.failed.items()}
        reason = next(iter(failed.values()), None)
        outcome.add(Record("features.user", perf_counter() - started, None, len(read.columns), reason))
        columns = {**read.columns, **{f"context.{name}": value for name, value in request.context.items()}}
        history = read.columns.get("user.history")
        newest = float(history.ts[-1]) if history is not None and len(history) else 0.0
        excluded = self.release.items.rows(request.exclude) if request.exclude else _NO_ROWS
        view = View(request, params, columns, max(self.release.as_of, newest), excluded)
        watch = Watch() if request.debug else None
        return Job(view, request.size, frozenset(failed), failed, deadline, self.clock, watch, len(self.release.items))

    async def _candidates(self, plan: ScenePlan, job: Job, outcome: Outcome) -> Candidates:
        sources = Columns(job.view, self.release.resident, self.release.derived)
        given = job.view.request.candidates
        if given is not None:
            rows = self.release.items.rows(given)
            rows = rows[rows >= 0]
            rows = rows[np.sort(np.unique(rows, return_index=True)[1])]
            n = len(rows)
            outcome.add(Record("candidates", 0.0, len(given), n))
            return Candidates(rows, np.zeros(n, np.float32), np.zeros(n, np.uint64), {}, sources)
        for step in plan.recall:
            if not step.applies(job.view):
                outcome.reads |= step.passed_over(job.view)
        hits = await self._recall(plan.recall, job)
        self._flush(job, outcome)
        started = perf_counter()
        batch = merge(hits, plan.channels, sources, limit=plan.limit, at_least=plan.at_least)
        total = sum(len(h.rows) for h in hits)
        outcome.add(Record("merge", perf_counter() - started, total, len(batch)))
        return batch

    async def _recall(self, steps: Sequence[Step], job: Job) -> list[Hits]:
        """All channels. Those that wait start first, so that their I/O overlaps the in-memory ones."""
        chosen = [step for step in steps if step.applies(job.view)]
        starts = [] if self.clock() >= job.deadline else [s for s in chosen if s.waits and not job.failed_read(s)]
        waiting = {s.name: asyncio.create_task(_timed(s, job)) for s in starts}
        found: dict[str, Hits] = {}
        try:
            if waiting:
                await asyncio.sleep(0)  # a task starts when the loop turns: its I/O leaves before the work in place
            for step in chosen:
                if step.name not in waiting:
                    late = self.clock() >= job.deadline
                    found[step.name] = (
                        finish_recall(step, job, NO_HITS, "deadline", 0.0) if late else recall_in_place(step, job)
                    )
            await self._collect(chosen, waiting, job, found)
        finally:
            for task in waiting.values():
                task.cancel()  # a late channel has no effect afterwards
        return [found.get(step.name, NO_HITS) for step in steps]

    async def _collect(
        self,
        steps: Sequence[Step],
        waiting: Mapping[str, asyncio.Task[tuple[Hits, float]]],
        job: Job,
        found: dict[str, Hits],
    ) -> None:
        started = self.clock()
        for step in steps:
            task = waiting.get(step.name)
            if task is None:
                continue
            ends = job.deadline if step.cap is None else min(job.deadline, started + step.cap)
            await asyncio.wait([task], timeout=max(ends - self.clock(), 0.0))
            found[step.name] = self._outcome_of(step, task, job, self.clock() - started)

    @staticmethod
    def _outcome_of(step: Step, task: asyncio.Task[tuple[Hits, float]], job: Job, waited: float) -> Hits:
        if not task.done():
            return finish_recall(step, job, NO_HITS, "timeout", waited)
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if error is not None:
            return finish_recall(step, job, NO_HITS, reason_of(step.name, error), waited)
        hits, seconds = task.result()
        return finish_recall(step, job, hits, None, seconds)

    async def _run(self, segment: Segment, batch: Candidates, job: Job, outcome: Outcome) -> Candidates:
        if segment.fetch:
            batch = await self._fetch(segment, batch, job, outcome)
        if segment.cost_ms <= IN_PLACE_MS:
            batch = run_steps(segment.steps, batch, job)
        else:
            asked = perf_counter()
            loop = asyncio.get_running_loop()
            batch, queued = await loop.run_in_executor(self.pool, _on_pool, segment.steps, batch, job, asked)
            if job.records:
                job.records[0][0].queued = queued
        self._flush(job, outcome)
        return batch

    async def _fetch(self, segment: Segment, batch: Candidates, job: Job, outcome: Outcome) -> Candidates:
        columns: dict[str, Column] = {}
        for view, names in segment.fetch.items():
            started, reason = perf_counter(), None
            try:
                left = job.deadline - self.clock()
                columns.update(await self.item_fetcher.fetch(view, names, batch.rows, timeout=left))
            except Exception as error:  # noqa: BLE001 - classified and named in the answer; the steps then see missing values
                reason = reason_of(f"features.{view}", error)
                columns.update(self.item_fetcher.absent(names, len(batch)))
                job.failed |= frozenset(names)
                job.reasons.update(dict.fromkeys(names, reason))
            outcome.add(Record(f"features.{view}", perf_counter() - started, len(batch), len(batch), reason))
        return batch.with_columns(columns)

    def _fill(self, plan: ScenePlan, batch: Candidates, job: Job) -> tuple[Candidates, str | None]:
        """The first `size` candidates; when there are fewer, items of the fallback list that pass the filters."""
        size = job.size
        if len(batch) >= size:
            return batch.take(np.arange(size)), None
        if job.view.request.candidates is not None:
            return batch, "candidates_exhausted"
        started = perf_counter()
        extra = self._fallback(plan, batch, job)
        rows = np.concatenate([batch.rows, extra])
        carried = self._carried(batch, plan, len(extra))
        filler = np.uint64(1 << len(plan.channels))
        listed = Candidates(
            rows,
            np.concatenate([batch.score, np.zeros(len(extra), np.float32)]),
            np.concatenate([batch.source, np.full(len(extra), filler)]),
            carried,
            Columns(job.view, self.release.resident, self.release.derived),
        )
        job.records.append((Record("fill", perf_counter() - started, len(batch), len(listed)), ()))
        return listed, None if len(listed) >= size else "catalogue_exhausted"

    def _carried(self, batch: Candidates, plan: ScenePlan, extra: int) -> dict[str, Column]:
        """Fetched columns (what the answer returns may be derived from them), absent for items not fetched."""
        names = sorted(plan.live)
        absent = self.item_fetcher.absent(names, extra)
        return {name: concatenated(batch[name], absent[name]) for name in names}

    def _fallback(self, plan: ScenePlan, batch: Candidates, job: Job) -> Rows:
        if plan.fallback is None:
            return _NO_ROWS
        name = None if plan.group is None else job.view.get(plan.group)
        group = -1 if name is None else plan.fallback.group(str(name))
        if group < 0:
            group = max(plan.fallback.group("all"), 0)
        rows, _ = plan.fallback.slice(group)
        rows = rows[~np.isin(rows, batch.rows)]
        memory = replace(job, failed=job.failed | plan.live, deadline=float("inf"), watch=None, records=[])
        memory.reasons = {**dict.fromkeys(plan.live, "not_fetched"), **job.reasons}
        n = len(rows)
        sources = Columns(job.view, self.release.resident, self.release.derived)
        offered = Candidates(rows, np.zeros(n, np.float32), np.zeros(n, np.uint64), {}, sources)
        try:
            return run_filters(plan.filters, offered, memory).rows[: job.size - len(batch)]
        except StepFailed:
            return _NO_ROWS  # a filter that must not fail can't vouch for these; the answer stands without them

    @staticmethod
    def _flush(job: Job, outcome: Outcome) -> None:
        for record, reads in job.records:
            outcome.add(record, reads)
        job.records.clear()

    def _answer(
        self,
        plan: ScenePlan,
        job: Job,
        batch: Candidates,
        short: str | None,
        buckets: dict[str, str],
        outcome: Outcome,
    ) -> Answer:
        request = job.view.request
        ids = self.release.items.ids(batch.rows)
        names = (*plan.channels, FALLBACK)
        known: dict[int, list[str]] = {}
        channels = []
        for source in batch.source.tolist():
            if source not in known:
                known[source] = [name for bit, name in enumerate(names) if source >> bit & 1]
            channels.append(known[source])
        return Answer(
            request_id=request.request_id,
            scene=plan.name,
            config=self.config,
            release=self.release.version,
            ids=ids,
            scores=batch.score,
            channels=channels,
            fields={name.split(".", 1)[1]: _plain(batch[name]) for name in plan.returned},
            buckets=buckets,
            degraded=outcome.degraded,
            short=short,
            trace=trace_of(plan, self.release.items, job, batch, outcome) if job.watch is not None else None,
        )


async def _timed(step: Step, job: Job) -> tuple[Hits, float]:
    started = perf_counter()
    component = cast(Recaller, step.pick(job.view.params).component)
    return check_hits(await component.recall(job.view), job.items), perf_counter() - started


def _on_pool(steps: Sequence[Step], batch: Candidates, job: Job, asked: float) -> tuple[Candidates, float]:
    queued = perf_counter() - asked
    return run_steps(steps, batch, job), queued


def _plain(column: Any) -> list[Any]:
    if isinstance(column, np.ndarray):
        if column.dtype.kind != "f":
            return cast(list[Any], column.tolist())
        return [None if value != value else value for value in column.tolist()]
    return cast(list[Any], column.decode())
