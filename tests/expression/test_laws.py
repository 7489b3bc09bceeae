"""Laws: columns agree with a plain evaluation row by row, inputs are left alone, any text is read or refused."""

import math
import operator
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from expression import ExpressionError, Strings, compile_expression, names_of, parameters_of

SCHEMA = {
    "item.a": "f64",
    "item.n": "i64",
    "item.s": "vocab",
    "item.t": "str",
    "item.f": "bool",
    "user.x": "float",
    "user.s": "str",
    "user.f": "bool",
    "context.v": "semver",
}
Row = dict[str, Any]
TEXTS = ["on", "off", "é", ""]


@dataclass(frozen=True)
class Said:
    """An expression's text beside the plain function of one row that it should equal."""

    text: str
    of: Callable[[Row], Any]


numbers = st.sampled_from([0.0, 1.0, -1.0, 0.5, 2.0, -3.25, 1e6])
floats = numbers | st.sampled_from([math.nan, math.inf, -math.inf])
rows = st.fixed_dictionaries(
    {
        "item.a": floats,
        "item.n": st.integers(-5, 5),
        "item.s": st.none() | st.sampled_from(TEXTS),
        "item.t": st.none() | st.sampled_from(TEXTS[1:]),
        "item.f": st.booleans(),
    }
)
requests = st.fixed_dictionaries(
    {
        "user.x": st.none() | floats,
        "user.s": st.none() | st.sampled_from([*TEXTS, "new"]),
        "user.f": st.none() | st.booleans(),
        "context.v": st.none() | st.sampled_from(["1.0", "1", "1.10", "1.9.3", "bad"]),
    }
)


def name(column: str) -> Said:
    return Said(column, lambda row: row[column])


def number_name(column: str) -> Said:
    return Said(column, lambda row: math.nan if row[column] is None else float(row[column]))


def quiet(function: Any) -> Callable[..., float]:
    def call(*values: float) -> float:
        with np.errstate(all="ignore"):
            return float(function(*(np.float64(value) for value in values)))

    return call


ARITHMETIC = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "%": np.remainder, "**": np.power}
ORDER = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def same(left: Any, right: Any) -> bool:
    return left is not None and right is not None and left == right


def differ(left: Any, right: Any) -> bool:
    return not any(value is None or value != value for value in (left, right)) and left != right


EQUALITY: dict[str, Callable[[Any, Any], bool]] = {"==": same, "!=": differ}


def combine(draw: st.DrawFn, signs: dict[str, Any], side: st.SearchStrategy[Said]) -> Said:
    sign, left, right = draw(st.sampled_from(sorted(signs))), draw(side), draw(side)
    apply = signs[sign]
    return Said(f"({left.text} {sign} {right.text})", lambda row: apply(left.of(row), right.of(row)))


@st.composite
def arithmetic(draw: st.DrawFn, side: st.SearchStrategy[Said]) -> Said:
    return combine(draw, {sign: quiet(ufunc) for sign, ufunc in ARITHMETIC.items()}, side)


@st.composite
def numeric_call(draw: st.DrawFn, side: st.SearchStrategy[Said]) -> Said:
    functions: dict[str, tuple[int, Callable[..., float]]] = {
        "abs": (1, abs),
        "-": (1, operator.neg),
        "floor": (1, quiet(np.floor)),
        "round": (1, quiet(np.rint)),
        "sqrt": (1, quiet(np.sqrt)),
        "log": (1, quiet(np.log)),
        "min": (2, quiet(np.minimum)),
        "max": (2, quiet(np.maximum)),
        "clip": (3, lambda x, low, high: quiet(np.minimum)(quiet(np.maximum)(x, low), high)),
        "coalesce": (2, lambda x, default: default if math.isnan(x) else x),
    }
    function = draw(st.sampled_from(sorted(functions)))
    count, apply = functions[function]
    sides = [draw(side) for _ in range(count)]
    text = f"{function}({', '.join(each.text for each in sides)})"
    if function == "-":
        text = f"({text})"  # as in Python, `-x ** y` is the negative of a power
    return Said(text, lambda row: apply(*(each.of(row) for each in sides)))


@st.composite
def choice(draw: st.DrawFn, conditions: st.SearchStrategy[Said], side: st.SearchStrategy[Said]) -> Said:
    condition, first, second = draw(conditions), draw(side), draw(side)
    text = f"where({condition.text}, {first.text}, {second.text})"
    return Said(text, lambda row: first.of(row) if condition.of(row) else second.of(row))


@st.composite
def comparison(draw: st.DrawFn, side: st.SearchStrategy[Said]) -> Said:
    return combine(draw, {**ORDER, **EQUALITY}, side)


@st.composite
def equality(draw: st.DrawFn, side: st.SearchStrategy[Said]) -> Said:
    return combine(draw, EQUALITY, side)


@st.composite
def chain(draw: st.DrawFn, side: st.SearchStrategy[Said]) -> Said:
    a, b, c = draw(side), draw(side), draw(side)
    return Said(f"({a.text} < {b.text} <= {c.text})", lambda row: a.of(row) < b.of(row) <= c.of(row))


@st.composite
def membership(draw: st.DrawFn, side: st.SearchStrategy[Said], options: st.SearchStrategy[Any]) -> Said:
    item, listed, negated = draw(side), draw(st.lists(options, min_size=1, max_size=12)), draw(st.booleans())

    def contains(row: Row) -> bool:
        value = item.of(row)
        if value is None or value != value:
            return False
        return (value in listed) is not negated

    return Said(f"({item.text} {'not in' if negated else 'in'} {listed!r})", contains)


