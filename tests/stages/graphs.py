"""Tiny ONNX models, written node by node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17


def save(path: Path, nodes: Sequence[Any], inputs: Mapping[str, Any], heads: Sequence[str], **constants: Any) -> Path:
    """Write a graph; `inputs` gives the width of each (rows are free), or (type, shape)."""
    given = []
    for name, width in inputs.items():
        kind, shape = width if isinstance(width, tuple) else (TensorProto.FLOAT, [None, width])
        given.append(helper.make_tensor_value_info(name, kind, shape))
    outputs = [helper.make_tensor_value_info(head, TensorProto.FLOAT, [None, None]) for head in heads]
    held = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    graph = helper.make_graph(list(nodes), "tiny", given, outputs, held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
    onnx.checker.check_model(model)
    path.write_bytes(model.SerializeToString())
    return path


def linear(path: Path, weights: Sequence[float], heads: Sequence[str] = ("buy",), squash: bool = True) -> Path:
    """`features` f32[n, F] times weights, through a sigmoid: every head gives the same f32[n, 1]."""
    w = np.asarray(weights, np.float32).reshape(-1, 1)
    nodes = [helper.make_node("MatMul", ["features", "w"], ["raw"])]
    nodes += [helper.make_node("Sigmoid" if squash else "Identity", ["raw"], [head]) for head in heads]
    return save(path, nodes, {"features": len(w)}, heads, w=w)


def logarithm(path: Path, width: int) -> Path:
    """The logarithm of the first feature: NaN where that is negative."""
    nodes = [
        helper.make_node("Gather", ["features", "first"], ["one"], axis=1),
        helper.make_node("Log", ["one"], ["buy"]),
    ]
    return save(path, nodes, {"features": width}, ["buy"], first=np.array([0], np.int64))


def split(path: Path, user: int, item: int, depth: int) -> Path:
    """Sum of the user's row, plus the sum of each item's row, plus the mean of the history."""
    nodes = [
        helper.make_node("ReduceSum", ["user", "one"], ["u"], keepdims=1),
        helper.make_node("ReduceSum", ["item", "one"], ["i"], keepdims=1),
        helper.make_node("ReduceMean", ["history"], ["h"], keepdims=1),
        helper.make_node("Add", ["u", "i"], ["ui"]),
        helper.make_node("Add", ["ui", "h"], ["buy"]),
    ]
    inputs = {"user": user, "item": item, "history": depth}
    return save(path, nodes, inputs, ["buy"], one=np.array([1], np.int64))
