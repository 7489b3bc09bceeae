"""Running one step: pick its variant, call the component, check what it returned, apply its failure policy.

Synchronous and free of shared state: a segment's steps may run on the event loop or on the pool, and hand
their records back to the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any, cast

import numpy as np

from stages.arrays import best
from stages.errors import StepFailed
from stages.guard import (
    LEVEL,
    Record,
    check_hits,
    check_mask,
    check_order,
    check_scores,
    reason_of,
)
from stages.plan import Step, Variant
from stages.roles import Filter, Recaller, Reranker, Scorer
from stages.types import FULL, NO_HITS, Candidates, Hits, Mask, Quality, Rows, View
from stages.usual import Usual

SMALLER_MODEL = 3  # the ladder's level at which a scene's small model runs
_NEVER = float("inf")


@dataclass(slots=True)
class Watch:
    """What a debug request looks at: for each step the batch it saw (with its scores) and the one that left."""

    seen: list[tuple[str, Candidates, Candidates]] = field(default_factory=list)
    masks: dict[str, tuple[Candidates, Mask]] = field(default_factory=dict)
    hits: dict[str, tuple[Hits, int | None]] = field(default_factory=dict)


@dataclass(slots=True)
class Job:
    """One request's synchronous work: which variants run, on what, until when.

    `refused` holds the rows that filters have judged and dropped: the fill must not bring them back, where a filter may
    see less (no channel's columns) or can't judge and lets all pass. `quality` is what the load allows; the steps in
    `left_out` don't run at its level, and at least `least` candidates are ranked. `over`: why no step may start any
    more.
    """

    view: View
    size: int
    failed: frozenset[str]
    reasons: dict[str, str]
    deadline: float
    clock: Callable[[], float]
    watch: Watch | None
    items: int
    usual: Usual = field(default_factory=Usual)
    quality: Quality = FULL
    left_out: frozenset[str] = frozenset()
    least: int = 0
    over: str | None = None
    records: list[tuple[Record, Collection[str]]] = field(default_factory=list)
    refused: list[Rows] = field(default_factory=list)

    def failed_read(self, step: Step) -> str | None:
        """Why a column that the step needs could not be read, None when all could."""
        lost = step.needs & self.failed if self.failed else None
        return self.reasons[min(lost)] if lost else None

    def refuses(self, step: Step) -> str | None:
        """Why the step may not start: left out, no time left, or less than it usually takes; None when it may."""
        if step.name in self.left_out:
            return LEVEL
        if self.over is not None:
            return self.over
        if self.deadline == _NEVER:
            return None
        left = self.deadline - self.clock()
        if left <= 0:
            return "deadline"
        if step.cap is not None and step.cap < left:
            return None if self.usual.fits(step, step.cap) else "timeout"
        return None if self.usual.fits(step, left) else "deadline"

    def apart(self) -> Job:
        """The same for another thread: what it writes is its own until it is handed back with `join`."""
        return replace(self, records=[], refused=[], watch=None if self.watch is None else Watch())

    def join(self, other: Job) -> None:
        """Take what `other`, made by `apart`, has written."""
        self.records += other.records
        self.refused += other.refused
        if self.watch is not None and other.watch is not None:
            self.watch.seen += other.watch.seen
            self.watch.masks |= other.watch.masks


def recall_in_place(step: Step, job: Job) -> Hits:
    """Run a channel that does no I/O; record it."""
    started = perf_counter()
    hits, reason = NO_HITS, job.refuses(step) or job.failed_read(step)
    if reason is None:
        try:
            hits = check_hits(cast(Recaller, step.pick(job.view.params).component).recall(job.view), job.items)
        except Exception as error:  # noqa: BLE001 - a component may raise anything: the policy table answers for it
            reason = reason_of(step.name, error)
    return finish_recall(step, job, hits, reason, perf_counter() - started)


def finish_recall(step: Step, job: Job, hits: Hits, reason: str | None, seconds: float) -> Hits:
    """Record a channel's end; under `fail` a failure ends the request."""
    record = Record(step.name, seconds, None, len(hits.rows), reason)
    if reason is None and not len(hits.rows):
        record.missing = min((name for name in step.needs if _absent(name, job.view)), default=None)
    job.records.append((record, step.reads))
    _fail_if_told(step, reason)
    if job.watch is not None:
        job.watch.hits[step.name] = (hits, getattr(step.pick(job.view.params).component, "k", None))
    return hits


def _fail_if_told(step: Step, reason: str | None) -> None:
    if reason is not None and reason != LEVEL and step.on_fail == "fail":
        raise StepFailed(step.name, reason)


def _absent(name: str, view: View) -> bool:
    return name.startswith(("user.", "context.")) and name not in view.columns


def run_steps(steps: Sequence[Step], batch: Candidates, job: Job) -> Candidates:
    """Run a segment's steps back to back. Filters next to each other share one `take`."""
    position = 0
    while position < len(steps):
        end = position
        while end < len(steps) and steps[end].role == "filter":
            end += 1
        if end > position:
            batch = run_filters(steps[position:end], batch, job)
            position = end
        else:
            batch = _run_ordering(steps[position], batch, job)
            position += 1
    return batch


def run_filters(steps: Sequence[Step], batch: Candidates, job: Job) -> Candidates:
    """What passes all filters. A drop is counted for the first filter that drops the candidate."""
    n = len(batch)
    kept = np.ones(n, np.bool_)
    left = n
    for step in steps:
        started = perf_counter()
        applies = step.applies(job.view)
        mask, reason = _mask(step, batch, job) if applies else (np.ones(n, np.bool_), None)
        if job.watch is not None:
            job.watch.masks[step.name] = (batch, mask)
        kept &= mask
        if reason is None and not mask.all():
            job.refused.append(batch.rows[~mask])
        now_left = int(np.count_nonzero(kept))
        record = Record(step.name, perf_counter() - started, left, now_left, reason)
        job.records.append((record, step.reads if applies else step.passed_over(job.view)))
        left = now_left
    out = batch if left == n else batch.take(np.flatnonzero(kept))
    if job.watch is not None:
        job.watch.seen.append(("filters", batch, out))
    return out


def _mask(step: Step, batch: Candidates, job: Job) -> tuple[Mask, str | None]:
    reason = job.failed_read(step) or job.refuses(step)
    if reason is None:
        try:
            component = cast(Filter, step.pick(job.view.params).component)
            return check_mask(component.keep(job.view, batch), len(batch)), None
        except Exception as error:  # noqa: BLE001 - a component may raise anything: the policy table answers for it
            reason = reason_of(step.name, error)
    _fail_if_told(step, reason)
    return np.full(len(batch), step.on_fail == "open"), reason


def _run_ordering(step: Step, batch: Candidates, job: Job) -> Candidates:
    started = perf_counter()
    if step.role == "rank" and job.quality.level:
        step, batch = _cheaper(step, batch, job)
    variant = step.pick(job.view.params)
    scored, out, reason = batch, batch, None
    ran = len(batch) > 0 and step.applies(job.view)
    if ran:
        reason = job.refuses(step)
        if reason is None:
            try:
                scored, out = _ordered(variant, batch, job)
            except Exception as error:  # noqa: BLE001 - a component may raise anything: the policy table answers for it
                reason = reason_of(step.name, error)
        _fail_if_told(step, reason)
    if variant.keep is not None and len(out) > variant.keep:
        out = out.take(np.arange(variant.keep))
        ran = True  # what it keeps may be the parameter, so this counts as reading it
    record = Record(step.name, perf_counter() - started, len(batch), len(out), reason)
    job.records.append((record, step.reads if ran else step.passed_over(job.view) if len(batch) else ()))
    if job.watch is not None:
        job.watch.seen.append((step.name, scored, out))
    return out


def _cheaper(step: Step, batch: Candidates, job: Job) -> tuple[Step, Candidates]:
    """The ranker that the level allows, and how many of the best candidates it gets."""
    least = max(job.least, job.size)
    if len(batch) > least:
        batch = batch.take(np.arange(least + round(job.quality.share * (len(batch) - least))))
    if job.quality.level == SMALLER_MODEL and step.small is not None:
        return step.small, batch
    return step, batch


def _ordered(variant: Variant, batch: Candidates, job: Job) -> tuple[Candidates, Candidates]:
    """The batch with the step's own scores, and the same in its new order."""
    component: Any = variant.component
    n = len(batch)
    if isinstance(component, Scorer):
        scores = check_scores(component.score(job.view, batch), n)
        keep = n if variant.keep is None else variant.keep
        scored = batch.scored(scores)
        return scored, scored.take(best(scores, keep))
    reranker = cast(Reranker, component)
    return batch, batch.take(check_order(reranker.order(job.view, batch, job.size), n))
