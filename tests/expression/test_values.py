"""What expressions compute: kinds, missing values, widths, scalars beside columns."""

import math
import re
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from expression import Expression, Strings, compile_expression

SCHEMA = {
    "item.price": "f32",
    "item.stock": "i32",
    "item.sold": "i64",
    "item.status": "vocab",
    "item.class": "str",
    "item.on_sale": "bool",
    "item.embedding": "f32[4]",
    "item.added": "time",
    "user.city": "str",
    "user.age": "f32",
    "user.vip": "bool",
    "user.embedding": "f32[4]",
    "context.hour": "int",
    "context.app_version": "semver",
    "channel.i2i.score": "f32",
    "buy": "f32",
}
NAN = math.nan


def columns() -> dict[str, Any]:
    return {
        "item.price": np.array([1, 2, NAN, 4], dtype=np.float32),
        "item.stock": np.array([0, 1, 2, 2**31 - 1], dtype=np.int32),
        "item.sold": np.array([2**53, 2**53 + 1, 0, -5], dtype=np.int64),
        "item.status": Strings.encode(["on", "off", None, "on"]),
        "item.class": Strings.encode(["off", "off", None, "x"]),
        "item.on_sale": np.array([True, False, True, False]),
        "item.embedding": np.array([[0] * 4, [NAN] * 4, [1] * 4, [0, 0, 0, NAN]], dtype=np.float32),
        "item.added": np.array([1e9, 2e9, 3e9, NAN]),
        "user.city": "on",
        "user.age": np.float64(30),
        "user.vip": None,
        "user.embedding": None,
        "context.hour": 9,
        "context.app_version": "3.10",
        "channel.i2i.score": np.array([NAN, 0.5, 0, 1], dtype=np.float32),
        "buy": np.array([0.25, 0.5, 0, 1], dtype=np.float32),
    }


