"""What a component's setting may name: tables by kind of list, columns by whose they are and by kind."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pytest

from app.config.load import load_config
from app.config.problems import ConfigError
from stages.registry import Ref, Registry, component
from stages.roles import ColumnName, Recaller, Reranker, ScalarColumn, Table, VectorColumn
from tests.config.support import FEATURES, HOME, MODELS, components, example, load, problems

ROLES = ("recall", "filter", "pre_rank", "rank", "re_rank")
I2I = "i2i:     {use: item_to_item, triggers: user.recent_items, k: 300}"
POPULAR = "popular: {by: context.region, k: 100, at_least: 20}"
DOT = "dot: [user.embedding, item.embedding]"
SPREAD = "spread: {by: item.category, max: 2, within: 5}"
MMR = "similarity: item.embedding"
FALLBACK = "fallback: popular"
BY_GROUP = "The table 'popular' has a list for each group{}. Expected a table with a list for each item: i2i."
BY_ITEM = "The table 'i2i' has a list for each item{}. Expected a table with a list for each group: popular."
IMPLIED = " (it defaults to the channel's name; 'table' names another)"
SCALAR = "Expected a column of kind number or str or bool."


@component("pairs")
class Pairs(Recaller):
    """An extension's channel over a table of any kind, and one by group."""

    any: Ref[Table]
    groups: Annotated[Ref[Table], "group"]


@component("apart")
class Apart(Reranker):
    """An extension's re-ranker with columns of items, one of them by default, and one of the request."""

    by: tuple[Annotated[VectorColumn, "item"], ...]
    near: Annotated[ScalarColumn, "request"] = ColumnName("user.age")
    usual: Annotated[ScalarColumn, "item"] = ColumnName("user.city")


def extended(folder: Path) -> list[str]:
    classes = [cls for role in ROLES for cls in components().of(role).values()]
    with pytest.raises(ConfigError) as refused:
        load_config(folder, env={}, registry=lambda _: Registry([*classes, Pairs, Apart]))
    return [line.removeprefix(f"{folder}/") for line in str(refused.value).splitlines()]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (I2I, f"{I2I[:-1]}, table: popular}}", f"6 recall.i2i.table: {BY_GROUP.format('')}"),
        (I2I, f"{I2I[:-1]}, table: popular, when: user.age > 3}}", f"6 recall.i2i.table: {BY_GROUP.format('')}"),
        (I2I, "i2i: {use: popular}", f"6 recall.i2i: {BY_ITEM.format(IMPLIED)}"),
        (POPULAR, "popular: {k: 5, table: i2i}", f"7 recall.popular.table: {BY_ITEM.format('')}"),
        (
            POPULAR,
            "popular: {use: item_to_item, triggers: user.history}",
            f"7 recall.popular: {BY_GROUP.format(IMPLIED)}",
        ),
        (FALLBACK, "fallback: {table: i2i, by: user.city}", f"17 fallback.table: {BY_ITEM.format('')}"),
    ],
)
def test_a_table_of_the_other_kind_is_refused(tmp_path: Path, old: str, new: str, expected: str) -> None:
    assert problems(example(tmp_path, (HOME, old, new))) == [f"{HOME}:{expected}"]


def test_where_no_table_is_of_the_kind_the_message_says_so(tmp_path: Path) -> None:
    edits = (HOME, I2I, "i2i: {use: vector, index: item_vectors, query: user.embedding}"), (HOME, FALLBACK, "")
    folder = example(tmp_path, *edits, (MODELS, "popular: {group: region}", "popular: {items: item}"))
    assert problems(folder) == [
        f"{HOME}:7 recall.popular: The table 'popular' has a list for each item{IMPLIED}. "
        "Expected a table with a list for each group, and there is none."
    ]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (SPREAD, "spread: {by: user.city}", ["15 re_rank[1].spread.by: user.city is the same for every item."]),
        (SPREAD, "spread: [context.region]", ["15 re_rank[1].spread[0]: context.region is the same for every item."]),
        (
            MMR,
            "similarity: user.embedding",
            ["14 re_rank[0].mmr.similarity: user.embedding is the same for every item."],
        ),
        (
            DOT,
            "dot: [user.embedding, user.embedding]",
            ["11 pre_rank.dot[1]: user.embedding is the same for every item."],
        ),
    ],
)
def test_a_column_of_the_request_is_refused_where_items_are_compared(
    tmp_path: Path, old: str, new: str, expected: list[str]
) -> None:
    found = problems(example(tmp_path, (HOME, old, new)))
    assert found == [f"{HOME}:{line} Expected an item.* column." for line in expected]


