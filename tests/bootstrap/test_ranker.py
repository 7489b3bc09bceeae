from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from bootstrap.ranker import (
    RankerSettings,
    Window,
    export,
    largest_error,
    platt,
    sample_list,
    train,
)
from bootstrap.tree_export import export_trees

NAMES = ("channel.vector.score", "item.sold", "noise")
QUICK = RankerSettings(rounds=20, threads=1)


def window(seed: int, lists: int = 60, size: int = 20) -> Window:
    random = np.random.default_rng(seed)
    features = random.standard_normal((lists * size, 3)).astype(np.float32)
    chance = 1 / (1 + np.exp(-(2 * features[:, 0] + features[:, 1] - 2)))
    labels = random.random(lists * size) < chance
    features[random.random(features.shape) < 0.1] = np.nan
    return Window(features, labels, np.full(lists, size), np.ones(lists * size, np.float32))


def runner(path: Path) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("objective", ["lambdarank", "binary"])
def test_the_exported_graph_agrees_with_the_trained_model(tmp_path: Path, objective: str) -> None:
    settings = RankerSettings(rounds=20, threads=1, objectives=(objective,))
    trained = train([window(1), window(2)], NAMES, settings)
    export(trained, tmp_path / "ranker.onnx", head="buy")
    session = runner(tmp_path / "ranker.onnx")
    assert [value.name for value in session.get_inputs()] == ["features"]
    assert [value.name for value in session.get_outputs()] == ["buy"]
    fresh = np.concatenate([window(3).features, np.full((2, 3), np.nan, np.float32)])
    assert largest_error(trained, fresh, lambda x: session.run(["buy"], {"features": x})[0]) < 1e-5
    probabilities = session.run(["buy"], {"features": fresh})[0]
    assert probabilities.shape == (len(fresh),)
    assert ((probabilities > 0) & (probabilities < 1)).all()
    assert session.run(["buy"], {"features": np.empty((0, 3), np.float32)})[0].shape == (0,)


def test_features_equal_to_a_threshold_go_the_same_way(tmp_path: Path) -> None:
    """Neighbouring single-precision values have a double-precision threshold between them that rounds up."""
    low = np.float32(1.0)
    high = np.nextafter(low, np.float32(2))
    dump = {
        "max_feature_idx": 0,
        "tree_info": [
            {
                "tree_structure": {
                    "split_index": 0,
                    "split_feature": 0,
                    "threshold": (float(low) + 3 * float(high)) / 4,
                    "decision_type": "<=",
                    "missing_type": "None",
                    "default_left": True,
                    "left_child": {"leaf_value": -1.0},
                    "right_child": {"leaf_value": 1.0},
                }
            }
        ],
    }
    export_trees(dump, 1.0, 0.0, tmp_path / "one.onnx")
    out = runner(tmp_path / "one.onnx").run(None, {"features": np.array([[low], [high], [np.nan]], np.float32)})[0]
    assert (out > 0.5).tolist() == [False, True, False]


def test_a_split_that_cannot_be_exported_is_refused(tmp_path: Path) -> None:
    leaf = {"leaf_value": 0.0}
    node = {"split_index": 0, "split_feature": 0, "threshold": "1||2", "decision_type": "=="}
    dump = {
        "max_feature_idx": 0,
        "tree_info": [{"tree_structure": {**node, "missing_type": "None", "left_child": leaf, "right_child": leaf}}],
    }
    with pytest.raises(ValueError, match="can't be exported"):
        export_trees(dump, 1.0, 0.0, tmp_path / "one.onnx")


def test_training_twice_writes_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        export(train([window(1), window(2)], NAMES, QUICK), tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    onnx.load(tmp_path / "a")


def test_probabilities_add_up_to_what_was_bought() -> None:
    trained = train([window(seed) for seed in (1, 2, 3)], NAMES, RankerSettings(rounds=60, threads=1))
    fresh = window(9, lists=300)
    assert trained.predict(fresh.features).mean() == pytest.approx(fresh.labels.mean(), rel=0.15)


def test_sampled_negatives_are_weighted_back() -> None:
    labels = np.zeros(500, bool)
    labels[[3, 400]] = True
    index, weights = sample_list(labels, 60, np.random.default_rng(0))
    assert {3, 400} <= set(index.tolist())
    assert index.size == 60
    assert (np.diff(index) > 0).all()
    assert weights.sum() == pytest.approx(500, rel=1e-5)
    assert weights[labels[index]].tolist() == [1, 1]


@pytest.mark.parametrize("labels", [np.zeros(5, bool), np.ones(5, bool), np.zeros(0, bool)])
def test_a_list_that_teaches_nothing_is_left_out(labels: np.ndarray) -> None:
    index, weights = sample_list(labels, 60, np.random.default_rng(0))
    assert index.size == weights.size == 0


def test_calibration_never_turns_the_order_round() -> None:
    random = np.random.default_rng(0)
    margin = random.standard_normal(500)
    slope, _ = platt(margin, margin < -0.5, np.ones(500))
    assert slope > 0


def test_a_model_trained_with_blanked_blocks_loses_less_when_one_is_missing() -> None:
    windows = [window(seed, lists=150) for seed in (1, 2)]
    blocks = [["channel.vector.score"]]
    robust = train(windows, NAMES, RankerSettings(rounds=40, threads=1, blank=0.3), blocks)
    fresh = window(7, lists=200)
    fresh.features[:, 0] = np.nan
    expected = np.nan_to_num(fresh.features[:, 1])
    order = np.corrcoef(robust.predict(fresh.features), expected)[0, 1]
    assert order > 0.5


def test_without_a_positive_there_is_nothing_to_learn_from() -> None:
    empty = window(1)
    with pytest.raises(ValueError, match="positive"):
        train([Window(empty.features, np.zeros_like(empty.labels), empty.sizes, empty.weights)], NAMES, QUICK)


def test_the_objective_is_chosen_on_the_newest_window_unless_the_input_is_large() -> None:
    windows = [window(1), window(2)]
    both = train(windows, NAMES, RankerSettings(rounds=20, threads=1, margin=0.0))
    tried = both.report["ndcg_on_last_window"]
    assert set(tried) == {"lambdarank", "binary"}
    assert both.report["objective"] == max(tried, key=tried.get)
    large = train(windows, NAMES, RankerSettings(rounds=20, threads=1, choose_below_rows=10))
    assert set(large.report["ndcg_on_last_window"]) == {"lambdarank"}


def test_the_first_objective_stays_unless_another_is_clearly_better() -> None:
    trained = train([window(1), window(2)], NAMES, RankerSettings(rounds=20, threads=1, margin=10.0))
    assert trained.report["objective"] == "lambdarank"


def test_a_column_that_is_mostly_missing_is_exported(tmp_path: Path) -> None:
    """Splits on missing against present have thresholds beyond single precision."""
    windows = []
    for seed in (1, 2):
        made = window(seed)
        made.features[:, 2] = np.where(made.labels, np.nan, 1.0)
        windows.append(made)
    trained = train(windows, NAMES, QUICK)
    export(trained, tmp_path / "ranker.onnx")
    session = runner(tmp_path / "ranker.onnx")
    features = windows[0].features
    assert largest_error(trained, features, lambda x: session.run(["buy"], {"features": x})[0]) < 1e-5


def test_one_window_is_enough() -> None:
    trained = train([window(1)], NAMES, QUICK)
    assert np.corrcoef(trained.predict(window(2).features), window(2).labels)[0, 1] > 0.3
