"""What a scene gives up under load, and what class its requests are of."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from app.config.load import load_config
from app.config.problems import ConfigError
from app.config.resolved import render_resolved
from stages.scene import LadderConfig, SceneConfig
from tests.config.support import EXAMPLE, HOME, MODELS, example, load, problems
from tests.config.test_resolved import lines_of, without_comments

SMALL = (MODELS, "  din:", "  small: {features: [item.price], heads: [buy]}\n  din:")


def scene(folder: Path, added: str, *edits: tuple[str, str, str]) -> SceneConfig:
    return load(example(folder, (HOME, "fallback: popular", f"fallback: popular\n{added}"), *edits)).scenes["home"]


def test_a_scene_without_a_ladder_has_the_default_one() -> None:
    home = load(EXAMPLE).scenes["home"]
    assert home.ladder == LadderConfig()
    assert home.priority == "interactive"


def test_channels_are_skipped_by_the_names_of_their_steps(tmp_path: Path) -> None:
    home = scene(tmp_path, "ladder: {least: 50, skip: [i2i, vector]}\npriority: prefetch")
    assert home.ladder == LadderConfig(50, ("recall.i2i", "recall.vector"))
    assert home.priority == "prefetch"


def test_no_channel_is_skipped_where_the_list_is_empty(tmp_path: Path) -> None:
    assert scene(tmp_path, "ladder: {skip: []}").ladder.skip == ()


def test_the_small_step_is_the_rank_step_with_another_model(tmp_path: Path) -> None:
    home = scene(tmp_path, "ladder: {model: small}", SMALL, (HOME, "{model: trees,", "{model: trees, cap: 20ms,"))
    assert home.rank is not None
    assert home.ladder.small is not None
    expected = {**home.rank.settings, "model": "small"}
    assert home.ladder.small == replace(home.rank, settings=expected, path=(HOME, "ladder", "model"))
    assert home.ladder.small.name == "rank.model"
    assert list(home.ladder.small.settings) == list(home.rank.settings), "the order of settings is a component's own"


def test_more_heads_than_the_score_reads_do_no_harm(tmp_path: Path) -> None:
    assert scene(tmp_path, "ladder: {model: din}").ladder.small is not None


def test_a_ranker_without_a_model_has_no_smaller_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "shop_rankers"
    package.mkdir()
    (package / "__init__.py").write_text(
        "from recserve.sdk import Scorer, component\n"
        "@component('as_merged')\n"
        "class AsMerged(Scorer):\n"
        "    def score(self, view, batch):\n"
        "        return batch.score\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    folder = example(
        tmp_path,
        ("service.yaml", "extensions: []", "extensions: [shop_rankers]"),
        (HOME, 'rank: {model: trees, score: "buy ** 0.7"}', "rank: as_merged\nladder: {model: din}"),
    )
    with pytest.raises(ConfigError, match=r"ladder.model: The rank step as_merged has no setting 'model' to replace"):
        load_config(folder, env={})
    sys.modules.pop("shop_rankers")


def test_the_default_gives_way_to_what_reaches_the_ranker(tmp_path: Path) -> None:
    assert scene(tmp_path / "a", "", (HOME, "keep: 300", "keep: 30")).ladder.least == 30
    assert scene(tmp_path / "b", "merge: {limit: 20}").ladder.least == 20
    assert scene(tmp_path / "c", "ladder: {skip: []}", (HOME, "keep: 300", "keep: 30")).ladder.least == 30


def test_the_smallest_value_of_a_parameter_counts(tmp_path: Path) -> None:
    edits = (
        ("abtest.yaml", "recall: {unit: user_id, experiments: {}}", "recall: {unit: user_id, experiments: {"
         "exp@1: {owner: ranking, status: running, slots: [[0, 100]], buckets: {a: {weight: 5000, control: true, set: "
         "{recall.vector_k: 500}}, b: {weight: 5000, set: {recall.vector_k: 150}}}}}}"),
        (HOME, "keep: 300", "keep: $recall.vector_k"),
    )  # fmt: skip
    folder = example(tmp_path, (HOME, "fallback: popular", "ladder: {least: 151}"), *edits)
    assert problems(folder) == [
        "scenes/home.yaml:17 ladder.least: 151 candidates at least, but pre_rank keeps 150. Expected at most 150."
    ]


@pytest.mark.parametrize(
    "added", ["", "ladder: {least: 20, skip: [i2i], model: din}\npriority: batch", "ladder: {skip: []}"]
)
def test_what_is_printed_is_the_same_ladder_again(tmp_path: Path, added: str) -> None:
    first = example(tmp_path / "first", (HOME, "fallback: popular", f"fallback: popular\n{added}"))
    printed = render_resolved(load(first), "home")
    again = example(tmp_path / "again")
    (again / HOME).write_text(printed)
    one, other = load(first).scenes["home"], load(again).scenes["home"]
    assert (other.priority, other.ladder.least, other.ladder.skip) == (
        one.priority,
        one.ladder.least,
        one.ladder.skip,
    )
    assert (other.ladder.small is None) == (one.ladder.small is None)
    assert without_comments(render_resolved(load(again), "home")) == without_comments(printed)


def test_each_rung_says_where_it_came_from(tmp_path: Path) -> None:
    default = lines_of(render_resolved(load(EXAMPLE), "home"))
    assert default["least: 100"].startswith("default")
    assert default["priority: interactive"] == "default"
    folder = example(tmp_path, (HOME, "fallback: popular", "ladder: {least: 20, skip: [i2i], model: din}"))
    lines = lines_of(render_resolved(load(folder), "home"))
    for text in ("least: 20", "skip: [i2i]", "model: din"):
        assert lines[text] == f"{folder}/{HOME}:17"
