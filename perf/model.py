"""The reference ranker: a DeepFM-like ONNX model whose user side is computed once per request.

DeepFM (Guo et al. 2017, section 2.1) over dense inputs: a linear term, a factorisation machine over all
inputs of user and item, and a perceptron. Every first-layer product is linear in its input, so the user's
share is one row that is added to the item's rows; nothing of the user is tiled.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from perf.data import F32

FACTORS = 16
HIDDEN = (256, 128, 64)


def build_ranker(user: int, item: int, seed: int = 0) -> bytes:
    """The serialized model: inputs ``user`` f32[1, user] and ``item`` f32[n, item], head ``buy`` f32[n].

    ``buy`` lies in (0, 1). Weights are seeded; no training is implied by the scores.
    """
    rng = np.random.default_rng([seed, 7])
    weights: dict[str, npt.NDArray[Any]] = {}

    def weight(name: str, rows: int, columns: int, scale: float) -> F32:
        drawn = (rng.standard_normal((rows, columns)) * scale).astype(np.float32)
        weights[name] = drawn
        return drawn

    both = user + item
    user_factors = weight("user_factors", user, FACTORS, 0.5 * both**-0.5)
    item_factors = weight("item_factors", item, FACTORS, 0.5 * both**-0.5)
    weight("user_linear", user, 1, 0.5 * both**-0.5)
    weight("item_linear", item, 1, 0.5 * both**-0.5)
    weights["user_squares"] = (user_factors**2).sum(axis=1, keepdims=True)
    weights["item_squares"] = (item_factors**2).sum(axis=1, keepdims=True)
    weights["half"] = np.array(0.5, dtype=np.float32)
    weights["last_axis"] = np.array([1], dtype=np.int64)
    weight("user_deep", user, HIDDEN[0], (2.0 / both) ** 0.5)
    weight("item_deep", item, HIDDEN[0], (2.0 / both) ** 0.5)
    for layer, (wide, narrow) in enumerate(zip(HIDDEN, (*HIDDEN[1:], 1), strict=True)):
        weight(f"deep_{layer}", wide, narrow, (2.0 / wide) ** 0.5 if narrow > 1 else wide**-0.5)
        weights[f"bias_{layer}"] = np.zeros(narrow, dtype=np.float32)

    graph = helper.make_graph(
        [*_linear_and_pairs(), *_perceptron(), *_head()],
        "deepfm",
        [
            helper.make_tensor_value_info("user", TensorProto.FLOAT, [1, user]),
            helper.make_tensor_value_info("item", TensorProto.FLOAT, ["n", item]),
        ],
        [helper.make_tensor_value_info("buy", TensorProto.FLOAT, ["n"])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    serialized: bytes = model.SerializeToString()
    return serialized


def open_ranker(model: bytes) -> Any:
    """An onnxruntime session for one caller per core: one thread, sequential, no spinning."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _node(kind: str, inputs: str, output: str) -> Any:
    return helper.make_node(kind, inputs.split(), [output])


def _both_sides(name: str, user: str, item: str) -> list[Any]:
    """``user @ user_<name> + item @ item_<name>``, the user's row broadcast over the items."""
    return [
        _node("MatMul", f"{user} user_{name}", f"{name}_of_user"),
        _node("MatMul", f"{item} item_{name}", f"{name}_of_item"),
        _node("Add", f"{name}_of_item {name}_of_user", name),
    ]


def _linear_and_pairs() -> list[Any]:
    """All pairwise products of factors at once: half of the squared sum less the sum of squares."""
    return [
        *_both_sides("linear", "user", "item"),
        *_both_sides("factors", "user", "item"),
        _node("Mul", "user user", "user_squared"),
        _node("Mul", "item item", "item_squared"),
        *_both_sides("squares", "user_squared", "item_squared"),
        _node("Mul", "factors factors", "factors_squared"),
        _node("ReduceSum", "factors_squared last_axis", "squared_sum"),
        _node("Sub", "squared_sum squares", "twice_pairs"),
        _node("Mul", "twice_pairs half", "pairs"),
    ]


def _perceptron() -> list[Any]:
    nodes = [*_both_sides("deep", "user", "item")]
    value = "deep"
    for layer in range(len(HIDDEN)):
        nodes += [
            _node("Relu", value, f"active_{layer}"),
            _node("MatMul", f"active_{layer} deep_{layer}", f"product_{layer}"),
            _node("Add", f"product_{layer} bias_{layer}", f"hidden_{layer}"),
        ]
        value = f"hidden_{layer}"
    return nodes


def _head() -> list[Any]:
    return [
        _node("Add", "linear pairs", "shallow"),
        _node("Add", f"shallow hidden_{len(HIDDEN) - 1}", "logits"),
        _node("Sigmoid", "logits", "column"),
        _node("Squeeze", "column last_axis", "buy"),
    ]
