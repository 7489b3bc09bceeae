"""The funnel over a small release: what a request gets, and what it gets when something fails."""

from dataclasses import replace

import numpy as np
import pytest

from features.errors import StoreUnavailable
from features.lists import Lists
from stages.runtime.release import LoadedRelease
from tests.stages.fakes import fake
from tests.stages.small import N_ITEMS, Engine, home, item, step


def test_a_known_user_gets_a_full_list_with_fields_and_reasons(engine: Engine) -> None:
    engine.did("u1", item(9), item(17))
    answer, outcome = engine.run(home())
    assert len(answer.ids) == 20 == len(set(answer.ids))
    assert answer.degraded == []
    assert answer.short is None
    assert all(len(values) == 20 for values in answer.fields.values())
    assert answer.fields["title"][0] == f"Title {int(answer.ids[0][-3:])}"
    assert {"vector", "i2i"} & {channel for channels in answer.channels for channel in channels}
    assert [r.name for r in outcome.records][:4] == ["features.user", "recall.vector", "recall.i2i", "recall.popular"]


def test_what_the_user_had_and_what_is_excluded_stay_away(engine: Engine) -> None:
    engine.did("u1", *[item(i) for i in range(1, 200, 8)])
    answer, _ = engine.run(home(), exclude=(item(201),), size=50)
    rows = {int(name[-3:]) for name in answer.ids}
    assert not rows & set(range(1, 200, 8))
    assert 201 not in rows


def test_a_delisted_item_is_absent_from_the_list_and_from_the_fallback(engine: Engine) -> None:
    answer, _ = engine.run(home(recall=(), fallback="popular"), user_id=None, size=300)
    rows = np.array([int(name[-3:]) for name in answer.ids])
    assert len(rows) == 300
    assert not (rows % 10 == 0).any()
    assert not (rows % 25 == 24).any()
    assert {tuple(c) for c in answer.channels} == {("fallback",)}


def test_what_a_filter_dropped_does_not_come_back_by_the_fallback(engine: Engine) -> None:
    """As one on a channel's rank would do, which items of the fallback don't have."""
    plain = home(recall=home().recall[2:], filters=(), pre_rank=None, re_rank=())
    recalled, _ = engine.run(plain, user_id=None, size=60)
    weak = fake("filter", lambda _, batch: (batch.source == 0) | (np.arange(len(batch)) >= 10), "weak")
    answer, _ = engine.run(replace(plain, filters=(weak,)), user_id=None, size=100)
    assert ["fallback"] in answer.channels
    assert set(recalled.ids) - set(answer.ids) == set(recalled.ids[:10])
    assert len(answer.ids) == 100


def test_an_unknown_user_gets_the_popular_list_of_the_region(engine: Engine) -> None:
    answer, _ = engine.run(home(re_rank=()), user_id="nobody", context={"region": "north"}, size=10)
    rows = [int(name[-3:]) for name in answer.ids]
    assert rows[0] > N_ITEMS - 10
    assert answer.degraded == []


def test_what_a_request_lacks_is_counted_and_shown_but_degrades_nothing(engine: Engine) -> None:
    answer, outcome = engine.run(home(), user_id="nobody", debug=True)
    assert answer.degraded == []
    missing = {r.name: r.missing for r in outcome.records if r.missing}
    assert missing == {"recall.vector": "user.embedding", "recall.i2i": "user.recent_items"}
    assert answer.trace is not None
    assert {s["name"]: s["missing"] for s in answer.trace["steps"] if s["missing"]} == missing
    _, outcome = engine.run(home(), candidates=(item(1), "unknown"))
    assert [r.missing for r in outcome.records if r.name == "candidates"] == ["item_id"]


def test_the_same_request_a_hundred_times_gives_the_same_list_and_leaves_the_release_unchanged(
    engine: Engine, loaded: LoadedRelease
) -> None:
    engine.did("u1", item(9))
    before = {name: np.array(c) for name, c in loaded.resident.items() if isinstance(c, np.ndarray)}
    plan = engine.plan(home())
    lists = {tuple(engine.run(plan)[0].ids) for _ in range(100)}
    assert len(lists) == 1
    for name, column in before.items():
        np.testing.assert_array_equal(column, loaded.resident[name])


def test_a_stopped_store_is_named_and_the_list_is_full(engine: Engine) -> None:
    engine.did("u1", item(9))
    engine.outage = StoreUnavailable("down")
    answer, _ = engine.run(home())
    assert len(answer.ids) == 20
    assert ("recall.i2i", "store_unavailable") in answer.degraded
    assert ("filters.seen", "store_unavailable") in answer.degraded
    assert ("features.user", "store_unavailable") in answer.degraded


