"""Composing a scene: a component per combination of parameters, `when`, and what is reported as read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from features.errors import StoreUnavailable
from stages.compose import MAX_CHANNELS, MAX_VARIANTS
from stages.errors import ReleaseError
from stages.roles import ColumnName, Scorer
from stages.scene import Param, SceneConfig, StepConfig
from tests.stages.fakes import fake, hits
from tests.stages.small import Engine, home, item, step

FOUND = fake("recall", lambda view: hits(*range(1, 31)), "found")


def popular(**common: Any) -> Any:
    return step("recall", "recall.popular", "popular", {"table": "popular", "k": Param("k")}, **common)


def scene(**changes: Any) -> SceneConfig:
    return replace(SceneConfig("home", 5.0, (FOUND,)), **changes)


def test_a_step_has_a_component_for_each_value_and_a_request_picks_one(engine: Engine) -> None:
    plan = engine.plan(scene(recall=(popular(),)), {"k": [3, 7, 3]})
    assert {k: v.component.k for (k,), v in plan.recall[0].variants.items()} == {3: 3, 7: 7}  # type: ignore[attr-defined]
    for k in (3, 7):
        answer, outcome = engine.run(plan, params={"k": k}, user_id=None)
        assert answer.ids == [item(row) for row in range(k)]
        assert outcome.reads == {"k"}


def test_parameters_in_settings_expressions_and_keep_multiply(engine: Engine) -> None:
    condition = step("filter", "filters.cheap", "expression", {"condition": "item.price < $most"})
    dot = {"user": "user.embedding", "item": "item.embedding"}
    plan = engine.plan(
        scene(filters=(condition,), pre_rank=step("pre_rank", "pre_rank.dot", "dot", dot, keep=Param("keep"))),
        {"most": [3.0, 10.0], "keep": [2, 5]},
    )
    prices = {row: 1 + row % 50 for row in range(1, 31)}
    for most in (3.0, 10.0):
        for keep in (2, 5):
            answer, outcome = engine.run(plan, params={"most": most, "keep": keep})
            assert len(answer.ids) == min(keep, sum(price < most for row, price in prices.items() if row != 5))
            assert outcome.reads == {"most", "keep"}


def test_more_than_32_variants_of_a_step_are_refused_before_any_is_built(engine: Engine) -> None:
    built = []

    @dataclass(frozen=True)
    class Counting(Scorer):
        a: int
        b: int

        def __post_init__(self) -> None:
            built.append(self)

    rank = StepConfig("rank", "rank.counting", Counting, {"a": Param("a"), "b": Param("b")})
    engine.plan(scene(rank=rank), {"a": list(range(16)), "b": [1, 2, 2]})
    assert len({(made.a, made.b) for made in built}) == MAX_VARIANTS == 32
    built.clear()
    many = list(range(1000))
    with pytest.raises(ReleaseError, match=r"rank\.counting: 1000000 variants of one step\. Expected at most 32"):
        engine.plan(scene(rank=rank), {"a": many, "b": many})
    assert built == []


def test_more_channels_than_source_bits_are_refused(engine: Engine) -> None:
    channels = tuple(fake("recall", lambda view: hits(1), f"c{i}") for i in range(MAX_CHANNELS + 1))
    with pytest.raises(ReleaseError, match=r"64 channels\. Expected at most 63"):
        engine.plan(scene(recall=channels))
    answer, _ = engine.run(scene(recall=channels[:-1], fallback="popular"), user_id=None, size=2)
    assert answer.channels == [[f"c{i}" for i in range(63)], ["fallback"]]


WHEN = "context.region == 'north'"


@pytest.mark.parametrize(("region", "runs"), [("north", True), ("south", False), (None, False)])
@pytest.mark.parametrize("role", ["recall", "filter", "pre_rank", "rank", "re_rank"])
def test_a_step_runs_only_when_its_condition_holds(engine: Engine, role: str, region: str | None, runs: bool) -> None:
    ran: list[str] = []

    def run(*seen: Any) -> Any:
        ran.append(role)
        if role == "recall":
            return hits(40)
        batch = seen[1]
        return np.arange(len(batch)) % 2 == 0 if role == "filter" else np.arange(len(batch))[::-1].astype(DTYPES[role])

    conditional = fake(role, run, when=WHEN)
    key = {"recall": "recall", "filter": "filters"}.get(role, role)
    value = {"recall": (FOUND, conditional), "filter": (conditional,), "re_rank": (conditional,)}.get(role, conditional)
    context = {} if region is None else {"region": region}
    answer, _ = engine.run(scene(**{key: value}), user_id=None, context=context, size=100)
    plain, _ = engine.run(scene(), user_id=None, size=100)
    assert ran == [role] * runs
    assert (answer.ids != plain.ids) == (runs and role not in ("pre_rank", "rank"))
    assert answer.degraded == []


DTYPES = {"pre_rank": np.float32, "rank": np.float32, "re_rank": np.intp}


def test_a_condition_on_a_missing_user_column_is_false(engine: Engine) -> None:
    has = fake("filter", lambda view, batch: np.zeros(len(batch), np.bool_), when="context.region != 'north'")
    answer, _ = engine.run(scene(filters=(has,)), user_id=None)
    assert len(answer.ids) == 20


def test_steps_that_did_not_run_read_no_parameters(engine: Engine) -> None:
    def cheap(name: str, **common: Any) -> Any:
        return step("filter", f"filters.{name}", "expression", {"condition": f"item.price < ${name}"}, **common)

    def mmr(name: str, **common: Any) -> Any:
        settings = {"similarity": "item.embedding", "relevance": Param(name)}
        return step("re_rank", f"re_rank.{name}", "mmr", settings, **common)

    plan = engine.plan(
        scene(
            recall=(FOUND, replace(popular(when=WHEN), settings={"table": "popular", "k": Param("a")})),
            filters=(cheap("b"), cheap("c", when=WHEN)),
            re_rank=(mmr("d", when=WHEN), mmr("e")),
        ),
        {"a": [5], "b": [99.0], "c": [99.0], "d": [0.5], "e": [0.5]},
    )
    params = {"a": 5, "b": 99.0, "c": 99.0, "d": 0.5, "e": 0.5}
    assert engine.run(plan, params=params, user_id=None)[1].reads == {"b", "e"}
    assert engine.run(plan, params=params, user_id=None, context={"region": "north"})[1].reads == set(params)
    # given candidates: recall is skipped, so its parameter is not read; nothing left: nothing to order
    assert engine.run(plan, params=params, user_id=None, candidates=(item(1), item(2)))[1].reads == {"b", "e"}
    assert engine.run(plan, params=params, user_id=None, candidates=("nope",))[1].reads == {"b"}


@pytest.mark.parametrize("role", ["recall", "filter", "re_rank"])
def test_a_parameter_that_switches_a_step_is_read_on_both_sides(engine: Engine, role: str) -> None:
    runs: dict[str, Any] = {
        "recall": lambda view: hits(50),
        "filter": lambda view, batch: np.ones(len(batch), np.bool_),
        "re_rank": lambda view, batch: np.arange(len(batch)),
    }
    switched = fake(role, runs[role], when="$on and context.region == 'north'")
    key, value = {"recall": ("recall", (FOUND, switched)), "filter": ("filters", (switched,))}.get(
        role, ("re_rank", (switched,))
    )
    plan = engine.plan(scene(**{key: value}), {"on": [True, False]})
    for on in (True, False):
        for region, read in (("north", {"on"}), ("south", set())):
            _, outcome = engine.run(plan, params={"on": on}, user_id=None, context={"region": region})
            assert outcome.reads == read


def test_steps_that_degraded_read_no_parameters(engine: Engine) -> None:
    settings = {"table": "i2i", "triggers": "user.recent_items", "k": Param("k")}
    plan = engine.plan(scene(recall=(FOUND, step("recall", "recall.i2i", "item_to_item", settings))), {"k": [5]})
    assert engine.run(plan, params={"k": 5})[1].reads == {"k"}
    engine.outage = StoreUnavailable("down")
    assert engine.run(plan, params={"k": 5})[1].reads == set()


def test_a_step_without_a_policy_gets_its_roles_default(engine: Engine) -> None:
    plan = engine.plan(home())
    policies = {s.name: s.on_fail for s in plan.steps}
    assert policies["recall.vector"] == "skip"
    assert policies["filters.exclude"] == "closed"
    assert policies["filters.seen"] == "open"
    assert policies["re_rank.mmr"] == "keep_order"


def test_needs_are_the_columns_of_settings_and_conditions(engine: Engine) -> None:
    plan = engine.plan(home(re_rank=(step("re_rank", "re_rank.s", "spread", {"by": "item.category"}, when=WHEN),)))
    needs = {s.name: s.needs for s in plan.steps}
    assert needs["re_rank.s"] == {"item.category", "context.region"}
    assert needs["pre_rank.dot"] == {"user.embedding", "item.embedding"}
    assert needs["filters.sellable"] == {"item.stock", "item.status"}
    assert needs["recall.popular"] == {"context.region"}
    assert isinstance(plan.recall[0].pick({}).component.query, ColumnName)  # type: ignore[attr-defined]


def test_durations_are_seconds_and_absent_settings_have_their_defaults(engine: Engine) -> None:
    settings = {"table": "i2i", "triggers": "user.recent_items", "half_life": 3600.0}
    plan = engine.plan(scene(recall=(step("recall", "recall.i2i", "item_to_item", settings),)))
    component: Any = plan.recall[0].pick({}).component
    assert (component.half_life, component.k) == (3600.0, 300)
