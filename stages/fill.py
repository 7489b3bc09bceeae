"""The last rung: fill an answer from a list in memory, through the scene's filters."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter

import numpy as np

from stages.columns import Columns, concatenated
from stages.errors import StepFailed
from stages.guard import Record
from stages.plan import ScenePlan
from stages.release import ItemFetcher, Release
from stages.steps import Job, run_filters
from stages.types import NO_ROWS, Candidates, Column, Rows

FALLBACK = "fallback"  # the channel that filled items are said to come from


def fill(
    plan: ScenePlan, batch: Candidates, job: Job, release: Release, fetcher: ItemFetcher
) -> tuple[Candidates, str | None]:
    """The first `size` candidates; when there are fewer, items of the fallback list that pass the filters."""
    size = job.size
    if len(batch) >= size:
        return batch.take(np.arange(size)), None
    if job.view.request.candidates is not None:
        return batch, "candidates_exhausted"
    started = perf_counter()
    extra = _fallback(plan, batch, job, release)
    rows = np.concatenate([batch.rows, extra])
    carried = _carried(batch, plan, len(extra), fetcher)
    filler = np.uint64(1 << len(plan.channels))
    listed = Candidates(
        rows,
        np.concatenate([batch.score, np.zeros(len(extra), np.float32)]),
        np.concatenate([batch.source, np.full(len(extra), filler)]),
        carried,
        Columns(job.view, release.resident, release.derived),
    )
    job.records.append((Record("fill", perf_counter() - started, len(batch), len(listed)), ()))
    return listed, None if len(listed) >= size else "catalogue_exhausted"


def _carried(batch: Candidates, plan: ScenePlan, extra: int, fetcher: ItemFetcher) -> dict[str, Column]:
    """Fetched columns (what the answer returns may be derived from them), absent for items not fetched."""
    names = sorted(plan.live)
    absent = fetcher.absent(names, extra)
    return {name: concatenated(batch[name], absent[name]) for name in names}


def _fallback(plan: ScenePlan, batch: Candidates, job: Job, release: Release) -> Rows:
    if plan.fallback is None:
        return NO_ROWS
    name = None if plan.group is None else job.view.get(plan.group)
    group = -1 if name is None else plan.fallback.group(str(name))
    if group < 0:
        group = max(plan.fallback.group("all"), 0)
    rows, _ = plan.fallback.slice(group)
    rows = rows[~np.isin(rows, np.concatenate([batch.rows, job.view.excluded, *job.refused]))]
    memory = replace(
        job, failed=job.failed | plan.live, deadline=float("inf"), over=None, watch=None, records=[], refused=[]
    )
    memory.reasons = {**dict.fromkeys(plan.live, "not_fetched"), **job.reasons}
    n = len(rows)
    sources = Columns(job.view, release.resident, release.derived)
    offered = Candidates(rows, np.zeros(n, np.float32), np.zeros(n, np.uint64), {}, sources)
    try:
        return run_filters(plan.filters, offered, memory).rows[: job.size - len(batch)]
    except StepFailed:
        return NO_ROWS  # a filter that must not fail can't vouch for these; the answer stands without them