def test_given_candidates_are_filtered_and_ranked_and_recall_is_skipped(engine: Engine) -> None:
    given = (item(1), item(10), item(33), "unknown", item(33))
    answer, outcome = engine.run(home(), candidates=given)
    assert set(answer.ids) == {item(1), item(33)}
    assert answer.short == "candidates_exhausted"
    assert not [r for r in outcome.records if r.name.startswith("recall.")]


def test_a_catalogue_that_runs_out_says_so(engine: Engine) -> None:
    answer, _ = engine.run(home(), size=500)
    assert answer.short == "catalogue_exhausted"
    assert 300 < len(answer.ids) < N_ITEMS


def test_a_parameter_picks_the_variant_and_is_reported_as_read(engine: Engine) -> None:
    from stages.scene import Param

    scene = home(
        re_rank=(step("re_rank", "re_rank.mmr", "mmr", {"similarity": "item.embedding", "relevance": Param("r.x")}),)
    )
    plan = engine.plan(scene, {"r.x": [1.0, 0.2]})
    plain, outcome = engine.run(plan, params={"r.x": 1.0})
    varied, _ = engine.run(plan, params={"r.x": 0.2})
    assert outcome.reads == {"r.x"}
    assert plain.ids != varied.ids


def test_a_deadline_in_the_past_still_gives_a_full_list_through_the_filters(engine: Engine) -> None:
    answer, _ = engine.run(replace(home(), budget=-1.0))
    assert len(answer.ids) == 20
    assert ("recall.vector", "deadline") in answer.degraded


@pytest.mark.parametrize("size", [1, 5, 100])
def test_debug_traces_every_step_and_explains_absence(engine: Engine, size: int) -> None:
    engine.did("u1", item(9))
    answer, _ = engine.run(home(), size=size, debug=True, why_not=("nope", item(9), item(10), item(399)))
    assert answer.trace is not None
    names = [s["name"] for s in answer.trace["steps"]]
    assert names[0] == "features.user"
    assert "re_rank.spread" in names
    why = {w["id"]: w for w in answer.trace["why_not"]}
    assert why["nope"]["step"] == "item_table"
    assert why[item(9)]["step"] == "filters.seen"
    assert why[item(10)]["step"] in ("filters.sellable", "recall")
    assert set(answer.trace["items"]) == set(answer.ids)


def test_items_and_users_without_vectors_are_served_without_a_degraded_step(loaded: LoadedRelease) -> None:
    vectors = np.array(loaded.resident["item.embedding"])
    vectors[::3] = np.nan
    engine = Engine(replace(loaded, resident={**loaded.resident, "item.embedding": vectors}))
    for user in ("u1", "nobody", None):
        answer, outcome = engine.run(home(), user_id=user, size=50)
        assert len(answer.ids) == 50
        assert answer.degraded == []
        assert outcome.bugs == 0


def test_an_item_without_a_vector_does_not_switch_diversity_off(loaded: LoadedRelease) -> None:
    vectors = np.array(loaded.resident["item.embedding"])
    vectors[399] = np.nan
    engine = Engine(replace(loaded, resident={**loaded.resident, "item.embedding": vectors}))
    # rows 1, 9, 17 lie in one cluster, 2 in another
    given = tuple(item(row) for row in (1, 9, 17, 2, 399))
    mmr = step("re_rank", "re_rank.mmr", "mmr", {"similarity": "item.embedding", "relevance": 0.1})
    answer, _ = engine.run(home(filters=(), re_rank=(mmr,)), candidates=given)
    assert item(2) in answer.ids[:3]


def test_an_empty_fallback_table_gives_a_short_list(loaded: LoadedRelease) -> None:
    engine = Engine(replace(loaded, tables={**loaded.tables, "popular": Lists.of_groups([])}))
    answer, _ = engine.run(home(recall=()), user_id=None)
    assert answer.ids == []
    assert answer.short == "catalogue_exhausted"


def test_filled_items_carry_the_group_of_the_request_and_everyones_without_one(engine: Engine) -> None:
    bare = home(recall=(), filters=(), pre_rank=None, re_rank=())
    assert engine.run(bare, context={"region": "north"}, size=2)[0].ids == [item(399), item(398)]
    for context in ({}, {"region": "nowhere"}):
        assert engine.run(bare, context=context, size=2)[0].ids == [item(0), item(1)]
