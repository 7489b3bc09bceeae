"""`why_not` and `trace`: for every item of the catalogue, the step that kept it out is the right one."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

from features.errors import StoreTimeout
from stages.runtime.release import LoadedRelease
from tests.stages.fakes import fake, hits
from tests.stages.small import N_ITEMS, Engine, home, item, live_stock, step

EVERY = tuple(item(row) for row in range(N_ITEMS))


def reasons(engine: Engine, **asked: Any) -> tuple[list[str], dict[str, dict[str, Any]]]:
    scene = asked.pop("scene", home())
    answer, _ = engine.run(scene, debug=True, why_not=asked.pop("why_not", EVERY), **asked)
    assert answer.trace is not None
    return answer.ids, {why["id"]: why for why in answer.trace["why_not"]}


def test_every_item_of_the_catalogue_is_accounted_for(engine: Engine) -> None:
    had = [9, 17, 33, 200]
    engine.did("u1", *[item(row) for row in had])
    scene = home(limit=150)
    ids, whys = reasons(engine, scene=scene, exclude=(item(41), item(49)))
    plan = engine.plan(scene)
    counts: dict[str | None, int] = {}
    for row in range(N_ITEMS):
        why = whys[item(row)]
        counts[why["step"]] = counts.get(why["step"], 0) + 1
        match why["step"]:
            case None:
                assert ids[why["rank"] - 1] == item(row)
            case "filters.seen":
                assert row in had
            case "filters.exclude":
                assert row in (41, 49)
            case "filters.sellable":
                assert row % 10 == 0 or row % 25 == 24
            case "pre_rank.dot":
                assert why["rank"] > why["cut"] == 80
            case "answer":
                assert why["rank"] > why["cut"] == 20
            case "merge":
                assert why["cut"] == plan.limit
            case other:
                assert other == "recall"
                assert "vector gave 100" in why["reason"]
    assert counts[None] == 20
    assert sum(counts.values()) == N_ITEMS
    assert {"recall", "merge", "filters.sellable", "pre_rank.dot", "answer"} <= counts.keys()


def test_an_item_of_the_filled_tail_is_in_the_list(engine: Engine) -> None:
    scene = home(recall=(fake("recall", lambda view: hits(1), "one"),), re_rank=())
    ids, whys = reasons(engine, scene=scene, size=3)
    assert ids == [item(1), item(2), item(3)]
    assert whys[item(3)] == {"id": item(3), "step": None, "reason": "it is in the list", "rank": 3, "cut": None}


def test_given_candidates_explain_their_own_absence(engine: Engine) -> None:
    _, whys = reasons(engine, candidates=(item(1), item(10)), why_not=(item(1), item(10), item(2), "nope"))
    assert {name: why["step"] for name, why in whys.items()} == {
        item(1): None,
        item(10): "filters.sellable",
        item(2): "candidates",
        "nope": "item_table",
    }


def test_a_scene_without_steps_explains_too(engine: Engine) -> None:
    bare = replace(home(), filters=(), pre_rank=None, re_rank=(), recall=(fake("recall", lambda view: hits(1), "one"),))
    _, whys = reasons(engine, scene=bare, size=1, why_not=(item(1), item(2)))
    assert [whys[item(row)]["step"] for row in (1, 2)] == [None, "recall"]


def test_a_live_filter_that_dropped_an_item_is_named(loaded: LoadedRelease) -> None:
    engine = Engine(loaded, live=(live_stock(),))
    engine.stock(item_001=5)
    stocked = step("filter", "filters.stocked", "expression", {"condition": "item.live_stock > 0"})
    scene = home(filters=(*home().filters, stocked), pre_rank=None, re_rank=(), fallback=None)
    _, whys = reasons(engine, scene=scene, why_not=(item(1), item(9), item(10)))
    assert [whys[item(row)]["step"] for row in (1, 9, 10)] == [None, "filters.stocked", "filters.sellable"]
    engine.outage = StoreTimeout("late")
    _, whys = reasons(engine, scene=scene, why_not=(item(1),))
    assert whys[item(1)]["step"] == "filters.stocked"


@pytest.mark.parametrize("user", ["u1", None])
def test_the_trace_has_counts_that_chain_and_scores_of_every_stage(engine: Engine, user: str | None) -> None:
    answer, _ = engine.run(home(), debug=True, user_id=user)
    assert answer.trace is not None
    steps = [s for s in answer.trace["steps"] if s["name"].startswith(("filters", "pre_rank", "re_rank"))]
    for before, after in itertools.pairwise(steps):
        assert before["out"] == after["in"]
    assert all(s["ms"] >= 0 and s["reason"] is None for s in steps)
    for name in answer.ids:
        assert {"pre_rank.dot", "re_rank.mmr", "re_rank.spread"} <= answer.trace["items"][name].keys()


def test_without_debug_nothing_is_traced(engine: Engine) -> None:
    answer, _ = engine.run(home(), why_not=(item(1),))
    assert answer.trace is None
