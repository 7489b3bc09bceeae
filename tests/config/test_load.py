"""The example of the documentation loads, completely and repeatably."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from app.config.load import load_config, schema_of
from app.config.model import ContextField, FieldConfig
from app.config.problems import ConfigError
from stages.roles import ColumnName
from stages.scene import Param
from tests.config.support import EXAMPLE, example, load, problems


def test_the_example_loads_into_the_funnel_it_describes() -> None:
    scene = load(EXAMPLE).scenes["home"]
    assert [step.name for step in scene.steps] == [
        "recall.vector",
        "recall.i2i",
        "recall.popular",
        "filters.seen",
        "filters.sellable",
        "pre_rank.dot",
        "rank.model",
        "re_rank.mmr",
        "re_rank.spread",
    ]
    assert (scene.budget, scene.limit, scene.returned) == (0.12, 1000, ("title", "price"))
    assert (scene.fallback, scene.group) == ("popular", "context.region")


def test_settings_are_typed_and_parameters_stay_names() -> None:
    steps = {step.name: step for step in load(EXAMPLE).scenes["home"].steps}
    assert steps["recall.vector"].settings == {
        "index": "item_vectors",
        "query": "user.embedding",
        "k": Param("recall.vector_k"),
    }
    assert isinstance(steps["recall.vector"].settings["query"], ColumnName)
    assert steps["recall.i2i"].settings["table"] == "i2i", "the table defaults to the channel's name"
    assert steps["recall.popular"].at_least == 20
    assert steps["pre_rank.dot"].settings == {"user": "user.embedding", "item": "item.embedding"}
    assert steps["pre_rank.dot"].keep == 300
    assert steps["rank.model"].settings == {"model": "trees", "score": "buy ** 0.7"}
    assert steps["filters.sellable"].settings == {"condition": "item.stock > 0 and item.status == 'on'"}


def test_views_fields_and_context_have_types_and_defaults() -> None:
    config = load(EXAMPLE)
    view, field = config.features.fields["user.age"]
    assert (view.kind, view.key, view.cache and view.cache.bytes) == ("live", "u:{id}", 64 << 20)
    assert field == FieldConfig("age", "f32", None, "mean")
    assert config.features.fields["item.embedding"][1].width == 64
    assert config.service.context == {
        "region": ContextField("str", "all"),
        "hour": ContextField("int", None),
        "app_version": ContextField("semver", "0.0.0"),
    }
    assert config.models.models["din"].reads[-2:] == ("item.embedding", "user.recent_items")


def test_the_schema_of_a_scene_has_channels_and_heads_but_no_histories() -> None:
    schema = schema_of(load(EXAMPLE), "home")
    assert schema["buy"] == schema["channel.i2i.rank"] == schema["item.trend"] == "f32"
    assert schema["context.app_version"] == "semver"
    assert not {"user.recent_items", "user.history", "spend"} & set(schema)


def test_the_id_follows_content_and_not_comments_or_places(tmp_path: Path) -> None:
    base = load(EXAMPLE).id
    assert len(base) == 12
    assert int(base, 16) >= 0
    commented = example(tmp_path / "a", ("scenes/home.yaml", "scene: home", "scene: home # the first page"))
    moved = example(tmp_path / "b")
    changed = example(tmp_path / "c", ("scenes/home.yaml", "keep: 300", "keep: 301"))
    assert load(commented).id == base
    assert load(moved, {"REDIS_URL": "redis://elsewhere:6379/0"}).id == base
    assert load(changed).id != base


def test_environment_variables_fill_in_and_keep_their_type(tmp_path: Path) -> None:
    folder = example(
        tmp_path,
        ("scenes/home.yaml", "  - spread: {by: item.category, max: 2, within: 5}", "  - spread: [item.category, 2]"),
        ("scenes/home.yaml", "merge", "merge")
        if False
        else ("scenes/home.yaml", "budget: 120ms", "budget: ${B:-90ms}"),
        ("service.yaml", "extensions: []", "extensions: []\ntoken: ${TOKEN}"),
    )
    config = load(folder, {"TOKEN": "secret", "REDIS_URL": "redis://me:pw@host:1/0", "B": ""})
    assert config.service.store_url == "redis://me:pw@host:1/0"
    assert config.service.token == "secret"
    assert config.scenes["home"].budget == 0.09


def test_secrets_are_not_in_documents_or_representations(tmp_path: Path) -> None:
    folder = example(tmp_path, ("service.yaml", "extensions: []", "extensions: []\ntoken: ${TOKEN}"))
    config = load(folder, {"TOKEN": "s3cret", "REDIS_URL": "redis://me:hunter2@host:1/0"})
    shown = f"{config.documents!r} {config.service.token and config!r}"
    assert "s3cret" not in shown
    assert "hunter2" not in str(config.documents)


def test_two_steps_of_one_component_have_two_names(tmp_path: Path) -> None:
    folder = example(tmp_path, ("scenes/home.yaml", "return:", "  - spread: [item.status]\nreturn:"))
    names = [step.name for step in load(folder).scenes["home"].re_rank]
    assert names == ["re_rank.mmr", "re_rank.spread", "re_rank.spread_2"]


def test_later_checks_can_name_a_position() -> None:
    config = load(EXAMPLE)
    problem = config.problem((*config.scenes["home"].recall[0].path, "index"), "No such artefact.")
    assert str(problem) == f"{EXAMPLE}/scenes/home.yaml:5 recall.vector.index: No such artefact."


def test_a_component_of_an_extension_has_its_settings_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "shop_channels"
    package.mkdir()
    (package / "__init__.py").write_text(
        "from stages.registry import Duration, component\n"
        "from recserve.sdk import NO_HITS, Recaller\n"
        "@component('newest')\n"
        "class Newest(Recaller):\n"
        "    k: int = 50\n"
        "    since: Duration = Duration(60)\n"
        "    def recall(self, view):\n"
        "        return NO_HITS\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    edits = ("service.yaml", "extensions: []", "extensions: [shop_channels]")
    good = example(tmp_path / "good", edits, ("scenes/home.yaml", "recall:\n", "recall:\n  newest: {since: 2d}\n"))
    step = load_config(good, env={}).scenes["home"].recall[0]
    assert (step.name, step.settings) == ("recall.newest", {"since": 172800.0})
    bad = example(tmp_path / "bad", edits, ("scenes/home.yaml", "recall:\n", "recall:\n  newest: {since: 2}\n"))
    with pytest.raises(ConfigError, match=r"home.yaml:5 recall.newest.since: Got 2. Expected a duration"):
        load_config(bad, env={})
    sys.modules.pop("shop_channels")


def test_an_extension_that_is_not_installed_is_one_problem(tmp_path: Path) -> None:
    folder = example(
        tmp_path,
        ("service.yaml", "extensions: []", "extensions: [nobody_has_this]"),
        ("scenes/home.yaml", "recall:\n", "recall:\n  newest: {}\n"),
    )
    with pytest.raises(ConfigError) as raised:
        load_config(folder, env={})
    assert [problem.message for problem in raised.value.problems] == [
        "An extension can't be imported (ModuleNotFoundError: No module named 'nobody_has_this'). "
        "Install it beside recserve, or mend it."
    ]


def test_on_in_quotes_is_text(tmp_path: Path) -> None:
    assert problems(example(tmp_path, ("features.yaml", '"str = off"', '"str = on"'))) == []


def test_a_file_that_is_not_read_is_named(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLE, tmp_path / "c")
    (tmp_path / "c" / "feature.yml").write_text("version: 1\n")
    with pytest.raises(ConfigError) as raised:
        load_config(tmp_path / "c", env={})
    assert "feature.yml: Not read: it isn't a file of a configuration. Did you mean 'features.yaml'?" in str(
        raised.value
    )


def test_a_file_name_that_is_not_utf_8_is_named_escaped(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLE, tmp_path / "c")
    (tmp_path / "c/scenes/home.yaml").rename(tmp_path / "c/scenes/\udcff.yaml")
    with pytest.raises(ConfigError) as raised:
        load_config(tmp_path / "c", env={})
    said = "The name isn't UTF-8. Expected one that is: rename the file, or remove it."
    assert rf"{tmp_path}/c/scenes/\xff.yaml: {said}" in str(raised.value)
