from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.config.load import load_config
from app.config.problems import ConfigError
from app.config.write import render, write_files
from app.config.yaml_nodes import read
from bootstrap.build import Built
from bootstrap.configuration import FILES, documents
from bootstrap.dataset import Dataset
from bootstrap.demo import read_demo
from bootstrap.popularity import popularity_columns
from bootstrap.recipe import Recipe, features, scenes
from features.manifest import Manifest
from tests.bootstrap.small import dataset, shop_items, shop_rows

SHIPPED = Path(__file__).parents[2] / "configs"
TITLE_DIM = 32
# Without `${` and `<<`, which mean a variable and a merge to the reader, quoted or not.
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="$<"), max_size=12) | st.sampled_from(
    ["y", "N", "on", "1e5", "0x1F", "012", "1:20", "1_0", ".inf", "~", "", " a", "- a", "a: b", "#", "null", "="]
)


def built(data: Dataset, *, ranked: bool = True) -> Built:
    """What a build of `data` would hand to the writer of configuration; nothing is trained."""
    recipe = Recipe()
    made = scenes(recipe, data.found)
    columns = popularity_columns(data.user[:5], data.item[:5], data.ts[:5], len(data.item_ids), data.as_of)
    columns |= {f"{code}_sold_30d": columns["sold_30d"] for code in data.found.codes}
    counted = {name: "time" if name in ("first_seen", "last_seen") else "f32" for name in columns}
    names = {scene.name: features(scene, data.found) for scene in made} if ranked else {}
    nothing = Manifest(Path(), "none", data.as_of, {}, {}, {}, {}, {})
    return Built(nothing, data, recipe, made, names, counted, TITLE_DIM if data.found.titled else 0)


def test_the_shipped_configuration_is_what_bootstrap_writes_for_the_demo(tmp_path):
    demo = read_demo()
    log = demo.interactions
    head = {name: getattr(log, name)[:1000] for name in ("user", "item", "ts", "event", "weight")}
    data = Dataset.of(replace(demo, interactions=replace(log, **head)))
    written = write_files(tmp_path, documents(built(data)))
    assert {str(path.relative_to(tmp_path)) for path in written} == set(FILES)
    shipped = {str(path.relative_to(SHIPPED)) for path in SHIPPED.rglob("*.yaml")}
    assert shipped == set(FILES)
    for name in FILES:
        assert (SHIPPED / name).read_text() == (tmp_path / name).read_text(), f"{name}: run recserve bootstrap --demo"


@pytest.mark.parametrize("ranked", [True, False])
@pytest.mark.parametrize("titled", [True, False])
@pytest.mark.parametrize("grouped", [True, False])
def test_any_columns_give_a_configuration_that_passes_check(tmp_path, ranked, titled, grouped):
    tables = {}
    if titled:
        tables["items"] = shop_items()
    if grouped:
        tables["users"] = {"user_id": ["u1", "u2"], "region": ["n", "s"], "age": [30, 40]}
    data = dataset(tmp_path, shop_rows(), **tables)
    write_files(tmp_path / "configs", documents(built(data, ranked=ranked)))
    config = load_config(tmp_path / "configs", env={})
    assert set(config.scenes) == {"home", "discover"}
    home, discover = (config.scenes[name] for name in ("home", "discover"))
    assert (home.rank is not None) is ranked
    assert [step.name for step in home.recall][-1] == "recall.repeat"
    assert "filters.seen" in [step.name for step in discover.filters]
    assert "filters.seen" not in [step.name for step in home.filters]
    assert (home.group == "user.region") is grouped
    assert ("title" in home.returned) is titled


def test_column_names_that_yaml_would_misread_are_written_safely(tmp_path):
    names = ("on", "y", "n", "Größe (cm)", "null", "1e5", "0x1F", "12:30", "No")
    items = {"item_id": ["i1", "i2"], **{name: ["a", "b"] for name in names}}
    rows = [(*row, ("y", "1e5", "on", "0123", "a: {b}")[at % 5]) for at, row in enumerate(shop_rows(events=100))]
    data = dataset(tmp_path, rows, items=items)
    write_files(tmp_path / "configs", documents(built(data)))
    config = load_config(tmp_path / "configs", env={})
    fields = config.features.entities["item"]["catalogue"].fields
    assert set(fields) == set(data.found.item_columns)
    assert len(fields) == len(names)
    assert sorted(config.features.behaviour.events) == sorted(["y", "1e5", "on", "0123", "a: {b}"])


@given(st.recursive(TEXT, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4)))
def test_any_text_written_is_read_back_as_it_was(value):
    document = {"version": 1, "x": value}
    read_back = read(render(document).encode(), "x.yaml", {})
    assert read_back.problems == []
    assert read_back.value == document


def test_columns_called_like_those_that_bootstrap_adds_are_set_aside(tmp_path):
    items = {
        "item_id": ["i1", "i2", "i3"],
        "title": ["a b", "b c", "c d"],
        "brand": ["x", "y", "x"],
        "embedding": [1.0, 2.0, 3.0],
        "buyers": ["m", "n", "m"],
        "trend_7_30": [1.0, 2.0, 3.0],
        "brand_share": [0.5, 0.1, 0.2],
        "history_length": [5, 6, 7],
        "id": ["p", "q", "q"],
        "sold_7d": [7, 8, 9],
    }
    users = {"user_id": ["u1", "u2"], "history": ["p", "q"], "embedding": [1.5, 2.5], "recent_items": ["a", "b"]}
    data = dataset(tmp_path, shop_rows(), items=items, users=users)
    assert {"embedding_given", "buyers_given", "brand_share_given", "brand", "id_given"} <= set(data.item_columns)
    assert set(data.user_columns) == {"history_given", "embedding_given", "recent_items_given"}
    write_files(tmp_path / "configs", documents(built(data)))
    assert set(load_config(tmp_path / "configs", env={}).scenes) == {"home", "discover"}


def test_a_title_column_of_numbers_is_one_of_titles(tmp_path):
    data = dataset(tmp_path, shop_rows(), items={"item_id": ["i1", "i2"], "title": [1984, 2001]})
    assert data.found.titled
    write_files(tmp_path / "configs", documents(built(data)))
    load_config(tmp_path / "configs", env={})


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("home", "k: 300", "k: -1"),
        ("home", "k: 200", "k: 0"),
        ("discover", "half_life: 30d", "half_life: 0s"),
        ("discover", "relevance: $discover.relevance", "relevance: 1.5"),
        ("home", "max: 2", "max: 0"),
        ("home", "k: 300", "k: 1000000000000"),
    ],
)
def test_settings_out_of_range_are_refused_with_their_bounds(tmp_path, file, old, new):
    data = dataset(tmp_path, shop_rows(), items=shop_items())
    write_files(tmp_path / "configs", documents(built(data)))
    path = tmp_path / "configs" / "scenes" / f"{file}.yaml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(ConfigError, match=r"out of range\. Expected"):
        load_config(tmp_path / "configs", env={})