def evaluate(text: str, **params: Any) -> Any:
    return compile_expression(text, SCHEMA, params)(columns())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("item.stock > 0 and item.status == 'on'", [False, False, False, True]),
        ("0 < item.price <= 2", [True, True, False, False]),
        ("item.price != 1", [False, True, False, True]),
        ("not item.price != 1", [True, False, True, False]),
        ("not item.price == 1", [False, True, True, True]),
        ("item.sold == 9007199254740993", [False, True, False, False]),
        ("item.sold >= -5 and item.sold < -4", [False, False, False, True]),
        ("item.stock < 99999999999", [True] * 4),
        ("item.price < 1e300", [True, True, False, True]),
        ("item.stock in (1, 2, -3)", [False, True, True, False]),
        ("item.price not in [1, 2]", [False, False, False, True]),
        ("item.stock in (0,2,3,4,5,6,7,8,9,10)", [True, False, True, False]),
        ("item.price in (0,2,3,4,5,6,7,8,9,0.1)", [False, True, False, True]),
        ("item.status in ['on', 'gone']", [True, False, False, True]),
        ("item.status not in ['on', 'gone']", [False, True, False, False]),
        ("item.status not in ('a','b','c','d','e','f','g','h','i','on')", [False, True, False, False]),
        ("item.status != 'on'", [False, True, False, False]),
        ("item.status != 'unheard of'", [True, True, False, True]),
        ("'on' == item.status", [True, False, False, True]),
        ("item.status == user.city", [True, False, False, True]),
        ("item.status == item.class", [False, True, False, False]),
        ("item.status != item.class", [True, False, False, True]),
        ("item.on_sale == false", [False, True, False, True]),
        ("item.on_sale or true and item.stock == 1", [True, True, True, False]),
        ("item.on_sale in (true, false)", [True] * 4),
        ("item.on_sale and user.vip", [False] * 4),
        ("item.on_sale != user.vip", [False] * 4),
        ("missing(item.price)", [False, False, True, False]),
        ("isnan(item.stock)", [False] * 4),
        ("has(item.status)", [True, True, False, True]),
        ("has(item.embedding)", [True, False, True, False]),
        ("coalesce(item.status, 'off') == 'off'", [False, True, True, False]),
        ("coalesce(item.status, 'new') == 'new'", [False, False, True, False]),
        ("coalesce(item.status, user.city) == 'on'", [True, False, True, True]),
        ("coalesce(item.class, item.status) == 'x'", [False, False, False, True]),
        ("coalesce(user.city, item.class) == 'on'", [True] * 4),
        ("coalesce(item.class, coalesce(item.status, 'y')) == 'y'", [False, False, True, False]),
        ("coalesce(user.vip, item.on_sale)", [True, False, True, False]),
        ("coalesce(item.on_sale, user.vip)", [True, False, True, False]),
        ("where(item.on_sale, user.vip, true)", [False, True, False, True]),
        ("item.added > 1.5e9", [False, True, True, False]),
        ("item.status == 'on' and context.hour >= 9 and item.stock > 0", [False, False, False, True]),
    ],
)
def test_conditions(text: str, expected: list[bool]) -> None:
    result = evaluate(text)
    assert result.dtype == np.bool_
    assert result.tolist() == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("buy ** 0.5", [0.5, math.sqrt(0.5), 0, 1]),
        ("buy / channel.i2i.score", [NAN, 1, NAN, 1]),
        ("1 / buy", [4, 2, math.inf, 1]),
        ("buy % 0", [NAN] * 4),
        ("log(buy - 1)", [NAN, NAN, NAN, -math.inf]),
        ("-buy + +buy", [0, 0, 0, 0]),
        ("min(buy, 0.3, item.price)", [0.25, 0.3, NAN, 0.3]),
        ("max(buy, 0.5)", [0.5, 0.5, 0.5, 1]),
        ("clip(item.price, 1.5, 3)", [1.5, 2, NAN, 3]),
        ("coalesce(channel.i2i.score, 0) * 2", [0, 1, 0, 2]),
        ("where(item.on_sale, buy, -1)", [0.25, -1, 0, -1]),
        ("floor(buy * 3) + round(buy * 3) + abs(-buy)", [1.25, 3.5, 0, 7]),
        ("exp(log1p(buy)) - 1", [0.25, 0.5, 0, 1]),
        ("sqrt(buy * buy) * (user.age / 30)", [0.25, 0.5, 0, 1]),
        ("buy * 1e300", [math.inf, math.inf, NAN, math.inf]),
        ("buy ** 2 ** 0", [0.25, 0.5, 0, 1]),
    ],
)
def test_scores_of_float32_columns_stay_float32(text: str, expected: list[float]) -> None:
    result = evaluate(text)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, expected, rtol=1e-6, atol=1e-7)


def test_integers_are_calculated_as_floats_and_do_not_wrap() -> None:
    assert evaluate("item.stock * 1000000").tolist() == [0, 1e6, 2e6, (2**31 - 1) * 1e6]
    assert evaluate("item.stock + 1 > item.stock").all()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("context.hour in (9, 21) and user.city == 'on'", True),
        ("context.app_version >= '3.0'", True),
        ("context.app_version > '3.9'", True),
        ("'3.10.0' == context.app_version", True),
        ("context.app_version in ('3.9', '3.10.0')", True),
        ("context.app_version not in ('3.9', '3.11-beta')", True),
        ("'3.9.9' < context.app_version < '3.10.1'", True),
        ("user.vip", False),
        ("not user.vip", True),
        ("has(user.vip) or has(user.embedding)", False),
        ("user.vip == true or user.vip != true or user.vip in (true, false)", False),
        ("coalesce(user.vip, true)", True),
        ("coalesce(user.city, 'x') == 'on'", True),
        ("1 / 0 > 10 ** 400", False),
        ("user.age / 0 > 1 and 2 ** 9 ** 9 ** 9 > 1", True),
        ("where(context.hour < 12, 1, 2) == 1", True),
        ("'a' in ('a', 'b')", True),
    ],
)
def test_an_expression_of_scalars_gives_a_plain_bool(text: str, expected: bool) -> None:
    assert evaluate(text) is expected


@pytest.mark.parametrize("version", [None, "", "newest", "3.", "9" * 100])
def test_a_version_that_cannot_be_read_is_missing(version: str | None) -> None:
    given = {"context.app_version": version}
    for text in ("context.app_version >= '0'", "context.app_version != '1'", "has(context.app_version)"):
        assert compile_expression(text, SCHEMA)(given) is False
    assert compile_expression("coalesce(context.app_version, '2.0') == '2'", SCHEMA)(given) is True


