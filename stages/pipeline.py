"""One request, top to bottom: read the user, recall, merge, run the segments, fill, answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter
from typing import Any, cast

import numpy as np

from features.reader import UserColumns
from stages.abandoned import Abandoned
from stages.channels import WAIT_SHARE, recall
from stages.columns import Columns
from stages.explain import trace_of
from stages.fill import FALLBACK, fill
from stages.guard import Outcome, Record, reason_of, store_reason
from stages.merge import merge
from stages.plan import ScenePlan, Segment, Step
from stages.release import ItemFetcher, Release, UserReader
from stages.steps import Job, Watch, run_steps
from stages.types import F32, FULL, NO_ROWS, Answer, Candidates, Quality, Request, Scalar, View
from stages.usual import Usual

IN_PLACE_MS = 2.0  # models that take longer go to the pool (evidence: a hop costs about a tenth of that)
FILL_RESERVE = 0.1  # share of a request's time held back for fill and encoding


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The engine of one snapshot. Every request is answered from this one release and configuration.

    `threads` is how many jobs the pool runs at once. `usual` learns what this snapshot's steps take.
    """

    config: str
    release: Release
    user_reader: UserReader
    item_fetcher: ItemFetcher
    pool: Executor
    clock: Callable[[], float]
    threads: int = 1
    abandoned: Abandoned = field(default_factory=Abandoned)
    usual: Usual = field(default_factory=Usual)

    async def recommend(
        self,
        plan: ScenePlan,
        request: Request,
        params: Mapping[str, Scalar],
        buckets: dict[str, str],
        quality: Quality = FULL,
    ) -> tuple[Answer, Outcome]:
        """Answer a request of `plan`'s scene. StepFailed when a step with `on_fail: fail` failed."""
        outcome = Outcome()
        job = await self._start(plan, request, params, quality, outcome)
        batch = await self._candidates(plan, job, outcome)
        if not plan.excludes:
            batch = batch.without(job.view.excluded)
        for segment in plan.segments:
            batch = await self._run(segment, batch, job, outcome)
        listed, short = fill(plan, batch, job, self.release, self.item_fetcher)
        self._flush(job, outcome)
        outcome.sealed = True
        return self._answer(plan, job, listed, short, buckets, outcome), outcome

    async def _start(
        self,
        plan: ScenePlan,
        request: Request,
        params: Mapping[str, Scalar],
        quality: Quality,
        outcome: Outcome,
    ) -> Job:
        started = perf_counter()
        deadline = request.deadline - FILL_RESERVE * (request.deadline - request.arrived)
        left = deadline - self.clock()
        read, reason = await self._user(request.user_id, WAIT_SHARE * left)
        failed = {name: store_reason(why) if left > 0 else "deadline" for name, why in read.failed.items()}
        reason = reason or next(iter(failed.values()), None)
        outcome.add(Record("features.user", perf_counter() - started, None, len(read.columns), reason))
        columns = {**read.columns, **{f"context.{name}": value for name, value in request.context.items()}}
        history = read.columns.get("user.history")
        newest = float(history.ts[-1]) if history is not None and len(history) else 0.0
        excluded = self.release.items.rows(request.exclude) if request.exclude else NO_ROWS
        view = View(request, params, columns, max(self.release.as_of, newest), excluded)
        watch = Watch() if request.debug else None
        return Job(
            view,
            request.size,
            frozenset(failed),
            failed,
            deadline,
            self.clock,
            watch,
            len(self.release.items),
            self.usual,
            quality,
            plan.left_out[quality.level],
            plan.least,
        )

    async def _user(self, user_id: str | None, timeout: float) -> tuple[UserColumns, str | None]:
        """The user's columns; a bug of ours on the way leaves none, and a reason."""
        try:
            return await self.user_reader.read(user_id, timeout=timeout), None
        except Exception as error:  # noqa: BLE001 - logged and counted as a bug; the answer goes on without the user
            return UserColumns({}, {}), reason_of("features.user", error)

    async def _candidates(self, plan: ScenePlan, job: Job, outcome: Outcome) -> Candidates:
        sources = Columns(job.view, self.release.resident, self.release.derived)
        given = job.view.request.candidates
        if given is not None:
            rows = self.release.items.rows(given)
            rows = rows[rows >= 0]
            rows = rows[np.sort(np.unique(rows, return_index=True)[1])]
            n = len(rows)
            unknown = "item_id" if n < len(set(given)) else None
            outcome.add(Record("candidates", 0.0, len(given), n, missing=unknown))
            return Candidates(rows, np.zeros(n, np.float32), np.zeros(n, np.uint64), {}, sources)
        for step in plan.recall:
            if not step.applies(job.view):
                outcome.reads |= step.passed_over(job.view)
        hits = await recall(plan.recall, job, self.abandoned)
        self._flush(job, outcome)
        started = perf_counter()
        batch = merge(hits, plan.channels, sources, limit=plan.limit, at_least=plan.at_least)
        total = sum(len(h.rows) for h in hits)
        outcome.add(Record("merge", perf_counter() - started, total, len(batch)))
        return batch

    async def _run(self, segment: Segment, batch: Candidates, job: Job, outcome: Outcome) -> Candidates:
        if segment.fetch:
            batch = await self._fetch(segment, batch, job, outcome)
        first = next((at for at, step in enumerate(segment.steps) if self._is_slow(step)), len(segment.steps))
        batch = run_steps(segment.steps[:first], batch, job)
        if first < len(segment.steps):
            batch = await self._pooled(segment.steps[first:], batch, job)
        self._flush(job, outcome)
        return batch

    def _is_slow(self, step: Step) -> bool:
        return step.cost_ms > IN_PLACE_MS or self.usual.slow(step)

    async def _pooled(self, steps: Sequence[Step], batch: Candidates, job: Job) -> Candidates:
        """Run steps on the pool, until the deadline: then they are given up, and answered by their policies."""
        if self.abandoned.jobs >= self.threads:
            return run_steps(steps, batch, replace(job, over="timeout"))  # nothing would ever start
        apart = job.apart()
        future = self.pool.submit(_on_pool, steps, batch, apart, perf_counter())
        waiting = asyncio.wrap_future(future)
        try:
            await asyncio.wait((waiting,), timeout=max(job.deadline - self.clock(), 0.0))
        finally:
            self.abandoned.job(future)
        if not waiting.done():
            waiting.add_done_callback(partial(_learn, self.usual, apart))
            return run_steps(steps, batch, replace(job, over="timeout"))
        batch, queued = waiting.result()
        if apart.records:
            apart.records[0][0].queued = queued
        job.join(apart)
        return batch

    async def _fetch(self, segment: Segment, batch: Candidates, job: Job, outcome: Outcome) -> Candidates:
        """The segment's live columns, all views in one round trip; an outage leaves defaults and is named."""
        started, reason = perf_counter(), None
        name = f"features.{'+'.join(segment.fetch)}"
        try:
            left = job.deadline - self.clock()
            columns = await self.item_fetcher.fetch(segment.fetch, batch.rows, timeout=left)
        except Exception as error:  # noqa: BLE001 - classified and named in the answer; steps then see what is left
            reason = reason_of(name, error)
            names = [column for columns in segment.fetch.values() for column in columns]
            columns = self.item_fetcher.absent(names, len(batch))
            job.failed |= frozenset(names)
            job.reasons.update(dict.fromkeys(names, reason))
        outcome.add(Record(name, perf_counter() - started, len(batch), len(batch), reason))
        return batch.with_columns(columns)

    def _flush(self, job: Job, outcome: Outcome) -> None:
        for record, reads in job.records:
            outcome.add(record, reads)
            if record.reason is None:
                self.usual.saw(record.name, record.seconds)
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
            level=job.quality.level,
            trace=trace_of(plan, self.release.items, job, batch, outcome) if job.watch is not None else None,
        )


def _on_pool(steps: Sequence[Step], batch: Candidates, job: Job, asked: float) -> tuple[Candidates, float]:
    queued = perf_counter() - asked
    return run_steps(steps, batch, job), queued


def _learn(usual: Usual, job: Job, ended: asyncio.Future[tuple[Candidates, float]]) -> None:
    """Take what steps took that nobody waited for: from then on they are known to be slow."""
    if ended.cancelled():
        return
    ended.exception()  # seen; its step was answered long ago
    for record, _ in job.records:
        if record.reason is None:
            usual.saw(record.name, record.seconds)


def _plain(column: Any) -> list[Any] | F32:
    if isinstance(column, np.ndarray):
        if column.dtype.kind != "f":
            return cast(list[Any], column.tolist())
        if column.dtype == np.float32 and column.ndim == 1:
            return column  # the edge writes these as short as f32 needs
        return [None if value != value else value for value in column.tolist()]
    return cast(list[Any], column.decode())
