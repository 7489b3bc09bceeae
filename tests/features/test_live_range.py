"""Live values outside their type's range are missing and counted, in hashes and rows, of users and items."""

import asyncio

import numpy as np
import pytest

from features.behaviour import Behaviour
from features.codec import Kind, RowField, RowSchema, decode_rows, encode_rows
from features.commands import Command
from features.ids import key_hashes
from features.keys import KeyTemplate, OwnKey
from features.live import LiveField, LiveView
from features.memory_store import MemoryStore
from features.store import FeatureStore, UserPlan

LARGEST = float(np.finfo(np.float32).max)
UNFIT = (b"1e308", b"3.5e38", b"-1e39", b"3.4028235677973366e38", b"nan", b"inf", b"1e400")
FIELDS = (LiveField("hot", "f32"), LiveField("cold", "f32", 0.5), LiveField("far", "f64"), LiveField("v", "f32[2]"))
HASH = LiveView("hash", KeyTemplate.compile("i:{id}"), "hash", FIELDS)
SCHEMA = RowSchema(5, (RowField("hot"), RowField("cold"), RowField("v", "f32", 2)))
ROW = LiveView("row", OwnKey("row", "1"), "row", (FIELDS[0], FIELDS[1], FIELDS[3]), schema=SCHEMA)


def store_with(*commands: Command) -> FeatureStore:
    memory = MemoryStore()
    asyncio.run(memory.execute(commands, timeout=1.0))
    return FeatureStore(memory, Behaviour(memory, {}), lambda: 0.0)


def items(store: FeatureStore, view: LiveView, *ids: str) -> dict[str, list[float]]:
    [fetched] = asyncio.run(store.fetch([view], ids, timeout=1.0))
    return {name: np.asarray(column).tolist() for name, column in fetched.columns.items()}


def user(store: FeatureStore, view: LiveView, user_id: str) -> dict[str, object]:
    plan = UserPlan((view,), behaviour=False)
    read = asyncio.run(store.user(plan, user_id, rows_of=lambda keys: np.zeros(len(keys), np.int32), timeout=1.0))
    return dict(read.views[view.name].values)


@pytest.mark.parametrize("raw", UNFIT)
def test_a_number_that_no_f32_holds_is_missing_and_counted(raw: bytes) -> None:
    store = store_with(("HSET", "i:a", "hot", raw, "cold", raw), ("HSET", "i:b", "hot", "2"))
    found = items(store, HASH, "a", "b")
    np.testing.assert_array_equal(found["hot"], [np.nan, 2])
    assert found["cold"] == [0.5, 0.5]
    assert store.undecoded == {"hash": 2}
    values = user(store, HASH, "a")
    assert (values["hot"], values["cold"]) == (None, 0.5)
    assert store.undecoded == {"hash": 4}


def test_the_largest_numbers_of_each_type_are_values() -> None:
    store = store_with(("HSET", "i:a", "hot", repr(LARGEST), "cold", "3.4028235677973362e38", "far", "-1e308"))
    found = items(store, HASH, "a")
    assert (found["hot"], found["cold"], found["far"]) == ([LARGEST], [LARGEST], [-1e308])
    assert store.undecoded == {}


@pytest.mark.parametrize("odd", [np.inf, -np.inf, np.nan])
def test_a_vector_with_a_number_that_is_not_finite_is_missing_and_counted(odd: float) -> None:
    store = store_with(("HSET", "i:a", "v", np.array([1, odd], "<f4").tobytes()))
    assert np.isnan(items(store, HASH, "a")["v"]).all()
    assert user(store, HASH, "a")["v"] is None
    assert store.undecoded == {"hash": 2}


def test_infinite_values_of_rows_are_missing_and_counted() -> None:
    columns = {"hot": np.array([np.inf, 1]), "cold": np.array([-np.inf, np.nan]), "v": np.array([[1, np.inf], [1, 2]])}
    rows = encode_rows(key_hashes(["a", "b"]), columns, SCHEMA)
    store = store_with(*(("SET", ROW.key.key(i), value) for i, value in zip((b"a", b"b"), rows, strict=True)))
    found = items(store, ROW, "a", "b")
    np.testing.assert_array_equal(found["hot"], [np.nan, 1])
    assert found["cold"] == [0.5, 0.5]
    np.testing.assert_array_equal(found["v"], [[np.nan, np.nan], [1, 2]])
    assert store.undecoded == {"row": 3}
    assert user(store, ROW, "a") == {"hot": None, "cold": 0.5, "v": None}
    assert store.undecoded == {"row": 6}


@pytest.mark.parametrize("kind", ["f16", "int8"])
def test_narrow_kinds_never_widen_to_an_infinite_number(kind: Kind) -> None:
    schema = RowSchema(6, (RowField("v", kind, 2),))
    keys = key_hashes(["a", "b"])
    block = np.zeros(2, schema.block)
    block["v"] = [[np.inf, 1], [2, 3]] if kind == "f16" else [[127, 1], [2, 3]]
    if kind == "int8":
        block["v/scale"] = [3e38, 1]
    rows = encode_rows(keys, {"v": np.ones((2, 2))}, schema)
    size = schema.block.itemsize
    values = [row[:-size] + one.tobytes() for row, one in zip(rows, block, strict=True)]
    decoded = decode_rows(values, keys, schema)
    np.testing.assert_array_equal(decoded.columns["v"], [[np.nan, np.nan], [2, 3]])
    assert (decoded.present.tolist(), decoded.failures) == ([True, True], 1)
