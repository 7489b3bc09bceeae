"""Loading a release: everything is there, fits and is warm, or the error names what is not."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from features.item_table import IdTable
from features.lists import Lists
from features.manifest import ReleaseWriter
from features.resident import FieldSpec
from stages.derived import DerivedSpec
from stages.errors import ReleaseError
from stages.runtime.indexes import build_index
from stages.runtime.release import ModelSpec, ReleaseSpec, ViewSpec, load_release
from tests.stages import graphs
from tests.stages.small import SPEC, Engine, home, load, step, write_release

FEATURES = ("item.price", "user.age")
TREES = ModelSpec(("buy",), FEATURES)
ITEM_VECTORS = ViewSpec("item", "vectors", {"embedding": FieldSpec("f32[4]")})
VECTORS = np.eye(3, 4, dtype=np.float32)


def release(
    tmp_path: Path,
    *,
    lists: int = 3,
    neighbour: int = 0,
    vectors: np.ndarray = VECTORS,
    space: str = "als",
    features: tuple[str, ...] | None = FEATURES,
) -> Path:
    """A release of three items, with one of everything."""
    writer = ReleaseWriter(tmp_path, "r9", 0.0)
    writer.ids("item", IdTable.build(["a", "b", "c"]))
    writer.ids("user", IdTable.build(["u"]))
    writer.view("items", "item", {"price": np.array([1, 2, 3], np.float32)})
    writer.view("vectors", "item", {"embedding": VECTORS}, {"embedding": "als"})
    writer.view("users", "user", {"embedding": np.ones((1, 4), np.float32)}, {"embedding": "als"})
    writer.lists(
        "i2i", Lists(np.arange(lists + 1), np.array([neighbour, 0, 0][:lists], np.int32), np.ones(lists, np.float32))
    )
    build_index(vectors, vectors, space=space).write(writer.root / "v.faiss")
    writer.file("indexes", "vectors", "v.faiss", space=space, effort=None)
    graphs.linear(writer.root / "trees.onnx", [1, 1])
    writer.file("models", "trees", "trees.onnx", **({} if features is None else {"features": list(features)}))
    return writer.finish().root


def spec(**changes: object) -> ReleaseSpec:
    whole = ReleaseSpec(
        views=[ViewSpec("item", "items", {"price": FieldSpec("f32")}), ITEM_VECTORS],
        indexes={"vectors": "item.embedding"},
        tables=("i2i",),
        models={"trees": TREES},
        widths={"item.embedding": 4},
    )
    return replace(whole, **changes)  # type: ignore[arg-type]  # a test's keyword arguments


def test_a_whole_release_is_loaded(tmp_path: Path) -> None:
    loaded = load_release(release(tmp_path), spec())
    assert (len(loaded.items), loaded.manifest.release) == (3, "r9")
    assert set(loaded.resident) == {"item.price", "item.embedding"}
    assert loaded.spaces == {"item.embedding": "als"}
    assert loaded.models["trees"].heads == ("buy",)
    assert loaded.indexes["vectors"].dim == 4
    assert loaded.tables["i2i"].slice(2)[0].tolist() == [0]


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (spec(views=[ViewSpec("item", "goods", {})]), "Release r9 has no view 'goods'. It has items, vectors, users"),
        (
            spec(views=[ViewSpec("item", "items", {"colour": FieldSpec("str")})]),
            "view 'items' has no field 'colour'. It has price",
        ),
        (
            spec(views=[ViewSpec("item", "items", {"price": FieldSpec("i32")})]),
            r"items\.price as f32, the configuration says i32",
        ),
        (spec(views=[ViewSpec("item", "users", {})]), "view 'users' is of users. Expected items"),
        (spec(tables=("popular",)), "Release r9 has no list 'popular'. It has i2i"),
        (spec(indexes={"faces": "item.embedding"}), "Release r9 has no index 'faces'. It has vectors"),
        (spec(models={"din": TREES}), "Release r9 has no model 'din'. It has trees"),
        (spec(models={"trees": ModelSpec(("spend",), FEATURES)}), "no head 'spend'. Its outputs: buy"),
        (
            spec(models={"trees": ModelSpec(("buy",), ("user.age", "item.price"))}),
            r"place 1 is item\.price in the model and user\.age in the list",
        ),
        (spec(models={"trees": ModelSpec(("buy",), FEATURES[:1])}), "2 in the model, 1 in the list"),
        (
            spec(models={"trees": ModelSpec(("buy",), history=("item.looks", "user.recent"))}),
            r"gathers item\.looks",
        ),
        (
            spec(derived=[DerivedSpec("item.near", "history_similarity", ("user.history", "item.looks"))]),
            r"item\.near: history_similarity needs item\.looks in memory",
        ),
    ],
)
def test_what_the_release_lacks_is_named(tmp_path: Path, wanted: ReleaseSpec, message: str) -> None:
    root = release(tmp_path)
    with pytest.raises(ReleaseError, match=message):
        load_release(root, wanted)


def test_a_model_that_does_not_say_its_features_is_checked_by_width(tmp_path: Path) -> None:
    root = release(tmp_path, features=None)
    load_release(root, spec())
    with pytest.raises(ReleaseError, match=r"takes 2 columns in 'features'\. The configuration lists 1"):
        load_release(root, spec(models={"trees": ModelSpec(("buy",), FEATURES[:1])}))


def test_an_index_of_another_space_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match=r"'vectors' is of space 'clip' and item\.embedding of 'als'"):
        load_release(release(tmp_path, space="clip"), spec())


@pytest.mark.parametrize("vectors", [VECTORS[:2], np.eye(3, dtype=np.float32)])
def test_an_index_over_other_vectors_is_refused(tmp_path: Path, vectors: np.ndarray) -> None:
    with pytest.raises(ReleaseError, match=r"'vectors' holds \d x \d and item\.embedding is 3 x 4"):
        load_release(release(tmp_path, vectors=vectors), spec())


def test_item_lists_that_do_not_cover_the_items_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match=r"'i2i' has 2 entries\. Expected one for each of 3 items"):
        load_release(release(tmp_path, lists=2), spec())


@pytest.mark.parametrize("row", [-1, 3])
def test_lists_of_rows_that_are_not_there_are_refused(tmp_path: Path, row: int) -> None:
    with pytest.raises(ReleaseError, match=r"List 'i2i' names rows .* of 3 items"):
        load_release(release(tmp_path, neighbour=row), spec())


def test_a_damaged_file_is_named_and_without_verification_not_looked_for(tmp_path: Path) -> None:
    root = release(tmp_path)
    price = root / "items.price.npy"
    content = price.read_bytes()
    price.write_bytes(content[:-1] + b"\x01")
    with pytest.raises(ReleaseError, match=r"items\.price\.npy: differs from the manifest"):
        load_release(root, spec())
    load_release(root, spec(), verify=False)


def test_no_release_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match="there is no manifest"):
        load_release(tmp_path / "r9", spec())
    root = release(tmp_path)
    document = json.loads((root / "manifest.json").read_text())
    (root / "manifest.json").write_text(json.dumps({**document, "version": 99}))
    with pytest.raises(ReleaseError, match="format 99"):
        load_release(root, spec())


def test_vectors_of_different_spaces_refuse_to_meet_in_a_step(tmp_path: Path) -> None:
    loaded = load(write_release(tmp_path))
    mixed = replace(loaded, spaces={**loaded.spaces, "user.embedding": "two_tower"})
    with pytest.raises(ReleaseError, match=r"recall\.vector: .*index in 'als', query in 'two_tower'"):
        Engine(mixed).plan(home())
    with pytest.raises(ReleaseError, match=r"pre_rank\.dot: .*user in 'two_tower', item in 'als'"):
        Engine(mixed).plan(home(recall=()))


def test_a_scene_that_names_what_the_release_lacks_is_refused(engine: Engine) -> None:
    with pytest.raises(ReleaseError, match=r"no table 'nope'\. It has i2i, popular"):
        engine.plan(home(fallback="nope"))
    wrong = step("recall", "recall.vector", "vector", {"index": "nope", "query": "user.embedding"})
    with pytest.raises(ReleaseError, match=r"no index 'nope'\. It has item_vectors"):
        engine.plan(home(recall=(wrong,)))


def test_a_ranker_whose_scores_are_nan_keeps_the_order_and_says_so(tmp_path: Path) -> None:
    root = write_release(tmp_path)
    graphs.logarithm(root / "bad.onnx", 1)
    manifest = json.loads((root / "manifest.json").read_text())
    manifest["models"]["bad"] = {"file": "bad.onnx", "files": {}}
    (root / "manifest.json").write_text(json.dumps(manifest))
    bad = {"bad": ModelSpec(("buy",), ("user.embedding",))}
    loaded = load_release(root, replace(SPEC, models=bad, widths={**SPEC.widths, "user.embedding": 1}))
    engine = Engine(loaded)
    # the model takes the logarithm of a column that this user does not have: NaN for all
    rank = step("rank", "rank.bad", "model", {"model": "bad", "score": "buy"})
    plain, _ = engine.run(home(re_rank=()), user_id=None)
    ranked, outcome = engine.run(home(re_rank=(), rank=rank), user_id=None)
    assert ranked.ids == plain.ids
    assert ranked.degraded == [("rank.bad", "invalid_output")]
    assert outcome.bugs == 1
