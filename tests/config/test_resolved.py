"""What a scene looks like with its defaults filled in."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.config.quantities import QuantityError, duration_text, seconds
from app.config.resolved import render_resolved
from tests.config.support import EXAMPLE, HOME, example, load


def without_comments(text: str) -> list[str]:
    return [line.partition("  #")[0].rstrip() for line in text.splitlines() if not line.lstrip().startswith("#")]


def lines_of(text: str) -> dict[str, str]:
    """Comment by text of the line."""
    pairs = (line.partition("  # ") for line in text.splitlines())
    return {before.strip(): comment for before, _, comment in pairs}


def test_each_value_says_where_it_came_from() -> None:
    lines = lines_of(render_resolved(load(EXAMPLE), "home"))
    home = f"{EXAMPLE}/{HOME}"
    assert lines["budget: 120ms"] == f"{home}:3"
    assert lines["index: item_vectors"] == f"{home}:5"
    assert lines["use: item_to_item"] == f"{home}:6"
    assert lines["use: vector"] == "default: the step's name"
    assert lines["table: i2i"] == "default: the channel's name"
    assert "default of item_to_item" in lines.values()
    assert lines["limit: 1000"] == "default"
    assert lines["on_fail: open"] == f"{home}:9"
    assert lines["on_fail: closed"] == "default of filter steps"
    assert lines["item: item.embedding"] == f"{home}:11"
    assert lines["- mmr:"] == "$re_rank.relevance in [0.9, 0.7]"
    assert lines["by: context.region"].startswith((home, "default"))


def test_what_is_printed_is_the_same_scene_again(tmp_path: Path) -> None:
    printed = render_resolved(load(EXAMPLE), "home")
    folder = example(tmp_path)
    (folder / HOME).write_text(printed)
    again = load(folder)
    assert without_comments(render_resolved(again, "home")) == without_comments(printed)
    first, second = load(EXAMPLE).scenes["home"], again.scenes["home"]
    for before, after in zip(first.steps, second.steps, strict=True):
        assert (before.name, before.component, before.keep) == (after.name, after.component, after.keep)
        assert before.settings.items() <= after.settings.items()


@pytest.mark.parametrize(
    ("text", "value"), [("120ms", 0.12), ("90s", 90.0), ("15m", 900.0), ("12h", 43200.0), ("30d", 2592000.0)]
)
def test_durations_are_written_as_they_are_read(text: str, value: float) -> None:
    assert seconds(text) == pytest.approx(value)
    assert seconds(duration_text(value)) == pytest.approx(value)


@given(st.floats(0.001, 1e8))
def test_any_duration_survives_being_written(value: float) -> None:
    assert seconds(duration_text(value)) == pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize("text", ["", "1", "s", "1.s", "-1s", "1 s", "1w", "1e3s", 5, None, "9999999999s"])
def test_what_is_no_duration_is_refused(text: object) -> None:
    with pytest.raises(QuantityError, match="Expected a duration"):
        seconds(text)
