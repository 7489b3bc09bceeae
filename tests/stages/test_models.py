"""ONNX models: inputs are assembled column by column, whatever lies packed; signatures that differ are named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

from expression import Strings, compile_expression
from features.history import History
from stages.columns import Columns
from stages.errors import InvalidOutput, ReleaseError
from stages.merge import merge
from stages.rank.model import ModelScorer
from stages.runtime.models import Features, SplitInputs, load_model
from stages.types import Candidates, View
from tests.stages import graphs
from tests.stages.fakes import batch_of, hits, texts, view_of

N = 6
RESIDENT: dict[str, Any] = {
    "item.price": np.array([1, 2, np.nan, 4, 5, 6], np.float32),
    "item.stock": np.arange(N, dtype=np.int32),
    "item.on": np.array([True, False] * 3),
    "item.first_seen": np.linspace(0, 1, N),
    "item.category": texts("a", "b", None, "a", "c", "b"),
    "item.vector": np.arange(N * 3, dtype=np.float32).reshape(N, 3),
}
USER: dict[str, Any] = {"user.age": 30.0, "user.vip": True, "user.vector": np.array([7, 8], np.float32)}
WIDTHS = {"item.vector": 3, "user.vector": 2}
NAMES = [*RESIDENT, *USER, "user.absent", "channel.a.score", "channel.b.rank", "channel.never.rank"]


def merged(view: View) -> Candidates:
    sources = Columns(view, RESIDENT, {})
    return merge([hits(3, 0), hits(0, 2, 5)], ["a", "b"], sources, limit=10, at_least={})


def column_by_column(names: list[str], view: View, batch: Candidates) -> np.ndarray:
    parts = []
    for name in names:
        width = WIDTHS.get(name, 1)
        part = np.full((len(batch), width), np.nan, np.float32)
        value = batch[name]
        for i in range(len(batch) if value is not None else 0):
            if isinstance(value, Strings):
                part[i] = value.codes[i]
            else:
                part[i] = value[i] if name.startswith(("item.", "channel.")) else value
        parts.append(part)
    return np.concatenate(parts, axis=1)


@given(st.lists(st.sampled_from(NAMES), min_size=1, max_size=8, unique=True), st.lists(st.integers(0, 3), unique=True))
def test_packed_features_equal_a_column_by_column_assembly(names: list[str], index: list[int]) -> None:
    view = view_of(USER)
    batch = merged(view).take(np.array(index, np.intp))
    features = Features(names, WIDTHS, RESIDENT)
    made = features(view, batch)["features"]
    np.testing.assert_array_equal(made, column_by_column(names, view, batch))
    assert made.dtype == np.float32
    assert made.flags.c_contiguous
    assert made.shape == features.blank(len(batch))["features"].shape
    assert features.needs == set(names)


def test_assembling_leaves_the_release_as_it_is() -> None:
    before = {name: c.copy() for name, c in RESIDENT.items() if isinstance(c, np.ndarray)}
    features = Features(["item.price", "user.age", "item.vector"], WIDTHS, RESIDENT)
    batch = batch_of([1, 2], resident=RESIDENT, view=view_of(USER))
    first = features(view_of(USER), batch)["features"]
    first[:] = -1
    assert features(view_of(USER), batch)["features"][0].tolist() == [2, 30, 3, 4, 5]
    for name, column in before.items():
        np.testing.assert_array_equal(column, RESIDENT[name])


def history(*found: int) -> History:
    m = len(found)
    zeros = np.zeros(m)
    return History(
        np.array(found, np.int32), zeros.astype(np.uint64), zeros, zeros.astype(np.uint16), zeros.astype(np.float32)
    )


SPLIT = (["user.age", "user.vector"], ["item.price", "item.vector"], ("item.vector", "user.recent"))


def split(resident: dict[str, Any] | None = None) -> SplitInputs:
    return SplitInputs(*SPLIT, WIDTHS, resident or RESIDENT)


def test_the_user_side_is_one_row_and_the_history_its_items_vectors() -> None:
    view = view_of({**USER, "user.recent": history(1, -1, 4)})
    inputs = split()(view, batch_of([2, 3], resident=RESIDENT, view=view))
    assert inputs["user"].tolist() == [[30, 7, 8]]
    assert inputs["item"].tolist() == [[0, 6, 7, 8], [4, 9, 10, 11]]  # the missing price is 0
    assert inputs["history"].tolist() == [[3, 4, 5], [12, 13, 14]]
    assert {i.dtype for i in inputs.values()} == {np.dtype(np.float32)}
    assert split().needs == {"user.age", "user.vector", "item.price", "item.vector", "user.recent"}


@pytest.mark.parametrize("had", [None, history(), history(-1), history(2)])
def test_what_a_user_lacks_is_zeros(had: History | None) -> None:
    vectors = RESIDENT["item.vector"].copy()
    vectors[2] = np.nan
    resident = {**RESIDENT, "item.vector": vectors}
    view = view_of({} if had is None else {"user.recent": had})
    inputs = split(resident)(view, batch_of([1], resident=resident, view=view))
    assert inputs["user"].tolist() == [[0, 0, 0]]
    assert inputs["history"].tolist() == [[0, 0, 0]]


def test_one_item_without_a_vector_spoils_neither_the_history_nor_the_batch(tmp_path: Path) -> None:
    vectors = RESIDENT["item.vector"].copy()
    vectors[2] = np.nan
    resident = {**RESIDENT, "item.vector": vectors}
    model = load_model(graphs.split(tmp_path / "m.onnx", 3, 4, 3), "din", ["buy"], split(resident))
    view = view_of({**USER, "user.recent": history(0, 2)})
    batch = batch_of([1, 2], resident=resident, view=view)
    assert model.score(view, batch)["buy"].tolist() == [30 + 7 + 8 + (2 + 3 + 4 + 5) + 1, 30 + 7 + 8 + 1]


def test_a_history_over_a_column_that_is_not_resident_is_refused() -> None:
    with pytest.raises(ReleaseError, match=r"gathers item\.vector\. Expected a resident column"):
        SplitInputs(*SPLIT, WIDTHS, {})


FEATURES = ["item.price", "item.stock"]


def test_a_model_scores_every_head_and_any_number_of_candidates(tmp_path: Path) -> None:
    path = graphs.linear(tmp_path / "m.onnx", [1, 2], ["buy", "spend"], squash=False)
    model = load_model(path, "trees", ["spend", "buy"], Features(FEATURES, {}, RESIDENT))
    assert model.cost_ms > 0
    assert model.needs == set(FEATURES)
    for rows in ([0], [1, 3, 4], [5] * 40):
        scores = model.score(view_of(), batch_of(rows, resident=RESIDENT))
        wanted = RESIDENT["item.price"][rows] + 2 * RESIDENT["item.stock"][rows]
        assert list(scores) == ["spend", "buy"]
        np.testing.assert_allclose(scores["buy"], wanted)
        np.testing.assert_allclose(scores["spend"], wanted)


def test_a_signature_that_differs_names_both_sides(tmp_path: Path) -> None:
    path = graphs.linear(tmp_path / "m.onnx", [1, 2])
    with pytest.raises(ReleaseError, match=r"'trees' has no head 'spend'\. Its outputs: buy"):
        load_model(path, "trees", ["spend"], Features(FEATURES, {}, RESIDENT))
    with pytest.raises(ReleaseError, match=r"takes 2 columns in 'features'\. The configuration lists 3"):
        load_model(path, "trees", ["buy"], Features([*FEATURES, "item.on"], {}, RESIDENT))
    with pytest.raises(ReleaseError, match=r"takes features\. The configuration gives item, user, history"):
        load_model(path, "trees", ["buy"], split())


def test_a_head_of_another_length_is_refused_at_load(tmp_path: Path) -> None:
    nodes = [helper.make_node("Identity", ["features"], ["buy"])]
    path = graphs.save(tmp_path / "m.onnx", nodes, {"features": 2}, ["buy"])
    with pytest.raises(ReleaseError, match="head 'buy' gives 2 values for 1 candidates"):
        load_model(path, "trees", ["buy"], Features(FEATURES, {}, RESIDENT))


def test_an_input_of_another_type_is_refused_at_load(tmp_path: Path) -> None:
    nodes = [helper.make_node("Cast", ["features"], ["buy"], to=TensorProto.FLOAT)]
    path = graphs.save(tmp_path / "m.onnx", nodes, {"features": (TensorProto.DOUBLE, [None, 2])}, ["buy"])
    with pytest.raises(ReleaseError, match=r"takes tensor\(double\) in 'features'\. Expected f32"):
        load_model(path, "trees", ["buy"], Features(FEATURES, {}, RESIDENT))


def scorer(model: Any, text: str) -> ModelScorer:
    schema = {"buy": "f32", "item.stock": "i32", "user.age": "f32"}
    return ModelScorer(model, compile_expression(text, schema))


def test_a_score_combines_heads_and_columns(tmp_path: Path) -> None:
    path = graphs.linear(tmp_path / "m.onnx", [1, 0], squash=False)
    model = load_model(path, "trees", ["buy"], Features(FEATURES, {}, RESIDENT))
    view = view_of(USER)
    batch = batch_of([0, 1], resident=RESIDENT, view=view)
    made = scorer(model, "buy * item.stock + user.age")
    assert made.score(view, batch).tolist() == [30, 32]
    assert made.needs == {*FEATURES, "user.age"}
    assert scorer(model, "1").score(view, batch).tolist() == [1, 1]
    assert made.cost_ms == model.cost_ms


def test_a_score_that_is_not_finite_is_an_invalid_output(tmp_path: Path) -> None:
    model = load_model(graphs.logarithm(tmp_path / "m.onnx", 2), "trees", ["buy"], Features(FEATURES, {}, RESIDENT))
    with pytest.raises(InvalidOutput, match="Model trees: 1 scores are not finite"):
        scorer(model, "buy").score(view_of(), batch_of([1, 2, 3], resident=RESIDENT))