def test_a_prerelease_comes_before_its_release() -> None:
    order = ["1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta.2", "1.0.0-beta.11", "1.0.0+b"]
    for lower, higher in pairwise(order):
        less = compile_expression(f"context.app_version < '{higher}'", SCHEMA)
        assert less({"context.app_version": lower}) is True


def test_a_missing_scalar_beside_a_column_keeps_the_columns_shape() -> None:
    given = columns() | {"user.city": None, "user.age": None}
    for text in ("item.status == user.city", "item.status != user.city", "item.price > user.age"):
        assert compile_expression(text, SCHEMA)(given).tolist() == [False] * 4
    assert np.isnan(compile_expression("buy * user.age", SCHEMA)(given)).all()


def test_integers_of_any_size_come_in_with_a_request() -> None:
    later = compile_expression("context.hour > item.price", SCHEMA)
    assert later(columns() | {"context.hour": 10**400}).tolist() == [True, True, False, True]
    assert not later(columns() | {"context.hour": -(10**400)}).any()
    assert compile_expression("context.hour * 2", SCHEMA)({"context.hour": 2**64}) == 2.0**65


def test_parameters_become_typed_constants() -> None:
    made = compile_expression(
        "buy > $rank.floor and item.status in ($which, 'x')", SCHEMA, {"rank.floor": 0.3, "which": "on"}
    )
    assert made.params == {"rank.floor", "which"}
    assert made.names == {"buy", "item.status"}
    assert made(columns()).tolist() == [False, False, False, True]
    assert evaluate("context.app_version >= $least", least="3.9") is True


def test_the_kind_of_the_result_is_known() -> None:
    kinds = {"buy": "number", "item.class": "str", "not item.on_sale": "bool", "context.app_version": "semver"}
    assert {text: compile_expression(text, SCHEMA).type for text in kinds} == kinds
    assert compile_expression("coalesce(item.class, 'none')", SCHEMA)(columns()).decode()[2] == "none"


def test_memory_mapped_and_single_row_columns_are_columns() -> None:
    made = compile_expression("item.price * 2 > user.age and item.status == item.class", SCHEMA)
    given = columns() | {"user.age": np.array([1], dtype=np.float32), "item.class": Strings.encode(["on"])}
    given["item.price"] = given["item.price"].view(np.memmap)
    assert made(given).tolist() == [True, False, False, True]


def test_one_row_beside_none_gives_none() -> None:
    empty = {"item.class": Strings.encode([]), "item.status": Strings.encode(["on"])}
    made = compile_expression("coalesce(item.class, item.status) == item.status", SCHEMA)
    assert made(empty).shape == (0,)


def test_half_floats_widen_to_single() -> None:
    given = {"item.price": np.array([2], dtype=np.float16)}
    assert compile_expression("item.price * 2", SCHEMA)(given).dtype == np.float32


def test_an_absent_column_is_the_callers_error() -> None:
    with pytest.raises(KeyError, match=re.escape("item.price")):
        compile_expression("item.price > 1", SCHEMA)({})
    with pytest.raises(TypeError, match="Strings"):
        compile_expression("item.status == 'a'", SCHEMA)({"item.status": 3})
    with pytest.raises(TypeError, match="version"):
        compile_expression("context.app_version > '1'", SCHEMA)({"context.app_version": 3.0})


def test_a_type_that_does_not_exist_is_the_schemas_error() -> None:
    with pytest.raises(ValueError, match="f12"):
        compile_expression("x > 1", {"x": "f12"})


def test_an_expression_describes_itself() -> None:
    made = compile_expression("buy > 0.5", SCHEMA)
    assert isinstance(made, Expression)
    assert repr(made) == "Expression('buy > 0.5': bool)"


def test_a_minus_before_a_power_is_the_negative_of_it_as_in_python() -> None:
    schema = {"item.a": "f32"}
    columns = {"item.a": np.array([2.0, 3.0])}
    assert compile_expression("-item.a ** 2", schema)(columns).tolist() == [-4.0, -9.0]
    assert compile_expression("(-item.a) ** 2", schema)(columns).tolist() == [4.0, 9.0]
