"""What a debug request shows: time and counts per step, scores per stage, and why an item is not in the list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from stages.guard import Outcome
from stages.plan import ScenePlan
from stages.steps import Job
from stages.types import Candidates, Rows


class _Ids(Protocol):
    def rows(self, ids: Sequence[str]) -> Rows: ...
    def ids(self, rows: Rows) -> list[str]: ...


def trace_of(plan: ScenePlan, ids: _Ids, job: Job, listed: Candidates, outcome: Outcome) -> dict[str, Any]:
    """The `trace` of an answer."""
    return {
        "forced": dict(job.view.request.forced),
        "steps": [
            {
                "name": r.name,
                "ms": round(r.seconds * 1e3, 3),
                "queue_ms": round(r.queued * 1e3, 3),
                "in": r.n_in,
                "out": r.n_out,
                "drops": r.n_in - r.n_out if r.n_in is not None and r.name.startswith("filters.") else None,
                "reason": r.reason,
                "missing": r.missing,
            }
            for r in outcome.records
        ],
        "items": _scores(ids.ids(listed.rows), listed.rows, job),
        "why_not": [_why_not(plan, ids, wanted, job, listed) for wanted in job.view.request.why_not],
    }


def _scores(names: list[str], rows: Rows, job: Job) -> dict[str, dict[str, float]]:
    assert job.watch is not None
    scores: dict[str, dict[str, float]] = {name: {} for name in names}
    for step, (hits, _) in job.watch.hits.items():
        for name, row in zip(names, rows.tolist(), strict=True):
            at = np.flatnonzero(hits.rows == row)
            if len(at):
                scores[name][step] = float(hits.scores[at[0]])
    for step, _, after in job.watch.seen:
        for name, row in zip(names, rows.tolist(), strict=True):
            at = np.flatnonzero(after.rows == row)
            if len(at):
                scores[name][step] = float(after.score[at[0]])
    return scores


def _why_not(plan: ScenePlan, ids: _Ids, wanted: str, job: Job, listed: Candidates) -> dict[str, Any]:
    assert job.watch is not None
    row = int(ids.rows([wanted])[0])
    if row < 0:
        return _because(wanted, "item_table", "the release doesn't know this id")
    at = _place(listed, row)
    if at is not None:
        return _because(wanted, None, "it is in the list", rank=at + 1)
    if not job.watch.seen or _place(job.watch.seen[0][1], row) is None:
        return _not_recalled(plan, wanted, row, job)
    for step, before, after in job.watch.seen:
        if _place(after, row) is None:
            if step == "filters":
                name = _dropping_filter(job, row)
                return _because(wanted, name, "the filter dropped it")
            return _cut(wanted, step, before, after, row)
    last = job.watch.seen[-1][2]
    rank = _place(last, row)
    return _because(
        wanted,
        "answer",
        "it ranked below the size of the answer",
        rank=None if rank is None else rank + 1,
        cut=job.size,
    )


def _not_recalled(plan: ScenePlan, wanted: str, row: int, job: Job) -> dict[str, Any]:
    assert job.watch is not None
    if job.view.request.candidates is not None:
        return _because(wanted, "candidates", "it is not among the given candidates")
    for hits, _ in job.watch.hits.values():
        if (hits.rows == row).any():
            return _because(wanted, "merge", "the channels' limit cut it off", cut=plan.limit)
    cuts = [f"{name.removeprefix('recall.')} gave {len(hits.rows)}" for name, (hits, _) in job.watch.hits.items()]
    return _because(wanted, "recall", f"no channel returned it ({', '.join(cuts)})")


def _dropping_filter(job: Job, row: int) -> str:
    assert job.watch is not None
    for name, (batch, mask) in job.watch.masks.items():
        at = _place(batch, row)
        if at is not None and not mask[at]:
            return name
    return "filters"


def _cut(wanted: str, step: str, before: Candidates, after: Candidates, row: int) -> dict[str, Any]:
    """The step kept fewer than it got: the rank that the item has by the step's own scores."""
    at = _place(before, row)
    rank = None if at is None else int((before.score > before.score[at]).sum()) + 1
    return _because(wanted, step, "it ranked below what the step keeps", rank=rank, cut=len(after))


def _place(batch: Candidates, row: int) -> int | None:
    at = np.flatnonzero(batch.rows == row)
    return int(at[0]) if len(at) else None


def _because(
    wanted: str, step: str | None, reason: str, rank: int | None = None, cut: int | None = None
) -> dict[str, Any]:
    return {"id": wanted, "step": step, "reason": reason, "rank": rank, "cut": cut}