@st.composite
def logic(draw: st.DrawFn, side: st.SearchStrategy[Said]) -> Said:
    sides, word = draw(st.lists(side, min_size=2, max_size=3)), draw(st.sampled_from(["and", "or"]))
    join = all if word == "and" else any
    text = f"({f' {word} '.join(each.text for each in sides)})"
    return Said(text, lambda row: join([bool(each.of(row)) for each in sides]))


def negation(side: Said) -> Said:
    return Said(f"(not {side.text})", lambda row: not side.of(row))


def presence(side: Said) -> Said:
    def absent(row: Row) -> bool:
        value = side.of(row)
        return value is None or value != value

    return Said(f"missing({side.text})", absent)


def filled(side: Said) -> Said:
    return Said(f"coalesce({side.text}, 'off')", lambda row: "off" if side.of(row) is None else side.of(row))


text_names = st.sampled_from([name("item.s"), name("item.t"), name("user.s")])
text_sides = text_names | text_names.map(filled) | st.sampled_from(TEXTS).map(lambda t: Said(repr(t), lambda _: t))
flag_names = st.sampled_from([name("item.f"), name("user.f")])
number_leaves = st.sampled_from([number_name(column) for column in ("item.a", "item.n", "user.x")]) | numbers.map(
    lambda value: Said(f"({value!r})", lambda _: value)
)
number_sides = st.recursive(
    number_leaves,
    lambda side: arithmetic(side) | numeric_call(side) | choice(flag_names, side),
    max_leaves=6,
)
conditions = st.recursive(
    comparison(number_sides)
    | chain(number_sides)
    | equality(text_sides)
    | equality(flag_names)
    | membership(number_sides, numbers)
    | membership(text_sides, st.sampled_from([*TEXTS, "x"]))
    | (number_sides | text_names | flag_names).map(presence)
    | flag_names,
    lambda side: logic(side) | side.map(negation) | choice(side, side),
    max_leaves=5,
)


def table(listed: list[Row], request: Row) -> dict[str, Any]:
    def column(key: str, dtype: Any) -> Any:
        return np.array([row[key] for row in listed], dtype=dtype)

    return {
        "item.a": column("item.a", np.float64),
        "item.n": column("item.n", np.int64),
        "item.f": column("item.f", np.bool_),
        "item.s": Strings.encode([row["item.s"] for row in listed]),
        "item.t": Strings.encode([row["item.t"] for row in listed]),
        **request,
    }


def frozen(columns: dict[str, Any]) -> dict[str, Any]:
    """Make the arrays read-only, so that any write to an input raises."""
    for value in columns.values():
        array = value.codes if isinstance(value, Strings) else value
        if isinstance(array, np.ndarray):
            array.setflags(write=False)
    return columns


@settings(deadline=None, max_examples=300)
@given(conditions | number_sides, st.lists(rows, min_size=0, max_size=5), requests)
def test_columns_agree_with_a_plain_evaluation_and_inputs_stay(said: Said, listed: list[Row], request: Row) -> None:
    made = compile_expression(said.text, SCHEMA)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = made(frozen(table(listed, request)))
    expected = [said.of(row | request) for row in listed]
    if isinstance(result, np.ndarray):
        assert result.shape == (len(listed),)
    else:
        assert not any(key.startswith("item.") for key in made.names)
    got = np.broadcast_to(np.asarray(result), len(listed))
    if made.type == "bool":
        assert got.tolist() == [bool(value) for value in expected]
    else:
        np.testing.assert_allclose(got, np.array(expected, dtype=np.float64), rtol=1e-12)
    assert made.names == names_of(said.text)


@settings(deadline=None)
@given(st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), *[st.lists(st.integers(0, 30), min_size=1, max_size=4)] * 2)
def test_versions_are_ordered_by_their_numbers(sign: str, left: list[int], right: list[int]) -> None:
    plain = [(*numbers, *[0] * (4 - len(numbers))) for numbers in (left, right)]
    text = f"context.v {sign} '{'.'.join(map(str, right))}'"
    apply = {**ORDER, "==": operator.eq, "!=": operator.ne}[sign]
    result = compile_expression(text, SCHEMA)({"context.v": ".".join(map(str, left))})
    assert result is apply(*plain)


WORDS = """item.a item.s user.x context.v $p $ ( ) [ ] , . + - * ** / // % < <= == != = := ! & | ~ @ and or not
in is if else lambda for None true 'on' " ' \\ # ; : 0 1 1e999 9999999999999999999 0x 1_0 1j log( where( f'{ é ƿp …
await yield"""
pieces = st.sampled_from([*WORDS.split(), "\n", " \t", "\x00", "\ud800"])


def refusal(read: Callable[[str], object], text: str) -> ExpressionError | None:
    try:
        read(text)
    except ExpressionError as error:
        return error
    return None


@settings(deadline=None, max_examples=300)
@given(st.text() | st.lists(pieces, max_size=14).map(" ".join) | st.lists(pieces, max_size=8).map("".join))
@example("(" * 5000)
@example("not " * 2000 + "true")
@example("-" * 9000 + "1")
@example("a" + ".b" * 4000)
@example("f(" * 90 + "1" + ")" * 90)
@example("[" * 150 + "]" * 150)
@example("9" * 5000)
@example("a if b else " * 800 + "c")
def test_any_text_is_compiled_or_refused_with_an_expression_error(text: str) -> None:
    readers = (names_of, parameters_of, lambda given: compile_expression(given, SCHEMA, {"p": 1}))
    for error in filter(None, [refusal(read, text) for read in readers]):
        assert 0 <= error.column_offset <= len(text)
        assert error.message.endswith((".", "?"))
