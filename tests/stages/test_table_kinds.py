"""A release whose table is of another kind than its reader needs is refused when the scene is composed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from features.lists import Lists
from stages.errors import ReleaseError
from tests.stages.small import Engine, home, step

FILE = "scenes/home.yaml"
BY_GROUP = "The release's table 'popular' has a list for each group. Expected a list for each item, as models.yaml "
BY_ITEM = "The release's table 'i2i' has a list for each item. Expected a list for each group, as models.yaml "


def test_neighbours_are_not_read_from_a_table_by_group(engine: Engine) -> None:
    path = (FILE, "recall", "i2i")
    settings = {"table": "popular", "triggers": "user.recent_items"}
    channel = step("recall", "recall.i2i", "item_to_item", settings, when="missing(context.region)", path=path)
    with pytest.raises(ReleaseError) as refused:
        engine.plan(home(recall=(channel,)))
    assert str(refused.value) == f"recall.i2i: {BY_GROUP}declares it."
    assert refused.value.path == path


def test_a_popular_list_is_not_read_from_a_table_by_item(engine: Engine) -> None:
    path = (FILE, "recall", "popular")
    with pytest.raises(ReleaseError) as refused:
        engine.plan(home(recall=(step("recall", "recall.popular", "popular", {"table": "i2i"}, path=path),)))
    assert str(refused.value) == f"recall.popular: {BY_ITEM}declares it."
    assert refused.value.path == path


def test_the_fallback_is_not_read_from_a_table_by_item(engine: Engine) -> None:
    with pytest.raises(ReleaseError) as refused:
        engine.plan(home(fallback="i2i", path=(FILE,)))
    assert str(refused.value) == f"{BY_ITEM}declares it."
    assert refused.value.path == (FILE, "fallback")


def test_a_table_without_lists_is_of_either_kind(engine: Engine) -> None:
    empty = Lists.of_groups([])
    tables = {"i2i": engine.loaded.tables["i2i"], "popular": empty}
    plan = Engine(replace(engine.loaded, tables=tables)).plan(home())
    assert plan.fallback is empty
