"""Resident columns: defaults fill holes, what stays missing is missing, and a wrong schema is named."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expression import Strings
from features.item_table import IdTable
from features.manifest import Manifest, ManifestError, ReleaseWriter
from features.resident import FieldSpec, ResidentUsers, filled, load_view

floats = st.none() | st.floats(-1e3, 1e3, width=32)


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    writer = ReleaseWriter(tmp_path_factory.mktemp("releases"), "r1", 0.0)
    writer.ids("item", IdTable.build(["a", "b", "c"]))
    writer.ids("user", IdTable.build(["u", "v"]))
    items = {
        "price": np.array([1, np.nan, 3], np.float32),
        "whole": np.array([1, 2, 3], np.float32),
        "stock": np.array([1, 0, 3], np.int32),
        "status": Strings.encode(["on", None, "off"]),
        "embedding": np.array([[1, 2], [np.nan, np.nan], [3, 4]], np.float32),
    }
    writer.view("items", "item", items)
    writer.view("short", "item", {"price": np.zeros(2, np.float32)})
    users = {
        "age": np.array([30, np.nan], np.float32),
        "vip": np.array([True, False]),
        "city": Strings.encode(["Köln", None]),
        "joined": np.array([1.5e9, np.nan], np.float64),
        "embedding": np.array([[1, 2], [np.nan, np.nan]], np.float32),
    }
    writer.view("users", "user", users)
    return writer.finish()


def numbers(manifest: Manifest, **fields: FieldSpec) -> dict[str, np.ndarray]:
    columns = load_view(manifest, "item", "items", fields)
    assert all(isinstance(column, np.ndarray) for column in columns.values())
    return columns  # type: ignore[return-value]  # just checked


def test_a_default_stands_in_for_a_missing_number(manifest: Manifest) -> None:
    price = numbers(manifest, price=FieldSpec("f32", 9.5))["item.price"]
    assert price.tolist() == [1, 9.5, 3]
    assert price.dtype == np.float32


def test_the_mean_is_of_the_values_that_are_there(manifest: Manifest) -> None:
    assert numbers(manifest, price=FieldSpec("f32", "mean"))["item.price"].tolist() == [1, 2, 3]


def test_without_a_default_missing_stays_missing(manifest: Manifest) -> None:
    columns = load_view(manifest, "item", "items", {"price": FieldSpec("f32"), "status": FieldSpec("str")})
    np.testing.assert_array_equal(columns["item.price"], np.array([1, np.nan, 3], np.float32))  # type: ignore[arg-type]
    status = columns["item.status"]
    assert isinstance(status, Strings)
    assert status.decode() == ["on", None, "off"]


def test_a_text_default_may_be_new_to_the_vocabulary(manifest: Manifest) -> None:
    status = load_view(manifest, "item", "items", {"status": FieldSpec("vocab", "unknown")})["item.status"]
    assert isinstance(status, Strings)
    assert status.decode() == ["on", "unknown", "off"]
    assert status.equals("unknown").tolist() == [False, True, False]


def test_a_full_column_stays_the_mapped_file_and_nothing_is_writable(manifest: Manifest) -> None:
    columns = numbers(
        manifest, whole=FieldSpec("f32", "mean"), price=FieldSpec("f32", "mean"), stock=FieldSpec("i32", 0)
    )
    assert isinstance(columns["item.whole"].base, np.memmap)
    assert not any(column.flags.writeable for column in columns.values())


@settings(deadline=None)
@given(st.lists(floats, max_size=20), st.none() | st.just("mean") | st.floats(-5, 5, width=32))
def test_filling_agrees_with_a_plain_loop(values: list[float | None], default: str | float | None) -> None:
    column = np.array([np.nan if value is None else value for value in values], np.float32)
    known = [value for value in values if value is not None]
    stand_in = default if default != "mean" else (float(np.mean(known)) if known else 0.0)
    wanted = [stand_in if value is None else value for value in values]
    made = filled(column, default)
    assert isinstance(made, np.ndarray)
    np.testing.assert_allclose(made, np.array([np.nan if w is None else w for w in wanted], np.float32), atol=1e-4)


@pytest.mark.parametrize(
    ("view", "entity", "fields", "message"),
    [
        ("nope", "item", {}, r"no view 'nope'\. It has items, short, users"),
        ("items", "item", {"colour": FieldSpec("str")}, "view 'items' has no field 'colour'. It has price, whole"),
        ("items", "item", {"price": FieldSpec("i32")}, r"items\.price as f32, the configuration says i32"),
        (
            "items",
            "item",
            {"embedding": FieldSpec("f32[3]")},
            r"items\.embedding as f32\[2\], the configuration says f32\[3\]",
        ),
        ("items", "item", {"status": FieldSpec("f32")}, r"items\.status as str, the configuration says f32"),
        ("users", "item", {"age": FieldSpec("f32")}, r"view 'users' is of users\. Expected items"),
        ("short", "item", {"price": FieldSpec("f32")}, r"short\.price has 2 rows\. The item table has 3"),
    ],
)
def test_what_does_not_fit_is_named(
    manifest: Manifest, view: str, entity: str, fields: dict[str, FieldSpec], message: str
) -> None:
    with pytest.raises(ManifestError, match=message):
        load_view(manifest, entity, view, fields)


USER_FIELDS = {
    "age": FieldSpec("f32"),
    "vip": FieldSpec("bool"),
    "city": FieldSpec("vocab"),
    "joined": FieldSpec("time"),
    "embedding": FieldSpec("f32[2]"),
}


def test_a_users_values_are_plain_and_missing_ones_are_left_out(manifest: Manifest) -> None:
    users = ResidentUsers.load(manifest, load_view(manifest, "user", "users", USER_FIELDS))
    known = users.values("u")
    assert known.pop("user.embedding").tolist() == [1, 2]
    assert known == {"user.age": 30.0, "user.vip": True, "user.city": "Köln", "user.joined": 1.5e9}
    assert type(known["user.vip"]) is bool
    assert users.values("v") == {"user.vip": False}
    assert users.values("nobody") == {}


def test_a_users_vector_cannot_be_changed(manifest: Manifest) -> None:
    users = ResidentUsers.load(manifest, load_view(manifest, "user", "users", USER_FIELDS))
    with pytest.raises(ValueError, match="read-only"):
        users.values("u")["user.embedding"][0] = 5