def test_the_sides_of_a_product_are_not_swapped(tmp_path: Path) -> None:
    folder = example(tmp_path, (HOME, DOT, "dot: [item.embedding, user.embedding]"))
    assert problems(folder) == [
        f"{HOME}:11 pre_rank.dot[0]: item.embedding differs by item. Expected a user.* or context.* column.",
        f"{HOME}:11 pre_rank.dot[1]: user.embedding is the same for every item. Expected an item.* column.",
    ]


def test_what_differs_by_item_without_being_stored_may_be_spread_by(tmp_path: Path) -> None:
    for column in ("item.trend", "channel.i2i.rank"):
        load(example(tmp_path / column, (HOME, SPREAD, f"spread: {{by: {column}}}")))


@pytest.mark.parametrize(("column", "kind"), [("item.price", "f32"), ("user.embedding", "f32[64]")])
def test_what_was_seen_is_a_history(tmp_path: Path, column: str, kind: str) -> None:
    folder = example(tmp_path, (HOME, "seen: {on_fail: open}", f"seen: {{on_fail: open, history: {column}}}"))
    assert problems(folder) == [
        f"{HOME}:9 filters.seen.history: {column} is {kind}. Expected a column of kind history."
    ]


def test_settings_of_extensions_are_checked_alike(tmp_path: Path) -> None:
    folder = example(
        tmp_path,
        (HOME, POPULAR, "popular: {use: pairs, any: i2i, groups: i2i}"),
        (HOME, SPREAD, "apart: {by: [item.embedding, user.embedding], near: item.price}"),
    )
    assert extended(folder) == [
        f"{HOME}:7 recall.popular.groups: {BY_ITEM.format('')}",
        f"{HOME}:15 re_rank[1]: user.city is the same for every item. Expected an item.* column.",
        f"{HOME}:15 re_rank[1].apart.by[1]: user.embedding is the same for every item. Expected an item.* column.",
        f"{HOME}:15 re_rank[1].apart.near: item.price differs by item. Expected a user.* or context.* column.",
    ]


@pytest.mark.parametrize(("column", "kind"), [("user.embedding", "f32[64]"), ("user.history", "history")])
def test_a_group_is_named_by_a_scalar_in_the_channel_and_in_the_fallback(
    tmp_path: Path, column: str, kind: str
) -> None:
    folder = example(
        tmp_path,
        (HOME, "by: context.region", f"by: {column}"),
        (HOME, FALLBACK, f"fallback: {{table: popular, by: {column}}}"),
    )
    assert problems(folder) == [
        f"{HOME}:7 recall.popular.by: {column} is {kind}. {SCALAR}",
        f"{HOME}:17 fallback.by: {column} is {kind}. {SCALAR}",
    ]


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        (
            "regionn",
            "A fallback without 'by' picks its group by context.regionn or user.regionn, and there is neither. "
            "Did you mean 'region'?",
        ),
        ("history", f"user.history is history. {SCALAR}"),
    ],
)
def test_a_fallback_without_by_has_groups_named_for_a_column(tmp_path: Path, group: str, expected: str) -> None:
    folder = example(tmp_path, (MODELS, "group: region", f"group: {group}"))
    assert problems(folder) == [f"{MODELS}:4 tables.popular.group: {expected}"]


def test_groups_may_be_named_for_anything_where_by_says_the_column_and_all_is_everyone(tmp_path: Path) -> None:
    edit = (HOME, FALLBACK, "fallback: {table: popular, by: context.region}")
    assert load(example(tmp_path / "by", (MODELS, "group: region", "group: market"), edit)).scenes["home"].group
    assert load(example(tmp_path / "all", (MODELS, "group: region", "group: all"))).scenes["home"].group is None


def test_a_group_that_was_refused_itself_is_not_reported_twice(tmp_path: Path) -> None:
    folder = example(
        tmp_path,
        (MODELS, "group: region", "group: town"),
        (FEATURES, 'city: "vocab', 'town: "vocap = x", city: "vocab'),
    )
    assert [line.split(" ")[0] for line in problems(folder)] == [f"{FEATURES}:3"]


def test_a_channel_is_not_called_like_the_fallback(tmp_path: Path) -> None:
    folder = example(tmp_path, (HOME, POPULAR, f"{POPULAR}\n  fallback: {{use: popular, table: popular}}"))
    assert problems(folder) == [
        f"{HOME}:8 recall.fallback: 'fallback' is what the items of the fallback list are marked with. "
        "Expected another name."
    ]


def test_a_field_is_returned_once(tmp_path: Path) -> None:
    folder = example(tmp_path, (HOME, "return: [title, price]", "return: [title, price, title]"))
    assert problems(folder) == [f"{HOME}:16 return[2]: title is there twice. Remove one."]
