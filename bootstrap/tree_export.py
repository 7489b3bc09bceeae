"""Gradient boosted trees of LightGBM as an ONNX graph with a calibrated head.

Written node by node instead of with a converter, for one reason: LightGBM compares in double precision and ONNX in
single, and a threshold rounded up would send a feature that equals it down the other side. Here thresholds
are rounded towards minus infinity, which is exact for single-precision features.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

OPSET, ML_OPSET, IR_VERSION = 17, 3, 9


def export_trees(dump: dict[str, Any], slope: float, intercept: float, path: Path, head: str = "buy") -> None:
    """Writes `sigmoid(slope * trees(features) + intercept)` to `path`.

    `dump` is `Booster.dump_model()` of a model with numeric features. The graph has one input `features`
    f32[N, F], NaN where a value is missing, and one output `head` f32[N] in (0, 1).
    Raises ValueError for categorical splits and for zero treated as missing, which are never trained here.
    """
    nodes: dict[str, list[Any]] = {
        key: []
        for key in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids", "tracks")
    }
    leaves: dict[str, list[Any]] = {"treeids": [], "nodeids": [], "weights": []}
    for tree_id, tree in enumerate(dump["tree_info"]):
        _add_tree(tree["tree_structure"], tree_id, nodes, leaves)
    trees = helper.make_node(
        "TreeEnsembleRegressor",
        ["features"],
        ["margin"],
        domain="ai.onnx.ml",
        n_targets=1,
        post_transform="NONE",
        aggregate_function="SUM",
        nodes_treeids=nodes["treeids"],
        nodes_nodeids=nodes["nodeids"],
        nodes_featureids=nodes["featureids"],
        nodes_values=nodes["values"],
        nodes_modes=nodes["modes"],
        nodes_truenodeids=nodes["truenodeids"],
        nodes_falsenodeids=nodes["falsenodeids"],
        nodes_missing_value_tracks_true=nodes["tracks"],
        target_treeids=leaves["treeids"],
        target_nodeids=leaves["nodeids"],
        target_ids=[0] * len(leaves["weights"]),
        target_weights=leaves["weights"],
    )
    steps = [
        trees,
        helper.make_node("Mul", ["margin", "slope"], ["scaled"]),
        helper.make_node("Add", ["scaled", "intercept"], ["logit"]),
        helper.make_node("Sigmoid", ["logit"], ["column"]),
        helper.make_node("Reshape", ["column", "flat"], [head]),
    ]
    graph = helper.make_graph(
        steps,
        "ranker",
        [helper.make_tensor_value_info("features", TensorProto.FLOAT, ["N", dump["max_feature_idx"] + 1])],
        [helper.make_tensor_value_info(head, TensorProto.FLOAT, ["N"])],
        [
            helper.make_tensor("slope", TensorProto.FLOAT, [], [slope]),
            helper.make_tensor("intercept", TensorProto.FLOAT, [], [intercept]),
            helper.make_tensor("flat", TensorProto.INT64, [1], [-1]),
        ],
    )
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="recserve")
    onnx.checker.check_model(model)
    path.write_bytes(model.SerializeToString(deterministic=True))


def _add_tree(root: dict[str, Any], tree_id: int, nodes: dict[str, list[Any]], leaves: dict[str, list[Any]]) -> None:
    """Numbers a tree's nodes in pre-order and appends them to the attribute lists."""
    stack: list[tuple[dict[str, Any], int, str]] = [(root, -1, "")]
    base, number = len(nodes["nodeids"]), 0
    while stack:
        node, parent, side = stack.pop()
        if parent >= 0:
            nodes[side][base + parent] = number
        split = "split_index" in node
        nodes["treeids"].append(tree_id)
        nodes["nodeids"].append(number)
        nodes["featureids"].append(node["split_feature"] if split else 0)
        nodes["tracks"].append(_missing_goes_left(node) if split else 0)
        nodes["values"].append(_round_down(float(node["threshold"])) if split else 0.0)
        nodes["modes"].append("BRANCH_LEQ" if split else "LEAF")
        nodes["truenodeids"].append(0)
        nodes["falsenodeids"].append(0)
        if split:
            stack.append((node["right_child"], number, "falsenodeids"))
            stack.append((node["left_child"], number, "truenodeids"))
        else:
            leaves["treeids"].append(tree_id)
            leaves["nodeids"].append(number)
            leaves["weights"].append(float(node["leaf_value"]))
        number += 1


def _missing_goes_left(node: dict[str, Any]) -> int:
    if node["decision_type"] != "<=" or node["missing_type"] == "Zero":
        raise ValueError(f"a {node['decision_type']} split with missing {node['missing_type']} can't be exported")
    if node["missing_type"] == "NaN":
        return int(node["default_left"])
    # Without missing values in training LightGBM reads NaN as 0.
    return int(float(node["threshold"]) >= 0.0)


def _round_down(threshold: float) -> float:
    with np.errstate(over="ignore"):  # LightGBM writes 1.8e308 for "all that isn't missing"
        single = np.float32(threshold)
    if float(single) > threshold:
        single = np.nextafter(single, np.float32(-np.inf))
    return float(single)
