"""A rehearsal before serving: each scene runs once for a user with a history and once for nobody.

A type error in a setting, a column of the wrong kind, a component without its method: what would fail for every
request is refused while the old snapshot still serves. Channels that wait are left out, their I/O is not ours.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any

import numpy as np

from abtest import Experiments
from features.history import History
from features.item_table import IdTable
from features.reader import HISTORY, Recent, UserColumns
from features.resident import ResidentUsers
from stages.errors import StepFailed
from stages.pipeline import Pipeline
from stages.plan import ScenePlan
from stages.types import Request, Scalar
from stages.usual import Usual

WRONG = ("error", "invalid_output")
EVENTS = 5
SIZE = 20
DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """Stands in for the user reader: the first user of the release, who lately had the first items; or nobody."""

    items: IdTable
    users: ResidentUsers
    recent: Recent | None
    as_of: float

    async def read(self, user_id: str | None, *, timeout: float) -> UserColumns:
        """Resident columns and a short history; nothing from the store."""
        if user_id is None:
            return UserColumns({}, {})
        columns: dict[str, Any] = dict(self.users.values(user_id))
        n = min(EVENTS, len(self.items))
        if self.recent is not None and n:
            rows = np.arange(n, dtype=np.int32)
            ts = np.asarray(self.as_of - DAY * np.arange(n, 0, -1), np.float64)
            history = History(rows, np.zeros(n, np.uint64), ts, np.zeros(n, np.uint16), np.ones(n, np.float32))
            columns |= {HISTORY: history, self.recent.column: history.last(self.recent.last)}
        return UserColumns(columns, {})


def rehearse(
    plans: Mapping[str, ScenePlan], pipeline: Pipeline, user: Rehearsed, experiments: Experiments
) -> list[str]:
    """What fails in any scene, as `scene: step (reason)`; its traceback is in the log. Blocking, no loop may run."""
    rehearsing = replace(pipeline, user_reader=user, item_fetcher=_Absent(pipeline), usual=Usual())
    known = user.users.ids.ids(np.zeros(1, np.int32)) if len(user.users.ids) else []
    found: dict[str, None] = {}
    for plan in plans.values():
        settled = replace(plan, recall=tuple(step for step in plan.recall if not step.waits))
        for params in _choices(settled, experiments):
            for user_id in (*known, None):
                for step, reason in asyncio.run(_run(rehearsing, settled, params, user_id)):
                    if reason in WRONG:
                        found[f"{plan.name}: {step} fails for every such request ({reason})"] = None
    return list(found)


async def _run(
    pipeline: Pipeline, plan: ScenePlan, params: Mapping[str, Scalar], user_id: str | None
) -> list[tuple[str, str]]:
    now = monotonic()
    request = Request(plan.name, user_id, SIZE, "rehearsal", arrived=now, deadline=now + 60.0 + plan.budget)
    try:
        answer, _ = await pipeline.recommend(plan, request, params, {})
    except StepFailed as failure:
        return [(failure.step, failure.reason)]
    return answer.degraded


def _choices(plan: ScenePlan, experiments: Experiments) -> Iterator[dict[str, Scalar]]:
    """The defaults, then each other value that the configuration names, one at a time."""
    read = {name for step in plan.steps for name in step.reads}
    usual = {name: experiments.values_of(name)[0] for name in read}
    yield usual
    for name in sorted(read):
        for value in experiments.values_of(name)[1:]:
            yield {**usual, name: value}


class _Absent:
    """Live columns as an outage leaves them."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._fetcher = pipeline.item_fetcher

    async def fetch(self, wanted: Mapping[str, Sequence[str]], rows: Any, *, timeout: float) -> Mapping[str, Any]:
        return self._fetcher.absent([name for names in wanted.values() for name in names], len(rows))

    def absent(self, names: Sequence[str], n: int) -> Mapping[str, Any]:
        return self._fetcher.absent(names, n)
