"""A rehearsal before serving: each scene runs once for a user with a history and once for nobody.

A type error in a setting, a column of the wrong kind, a component without its method: what would fail for every
request is refused while the old snapshot still serves. Channels that wait are left out, their I/O is not ours.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from abtest import Experiments
from app.config.model import Config
from app.config.problems import Problem
from features.history import History
from features.item_table import IdTable
from features.reader import HISTORY, Recent, UserColumns
from features.resident import ResidentUsers
from stages.abandoned import Abandoned
from stages.errors import InvalidOutput, StepFailed
from stages.guard import GATHERED
from stages.pipeline import Pipeline
from stages.plan import ScenePlan
from stages.scene import SceneConfig
from stages.types import Request, Scalar
from stages.usual import Usual

logger = logging.getLogger("recserve.rehearsal")
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


def rehearse(config: Config, plans: Mapping[str, ScenePlan], pipeline: Pipeline, user: Rehearsed) -> list[Problem]:
    """What fails in any scene, at its step. A bug's traceback goes to the log. Blocking, no loop may run."""
    rehearsing = replace(
        pipeline,
        user_reader=user,
        item_fetcher=_Absent(pipeline),
        pool=_InPlace(),  # the service's own may be held by requests
        abandoned=Abandoned(),
        usual=Usual(),
    )
    known = user.users.ids.ids(np.zeros(1, np.int32)) if len(user.users.ids) else []
    problems = []
    for plan in plans.values():
        settled = replace(plan, recall=tuple(step for step in plan.recall if not step.waits))
        found: dict[str, BaseException] = {}
        for params in _choices(settled, config.experiments):
            for user_id in (*known, None):
                for step, error in asyncio.run(_run(rehearsing, settled, params, user_id)):
                    found.setdefault(step, error)
        problems += [_problem(config, config.scenes[plan.name], step, error) for step, error in found.items()]
    return problems


async def _run(
    pipeline: Pipeline, plan: ScenePlan, params: Mapping[str, Scalar], user_id: str | None
) -> list[tuple[str, BaseException]]:
    now = monotonic()
    request = Request(plan.name, user_id, SIZE, "rehearsal", arrived=now, deadline=now + 60.0 + plan.budget)
    gathered: list[tuple[str, BaseException]] = []
    GATHERED.set(gathered)  # of this run's own context
    with contextlib.suppress(StepFailed):
        await pipeline.recommend(plan, request, params, {})
    return gathered


def _problem(config: Config, scene: SceneConfig, name: str, error: BaseException) -> Problem:
    step = next((step for step in scene.steps if step.name == name), None)
    path = scene.path if step is None else step.path
    if not isinstance(error, InvalidOutput):
        logger.error("scene %s: %s failed in the rehearsal", scene.name, name, exc_info=error)
        last = traceback.extract_tb(error.__traceback__)[-1]
        at = f"{Path(*Path(last.filename).parts[-2:])}:{last.lineno}"
        what = " ".join(f"{type(error).__name__}: {error}".split())
        return config.problem(path, f"{name} fails in the rehearsal with {what} at {at}. Mend it, or its settings.")
    if step is not None and "score" in step.settings:
        return config.problem((*path, "score"), f"{error} Fill what may be missing, with coalesce(x, default).")
    return config.problem(path, f"{name} fails in the rehearsal: {error}")


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


class _InPlace(Executor):
    """A pool that runs a job where it is submitted: what its steps raise is gathered there."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """A future that has ended."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - whoever waits for the future gets it
            future.set_exception(error)
        return future
