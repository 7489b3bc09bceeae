"""A release that is too old for a filter that fails closed."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.config.ages import stale_views
from app.config.model import Config
from tests.config.support import EXAMPLE, FEATURES, HOME, example, load

DAY = 86_400.0
LIMITED = (FEATURES, "{release: items, ", "{release: items, max_age: 30d, ")
OPEN = (HOME, "  sellable: \"item.stock > 0 and item.status == 'on'\"",
        "  sellable: {use: expression, condition: \"item.stock > 0\", on_fail: open}")  # fmt: skip
DERIVED = (HOME, "item.stock > 0 and item.status == 'on'", "item.trend > 0.1")


def configured(folder: Path, *edits: tuple[str, str, str]) -> Config:
    return load(example(folder, *edits))


def found(config: Config, days: float) -> list[str]:
    return [str(problem).removeprefix(f"{config.directory}/") for problem in stale_views(config, days * DAY)]


def test_the_limit_of_a_view_is_in_seconds(tmp_path: Path) -> None:
    assert configured(tmp_path, LIMITED).features.entities["item"]["catalogue"].max_age == 30 * DAY
    assert load(EXAMPLE).features.entities["item"]["catalogue"].max_age is None


def test_a_closed_filter_of_an_old_release_is_named_with_its_view(tmp_path: Path) -> None:
    assert found(configured(tmp_path, LIMITED), 45.25) == [
        "scenes/home.yaml:10 filters.sellable: The filter sellable fails closed and reads item.status of the view "
        "'catalogue', and the release is 45.2 days old, over its max_age of 30d. "
        "Build a newer release, raise max_age, or write on_fail: open."
    ]


def test_hours_are_told_below_a_day(tmp_path: Path) -> None:
    edit = (FEATURES, "{release: items, ", "{release: items, max_age: 90m, ")
    assert "the release is 2.0 hours old, over its max_age of 90m." in found(configured(tmp_path, edit), 2 / 24)[0]


def test_a_filter_that_fails_open_may_read_any_age(tmp_path: Path) -> None:
    assert found(configured(tmp_path, LIMITED, OPEN), 3000) == []


def test_a_view_that_no_closed_filter_reads_may_have_any_age(tmp_path: Path) -> None:
    edit = (FEATURES, "{release: windows, ", "{release: windows, max_age: 30d, ")
    assert found(configured(tmp_path, edit), 3000) == []


def test_a_derived_column_is_as_old_as_what_it_is_made_of(tmp_path: Path) -> None:
    edit = (FEATURES, "{release: windows, ", "{release: windows, max_age: 30d, ")
    (line,) = found(configured(tmp_path, edit, DERIVED), 31)
    assert "reads item.sold_180d of the view 'windows'" in line


def test_an_age_that_is_no_number_is_too_old(tmp_path: Path) -> None:
    assert len(stale_views(configured(tmp_path, LIMITED), float("nan"))) == 1


def test_every_scene_is_named(tmp_path: Path) -> None:
    folder = example(tmp_path, LIMITED)
    text = (folder / HOME).read_text().replace("scene: home", "scene: other").replace("$recall.vector_k", "100")
    (folder / "scenes" / "other.yaml").write_text(text.replace(", relevance: $re_rank.relevance", ""))
    assert [line.partition(":")[0] for line in found(load(folder), 31)] == ["scenes/home.yaml", "scenes/other.yaml"]


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Config:
    return configured(tmp_path_factory.mktemp("limited"), LIMITED)


@given(age=st.floats(-1e9, 1e9))
def test_a_release_is_stale_exactly_beyond_its_limit(limited: Config, age: float) -> None:
    assert bool(stale_views(limited, age)) == (age > 30 * DAY)
