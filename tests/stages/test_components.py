"""Filters, pre-rank, channels: each built-in component on its own, on a view and a batch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from expression import compile_expression
from features.behaviour import event_code
from features.history import History
from features.lists import Lists
from stages.filters.condition import Condition
from stages.filters.exclude import Exclude
from stages.filters.seen import Seen
from stages.pre_rank.dot import Dot
from stages.recall.item_to_item import DAY, ItemToItem
from stages.recall.popular import Popular
from stages.recall.repeat import Repeat
from stages.recall.vector import Vector
from stages.registry import Duration
from stages.roles import ColumnName
from stages.runtime.indexes import build_index
from stages.types import Candidates, Hits
from tests.stages.fakes import batch_of, texts, view_of

NOW = 1000 * DAY
rows = st.lists(st.integers(0, 9), max_size=8)


def history(*events: tuple[int, float]) -> History:
    """Events as (row, age in days), oldest first."""
    m = len(events)
    ts = np.array([NOW - age * DAY for _, age in events], np.float64)
    found = np.array([row for row, _ in events], np.int32)
    return History(found, np.zeros(m, np.uint64), ts, np.zeros(m, np.uint16), np.ones(m, np.float32))


def scores_of(hits: Hits) -> dict[int, float]:
    return dict(zip(hits.rows.tolist(), hits.scores.tolist(), strict=True))


@given(rows, rows)
def test_seen_drops_what_stands_anywhere_in_the_history(offered: list[int], had: list[int]) -> None:
    view = view_of({"user.history": history(*[(row, 1.0) for row in [*had, -1]])})
    assert Seen().keep(view, batch_of(offered)).tolist() == [row not in had for row in offered]


def test_seen_and_repeat_take_the_events_that_they_are_told() -> None:
    bought = [True, False, True, False]
    given = history((1, 4.0), (2, 3.0), (3, 2.0), (3, 1.0))
    codes = np.array([event_code("buy" if each else "view") for each in bought], np.uint16)
    view = view_of({"user.history": replace(given, event=codes)})
    name = ColumnName("user.history")
    for events, had in ((("buy",), [1, 3]), (("view", "buy"), [1, 2, 3]), ((), [1, 2, 3]), (("none",), [])):
        assert Seen(events=events).keep(view, batch_of([0, 1, 2, 3])).tolist() == [row not in had for row in range(4)]
        assert sorted(scores_of(Repeat(name, events=events).recall(view))) == had
    assert Seen(events=("buy",)).needs == {"user.history"}


@given(rows, rows)
def test_exclude_drops_the_rows_of_the_request(offered: list[int], excluded: list[int]) -> None:
    mask = Exclude().keep(view_of(excluded=[*excluded, -1]), batch_of(offered))
    assert mask.tolist() == [row not in excluded for row in offered]


def test_without_history_or_exclusions_everything_stays() -> None:
    assert Seen().keep(view_of(), batch_of([1, 2])).all()
    assert Seen().keep(view_of({"user.history": History.empty()}), batch_of([1, 2])).all()
    assert Exclude().keep(view_of(), batch_of([1, 2])).all()
    assert Seen().needs == {"user.history"}


SCHEMA = {"item.price": "f32", "item.status": "str", "context.most": "float", "user.vip": "bool"}
RESIDENT: dict[str, Any] = {
    "item.price": np.array([1, 5, np.nan], np.float32),
    "item.status": texts("on", None, "on"),
}


@pytest.mark.parametrize(
    ("text", "columns", "kept"),
    [
        ("item.price < 3", {}, [True, False, False]),
        ("item.price < context.most", {"context.most": 6.0}, [True, True, False]),
        ("item.price < context.most", {}, [False, False, False]),
        ("item.status == 'on'", {}, [True, False, True]),
        ("user.vip", {"user.vip": True}, [True, True, True]),
        ("user.vip", {}, [False, False, False]),
        ("user.vip or item.price > 4", {}, [False, True, False]),
    ],
)
def test_a_condition_keeps_what_satisfies_it_and_missing_satisfies_nothing(
    text: str, columns: dict[str, Any], kept: list[bool]
) -> None:
    view = view_of(columns)
    mask = Condition(compile_expression(text, SCHEMA)).keep(view, batch_of([0, 1, 2], resident=RESIDENT, view=view))
    assert mask.tolist() == kept
    assert mask.dtype == np.bool_


DOT = Dot(ColumnName("user.v"), ColumnName("item.v"))
VECTORS = np.array([[1, 0], [0, 2], [np.nan, np.nan]], np.float32)


def offered(view: Any) -> Candidates:
    return batch_of([0, 1, 2], resident={"item.v": VECTORS}, view=view)


def test_dot_is_the_inner_product_and_an_item_without_vector_comes_last() -> None:
    view = view_of({"user.v": np.array([-1, -3], np.float32)})
    assert DOT.score(view, offered(view)).tolist() == [-1.0, -6.0, -np.inf]


def test_dot_of_a_user_without_vector_keeps_the_scores() -> None:
    batch = offered(view_of())
    assert DOT.score(view_of(), batch) is batch.score


TABLE = Lists(np.array([0, 2, 3, 3]), np.array([1, 2, 2], np.int32), np.array([1.0, 0.5, 0.25], np.float32))


def i2i(**settings: Any) -> ItemToItem:
    return ItemToItem(TABLE, ColumnName("user.h"), half_life=Duration(10 * DAY), **settings)


def test_item_to_item_sums_neighbours_weighted_by_recency() -> None:
    view = view_of({"user.h": history((1, 20.0), (0, 10.0), (-1, 5.0))}, NOW)
    # item 0 weighs a half, item 1 a quarter
    assert scores_of(i2i().recall(view)) == {1: 0.5, 2: 0.25 + 0.0625}
    assert scores_of(i2i(k=1).recall(view)) == {1: 0.5}
    assert scores_of(i2i(max_triggers=1).recall(view)) == {1: 0.5, 2: 0.25}


def test_item_to_item_without_triggers_or_neighbours_finds_nothing() -> None:
    for had in (None, History.empty(), history((-1, 1.0)), history((2, 1.0))):
        view = view_of({} if had is None else {"user.h": had}, NOW)
        assert len(i2i().recall(view).rows) == 0


def test_repeat_scores_items_by_decayed_frequency() -> None:
    channel = Repeat(ColumnName("user.h"), k=2, half_life=Duration(10 * DAY))
    view = view_of({"user.h": history((4, 30.0), (-1, 20.0), (7, 10.0), (4, 10.0), (5, 0.0))}, NOW)
    assert list(scores_of(channel.recall(view)).items()) == [(5, 1.0), (4, 0.5 + 0.125)]
    assert len(channel.recall(view_of({}, NOW)).rows) == 0


POPULAR = Lists.of_groups(
    [
        ("north", np.array([3], np.int32), np.array([1], np.float32)),
        ("all", np.array([1, 2], np.int32), np.array([1, 0.5], np.float32)),
        ("None", np.array([9], np.int32), np.array([1], np.float32)),
        ("9", np.array([8], np.int32), np.array([1], np.float32)),
    ]
)


@pytest.mark.parametrize(
    ("value", "found"), [("north", [3]), ("south", [1, 2]), (None, [1, 2]), ("", [1, 2]), (9, [8])]
)
def test_popular_takes_the_groups_list_else_the_one_of_all(value: Any, found: list[int]) -> None:
    view = view_of({} if value is None else {"context.region": value})
    assert Popular(POPULAR, ColumnName("context.region")).recall(view).rows.tolist() == found


def test_popular_takes_the_head_and_nothing_from_a_table_without_groups() -> None:
    assert Popular(POPULAR, k=1).recall(view_of()).rows.tolist() == [1]
    assert len(Popular(Lists.of_groups([])).recall(view_of()).rows) == 0


def test_vector_finds_the_nearest_and_fewer_than_k_when_there_are_no_more() -> None:
    vectors = np.array([[1, 0], [0, 1], [0.9, 0.1]], np.float32)
    index = build_index(vectors, vectors, space="als").index
    channel = Vector(index, ColumnName("user.v"), k=10)
    view = view_of({"user.v": np.array([1, 0], np.float32)})
    assert channel.recall(view).rows.tolist() == [0, 2, 1]
    assert channel.recall(view).rows.dtype == np.int32
    assert len(channel.recall(view_of()).rows) == 0
