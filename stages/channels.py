"""Running a request's channels side by side, each inside its own time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import cast

from stages.abandoned import Abandoned
from stages.guard import check_hits, reason_of
from stages.plan import Step
from stages.roles import Recaller
from stages.steps import Job, finish_recall, recall_in_place
from stages.types import NO_HITS, Hits

WAIT_SHARE = 0.5  # of what is left, for the user and for a channel without a cap: the steps after it need the rest


async def recall(steps: Sequence[Step], job: Job, abandoned: Abandoned) -> list[Hits]:
    """All channels. Those that wait start first, so that their I/O overlaps the in-memory ones."""
    chosen = [step for step in steps if step.applies(job.view)]
    starts = [s for s in chosen if s.waits and _may_start(s, job)]
    waiting = {s.name: asyncio.create_task(_timed(s, job)) for s in starts}
    found: dict[str, Hits] = {}
    try:
        if waiting:
            await asyncio.sleep(0)  # a task starts when the loop turns: its I/O leaves before the work in place
        for step in chosen:
            if step.name not in waiting:
                found[step.name] = recall_in_place(step, job)
        await _collect(chosen, waiting, job, found)
    finally:
        for task in waiting.values():
            abandoned.task(task)  # a late channel has no effect afterwards
    return [found.get(step.name, NO_HITS) for step in steps]


def _may_start(step: Step, job: Job) -> bool:
    """Whether a channel that waits may start: it has a time of its own, so what it usually takes doesn't count."""
    late = job.over is not None or job.clock() >= job.deadline
    return not late and step.name not in job.left_out and not job.failed_read(step)


async def _collect(
    steps: Sequence[Step],
    waiting: Mapping[str, asyncio.Task[tuple[Hits, float]]],
    job: Job,
    found: dict[str, Hits],
) -> None:
    started = job.clock()
    usual = WAIT_SHARE * (job.deadline - started)
    for step in steps:
        task = waiting.get(step.name)
        if task is None:
            continue
        ends = min(job.deadline, started + (usual if step.cap is None else step.cap))
        await asyncio.wait([task], timeout=max(ends - job.clock(), 0.0))
        found[step.name] = _outcome_of(step, task, job, job.clock() - started)


def _outcome_of(step: Step, task: asyncio.Task[tuple[Hits, float]], job: Job, waited: float) -> Hits:
    if not task.done():
        return finish_recall(step, job, NO_HITS, "timeout", waited)
    error = asyncio.CancelledError() if task.cancelled() else task.exception()
    if error is not None:
        return finish_recall(step, job, NO_HITS, reason_of(step.name, error), waited)
    hits, seconds = task.result()
    return finish_recall(step, job, hits, None, seconds)


async def _timed(step: Step, job: Job) -> tuple[Hits, float]:
    started = perf_counter()
    component = cast(Recaller, step.pick(job.view.params).component)
    return check_hits(await component.recall(job.view), job.items), perf_counter() - started
