"""A scene over live item columns: one round trip, its values in filters, ranks and answers, and its outages."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from features.errors import StoreTimeout, StoreUnavailable
from stages.errors import StepFailed
from stages.runtime.release import LoadedRelease
from stages.scene import SceneConfig
from tests.stages.fakes import fake, hits
from tests.stages.small import Engine, home, item, live_price, live_stock, step

ON_STOCK = step("filter", "filters.stocked", "expression", {"condition": "item.live_stock > 0"})
IN_RANGE = step("filter", "filters.stocked", "expression", {"condition": "item.stock_log > 0"})


@pytest.fixture
def shop(loaded: LoadedRelease) -> Engine:
    engine = Engine(loaded, live=(live_stock(), live_price()))
    engine.stock(item_001=5, item_002=0, item_003=7, item_004=9)
    return engine


def scene(**changes: Any) -> SceneConfig:
    """Rows 1 to 6, of which 1, 3 and 4 are in stock."""
    found = fake("recall", lambda view: hits(1, 2, 3, 4, 5, 6), "found")
    plain = SceneConfig("home", 5.0, (found,), filters=(ON_STOCK,), returned=("live_stock", "title"))
    return replace(plain, **changes)


def features(outcome: Any) -> list[tuple[str, str | None]]:
    return [(r.name, r.reason) for r in outcome.records if r.name.startswith("features.") and r.name != "features.user"]


def test_a_live_view_is_fetched_in_one_round_trip_and_decides(shop: Engine) -> None:
    before = shop.store.round_trips
    answer, outcome = shop.run(scene(), user_id=None)
    assert shop.store.round_trips == before + 1
    assert answer.ids == [item(1), item(3), item(4)]
    assert answer.fields == {"live_stock": [5, 7, 9], "title": ["Title 1", "Title 3", "Title 4"]}
    assert features(outcome) == [("features.stock", None)]
    assert answer.degraded == []


def test_what_is_only_returned_is_fetched_for_the_list_alone(shop: Engine) -> None:
    plan = shop.plan(scene(filters=(), re_rank=(fake("re_rank", lambda view, batch: np.arange(2)),)))
    before = shop.store.commands
    answer, _ = shop.run(plan, user_id=None)
    assert answer.fields["live_stock"] == [5, 0]
    assert shop.store.commands == before + 2


def test_two_steps_over_one_view_share_a_fetch(shop: Engine) -> None:
    low = fake("rank", lambda view, batch: -batch["item.live_stock"].astype(np.float32), reads=["item.live_stock"])
    before = shop.store.round_trips
    answer, _ = shop.run(scene(rank=low), user_id=None)
    assert shop.store.round_trips == before + 1
    assert answer.ids == [item(1), item(3), item(4)]
    assert answer.fields["live_stock"] == [5, 7, 9]


def test_a_fetched_vector_follows_its_item_through_filters_and_ranking(shop: Engine, loaded: LoadedRelease) -> None:
    commands = [
        ("HSET", f"stock:{item(row)}", "live_look", np.array([row, -row], "<f4").tobytes()) for row in (1, 2, 3)
    ]
    asyncio.run(shop.store.execute(commands, timeout=1.0))
    seen: list[Any] = []

    def reversing(view: Any, batch: Any) -> Any:
        seen.append((batch.rows.tolist(), batch["item.live_look"]))
        return np.arange(len(batch))[::-1]

    steps = tuple(fake("re_rank", reversing, name, reads=["item.live_look"]) for name in ("one", "two"))
    shop.run(scene(re_rank=steps), user_id=None)
    assert [rows for rows, _ in seen] == [[1, 3, 4], [4, 3, 1]]
    for rows, looks in seen:
        known = {1: [1, -1], 3: [3, -3], 4: [np.nan, np.nan]}
        np.testing.assert_array_equal(looks, np.array([known[row] for row in rows], np.float32))


@pytest.mark.parametrize(
    ("error", "reason"), [(StoreTimeout("late"), "store_timeout"), (StoreUnavailable("down"), "store_unavailable")]
)
@pytest.mark.parametrize("condition", [ON_STOCK, IN_RANGE])
@pytest.mark.parametrize(("policy", "kept"), [("closed", []), ("open", [1, 2, 3, 4, 5, 6])])
def test_a_failed_fetch_gives_defaults_and_the_filters_policy(
    shop: Engine, error: Exception, reason: str, condition: Any, policy: str, kept: list[int]
) -> None:
    shop.outage = error
    answer, outcome = shop.run(scene(filters=(replace(condition, on_fail=policy),)), user_id=None)
    assert answer.ids == [item(row) for row in kept]
    assert answer.fields["live_stock"] == [0] * len(kept)
    assert answer.degraded == [("features.stock", reason), ("filters.stocked", reason)]
    assert outcome.bugs == 0


def test_a_failed_fetch_under_fail_ends_the_request(shop: Engine) -> None:
    shop.outage = StoreTimeout("late")
    with pytest.raises(StepFailed, match=r"filters\.stocked: store_timeout"):
        shop.run(scene(filters=(replace(ON_STOCK, on_fail="fail"),)), user_id=None)


def test_a_failed_fetch_leaves_ranking_with_defaults(shop: Engine) -> None:
    shop.outage = StoreTimeout("late")
    low = fake("rank", lambda view, batch: -batch["item.live_stock"].astype(np.float32), reads=["item.live_stock"])
    answer, _ = shop.run(scene(filters=(), rank=low), user_id=None)
    assert answer.ids == [item(row) for row in range(1, 7)]
    assert answer.degraded == [("features.stock", "store_timeout")]


def test_filled_items_have_the_returned_live_column_too(shop: Engine) -> None:
    answer, _ = shop.run(scene(filters=(), fallback="popular"), user_id=None, size=10)
    assert [c[0] for c in answer.channels] == ["found"] * 6 + ["fallback"] * 4
    assert answer.fields["live_stock"] == [5, 0, 7, 9, 0, 0] + [0] * 4


def test_filled_items_have_returned_columns_that_are_derived_from_live_ones(shop: Engine) -> None:
    answer, _ = shop.run(scene(returned=("stock_log",), fallback="popular"), user_id=None, size=5)
    assert answer.fields["stock_log"][:3] == pytest.approx(np.log1p([5, 7, 9]).tolist(), rel=1e-6)
    assert len(answer.fields["stock_log"]) == len(answer.ids)


@pytest.mark.parametrize("condition", [ON_STOCK, IN_RANGE])
def test_a_closed_live_filter_lets_nothing_unread_into_the_fill(
    shop: Engine, condition: Any, caplog: pytest.LogCaptureFixture
) -> None:
    answer, outcome = shop.run(scene(filters=(condition,), fallback="popular"), user_id=None)
    assert answer.ids == [item(1), item(3), item(4)]
    assert answer.short == "catalogue_exhausted"
    assert outcome.bugs == 0
    assert not caplog.records


def test_a_live_filter_that_must_not_fail_does_not_fail_the_request_in_the_fill(shop: Engine) -> None:
    answer, _ = shop.run(scene(filters=(replace(ON_STOCK, on_fail="fail"),), fallback="popular"), user_id=None)
    assert answer.ids == [item(1), item(3), item(4)]


def test_filters_over_resident_columns_run_before_the_fetch(shop: Engine) -> None:
    cheap = step("filter", "filters.cheap", "expression", {"condition": "item.price < 4"})
    before = shop.store.commands
    answer, _ = shop.run(scene(filters=(ON_STOCK, cheap)), user_id=None)
    assert answer.ids == [item(1)]
    assert shop.store.commands == before + 2  # rows 1 and 2 only


def test_a_view_that_is_not_read_is_not_fetched(shop: Engine) -> None:
    before = shop.store.round_trips
    shop.run(scene(filters=(), returned=("title",)), user_id=None)
    assert shop.store.round_trips == before


def test_nothing_recalled_costs_no_round_trip(shop: Engine) -> None:
    before = shop.store.round_trips
    answer, _ = shop.run(scene(recall=(fake("recall", lambda view: hits()),)), user_id=None)
    assert answer.ids == []
    assert shop.store.round_trips == before


def test_a_lost_history_is_known_to_concern_a_filter_on_a_column_derived_from_it(engine: Engine) -> None:
    fresh = step("filter", "filters.fresh", "expression", {"condition": "cross.bought == 0"})
    engine.did("u1", item(1))
    answer, _ = engine.run(home(filters=(fresh,), re_rank=(), pre_rank=None))
    assert item(1) not in answer.ids
    engine.outage = StoreUnavailable("down")
    answer, _ = engine.run(home(filters=(fresh,), re_rank=(), pre_rank=None))
    assert answer.ids == []
    assert ("filters.fresh", "store_unavailable") in answer.degraded
