"""Slow models run on the pool, quick ones in place; both give the same answer and hand their records back."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from stages.errors import StepFailed
from stages.pipeline import IN_PLACE_MS
from stages.registry import component
from stages.roles import Scorer
from stages.runtime.pool import compute_pool
from stages.scene import Param, SceneConfig, StepConfig
from stages.types import Candidates, View
from tests.stages.fakes import fake, hits
from tests.stages.small import Engine, item

where: list[str] = []


@component("costly")
class Costly(Scorer):
    """A scorer that says what it usually costs."""

    cost_ms: float
    fails: bool = False

    def score(self, view: View, batch: Candidates) -> Any:
        where.append(threading.current_thread().name)
        if self.fails:
            raise ValueError("boom")
        return batch.rows.astype(np.float32)


def scene(cost_ms: Any, **common: Any) -> SceneConfig:
    rank = StepConfig(
        "rank", "rank.costly", Costly, {"cost_ms": cost_ms, "fails": common.pop("fails", False)}, **common
    )
    return SceneConfig("home", 5.0, (fake("recall", lambda view: hits(1, 2, 3), "found"),), rank=rank)


@pytest.mark.parametrize(("cost", "pooled"), [(0.0, False), (IN_PLACE_MS, False), (IN_PLACE_MS + 0.1, True)])
def test_what_a_model_usually_costs_decides_where_it_runs(engine: Engine, cost: float, pooled: bool) -> None:
    where.clear()
    answer, outcome = engine.run(scene(cost), user_id=None)
    assert answer.ids == [item(3), item(2), item(1)]
    assert [name.startswith("ThreadPoolExecutor") for name in where] == [pooled]
    ranked = next(r for r in outcome.records if r.name == "rank.costly")
    assert (ranked.queued > 0) == pooled
    assert (ranked.n_in, ranked.n_out, ranked.reason) == (3, 3, None)


def test_the_dearest_variant_decides_for_the_step(engine: Engine) -> None:
    where.clear()
    plan = engine.plan(scene(Param("cost")), {"cost": [0.0, 50.0]})
    _, outcome = engine.run(plan, params={"cost": 0.0}, user_id=None)
    assert where[0].startswith("ThreadPoolExecutor")
    assert outcome.reads == {"cost"}


def test_a_failure_on_the_pool_is_answered_by_the_policy(engine: Engine) -> None:
    answer, outcome = engine.run(scene(50.0, fails=True), user_id=None)
    assert answer.ids == [item(1), item(2), item(3)]
    assert answer.degraded == [("rank.costly", "error")]
    assert outcome.bugs == 1
    failing = scene(50.0, fails=True)
    assert failing.rank is not None
    with pytest.raises(StepFailed, match=r"rank\.costly: error"):
        engine.run(replace(failing, rank=replace(failing.rank, on_fail="fail")), user_id=None)


def test_the_pool_has_at_least_one_thread_and_no_more_than_asked() -> None:
    with compute_pool(3) as three, compute_pool() as own:
        assert three._max_workers == 3
        assert own._max_workers >= 1
