"""Every refusal says what is wrong and what to write instead, and points at the place."""

import pytest

from expression import FUNCTIONS, ExpressionError, compile_expression, names_of, parameters_of

SCHEMA = {
    "item.price": "f32",
    "item.stock": "i32",
    "item.status": "str",
    "item.class": "vocab",
    "item.on_sale": "bool",
    "user.embedding": "f32[64]",
    "context.app_version": "semver",
    "buy": "f32",
}


@pytest.mark.parametrize(
    ("text", "at", "said"),
    [
        ("item.stock > 0 and item.prise > 1", 19, "item.prise is not known here. Did you mean item.price?"),
        ("lg(buy)", 0, "lg is not a function. Did you mean log? Functions: abs(x), clip(x, low, high),"),
        ("log > 1", 0, "log is a function. Write log(x)."),
        ("clip(buy, 1)", 0, "clip has 2 argument(s) here. Write clip(x, low, high)."),
        ("min(buy)", 0, "min has 1 argument(s) here. Write min(x, y, ...)."),
        ("buy > 'on'", 0, "> cannot compare buy (number) with 'on' (str). Both sides must be of one kind."),
        ("item.on_sale == 1", 0, "item.on_sale (bool) with 1 (number). Write true or false."),
        ("item.stock in (1, 'a')", 0, "in cannot compare item.stock (number) with 'a' (str)"),
        ("item.status < 'a'", 0, "item.status (str) has no order. Write == or != instead of <."),
        ("buy + item.status", 6, "item.status (str) is not a number, as + needs. Numbers were expected."),
        ("buy * (buy > 1)", 7, "buy > 1 (bool) is not a number, as * needs. Write where(condition, 1, 0)."),
        ("item.stock and true", 0, "(number) is not a condition, as and needs. Compare it, as in x != 0."),
        ("not item.status", 4, "item.status (str) is not a condition, as not needs."),
        ("where(buy, 1, 2)", 6, "buy (number) is not a condition, as where needs."),
        ("where(true, 1, 'a')", 12, "where cannot mix 1 (number) with 'a' (str)"),
        ("where(true, 'b', 'a')", 12, "where cannot choose 'b' (str). It chooses numbers or bools."),
        ("coalesce(buy, 'a')", 9, "coalesce cannot mix buy (number) with 'a' (str)"),
        ("user.embedding", 0, "user.embedding (vector) cannot be a result. Use has(x) or missing(x)."),
        ("user.embedding == user.embedding", 0, "user.embedding (vector) cannot be compared."),
        ("coalesce(user.embedding, user.embedding)", 0, "coalesce cannot fill user.embedding (vector)"),
        ("context.app_version > 'new'", 22, "'new' is not a version. A version looks like '3.0.1'."),
        ("context.app_version > 3.1", 0, "context.app_version (semver) with 3.1 (number)"),
        ("buy > $flor", 6, "$flor is not an experiment parameter. Did you mean floor?"),
        ("buy > $huge", 6, "$huge has no usable value."),
        ("buy > 1 && true", 8, "&& has no meaning here. Write and."),
        ("buy = 1", 4, "= has no meaning here. Write == to compare."),
        ("!item.on_sale", 0, "! has no meaning here. Write not,"),
        ("buy is None", 0, "the operator is is not part of the language. Write missing(x)."),
        ("buy == None", 7, "None is not part of the language. Write missing(x) or has(x)."),
        ("1 if buy > 1 else 2", 0, "Write where(condition, a, b)."),
        ("buy // 2", 0, "the operator // is not part of the language. Write floor(a / b)."),
        ("~item.on_sale", 0, "the operator ~ is not part of the language. Write not."),
        ("item.status in 'abc'", 15, "the right side of in is not a list."),
        ("item.status in ()", 15, "the list is empty."),
        ("buy in (buy, 1)", 8, "only literals and parameters stand in a list."),
        ("1 < buy in (1, 2)", 0, "in cannot be part of a chain."),
        ("[1, 2]", 0, "a list by itself is not part of the language."),
        ("item.status[0]", 0, "an index is not part of the language."),
        ("'a'.upper()", 0, "only functions are called."),
        ("(buy).x.y > 'a'.b", 12, "a field of something that is no name."),
        ("(buy).x.y > 1", 0, "buy.x.y is not known here."),
        ("log(x=1)", 0, "arguments by name or by * are not part of the language."),
        ("buy > 1 # often", 8, "# has no meaning inside an expression."),
        ("buy +", 5, "not an expression: invalid syntax."),
        ("'цена' == 'é' and no", 18, "no is not known here."),
        ("'цена' == 'é' and нет", 18, "н (U+043D) has no meaning outside of quotes. Write ASCII there."),
        ("ｉtem.stock > 1", 0, "ｉ (U+FF49) has no meaning outside of quotes. Write ASCII there."),
        ("buy\u200b > 1", 3, "U+200B has no meaning outside of quotes. Write ASCII there."),
        ("buy ≥ 1", 4, "≥ (U+2265) has no meaning outside of quotes. Write ASCII there."),
        ("ƿfloor > 1", 0, "ƿ (U+01BF) has no meaning outside of quotes. Write ASCII there."),
        ("item.status in ('Toys' 'Grocery', 'Cafe')", 23, "two texts stand side by side. Put a comma between them."),
        ("item.status in ('é'\n  'b' 'c')", 22, "two texts stand side by side. Put a comma between them."),
        ("item.status == \"a\"'b'", 18, "two texts stand side by side. Put a comma between them."),
        ("item.status == r'a'", 15, "a letter before a quote is not part of the language. Write a plain text."),
        ("item.status == 'цена", 15, "not an expression: unterminated string literal"),
        ("buy > 0x10", 6, "0x10 is not a plain decimal number. Write 16."),
        ("buy > 1_0.5", 6, "1_0.5 is not a plain decimal number. Write 10.5."),
        ("buy > 0b1", 6, "0b1 is not a plain decimal number. Write 1."),
        ("buy > -0o7", 7, "0o7 is not a plain decimal number. Write 7."),
        ("item.on_sale == True", 16, "True is not part of the language. Write true."),
        ("False", 0, "False is not part of the language. Write false."),
        ("1e999 > buy", 0, "the number is too large."),
        ("buy > 1j", 6, "1j is not part of the language."),
        ("lambda: 1", 0, "a Python Lambda is not part of the language."),
        ("", 0, "the expression is empty."),
        ("-" * 5000 + "1", 0, "the expression is nested too deeply."),
        ("buy" + "+buy" * 500, 0, "the expression is nested too deeply."),
        ("a" * 20_000, 0, "the expression has 20000 characters."),
    ],
)
def test_a_refusal_says_what_is_wrong_where_and_what_to_write(text: str, at: int, said: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_expression(text, SCHEMA, {"floor": 1, "huge": 10**30})
    assert said in caught.value.message
    assert str(caught.value) == caught.value.message
    assert caught.value.message.endswith((".", "?"))
    if "nested" not in said:
        assert caught.value.column_offset == at


def test_without_a_near_name_the_known_ones_are_listed() -> None:
    with pytest.raises(ExpressionError, match=r"zzz is not known here\. Known: item\.price, item\.x\.$"):
        compile_expression("zzz > 1", {"item.x": "f32", "item.price": "f32"})
    with pytest.raises(ExpressionError, match="None are known here"):
        compile_expression("zzz > 1", {})
    with pytest.raises(ExpressionError, match="and 92 more"):
        compile_expression("zzz > 1", {f"item.n{n}": "f32" for n in range(100)})


def test_names_and_parameters_are_found_without_a_schema() -> None:
    text = "buy ** $rank.power > item.class.x and true\n  or log(channel.i2i.score) in ($a, 2) and 'item.no' != x"
    assert names_of(text) == {"buy", "item.class.x", "channel.i2i.score", "x"}
    assert parameters_of(text) == {"rank.power", "a"}


def test_a_column_may_be_called_like_a_python_keyword() -> None:
    assert names_of("item.class == 'a' and item.from > item.is and not item.None") == {
        "item.class",
        "item.from",
        "item.is",
        "item.None",
    }


def test_quoted_text_is_left_alone() -> None:
    assert names_of("item.a == '$x # y .class' and item.b == \"it's\"") == {"item.a", "item.b"}
    assert parameters_of("item.a == '$x'") == frozenset()


def test_lines_of_a_folded_text_are_one_expression() -> None:
    assert compile_expression("\n  buy > 1\n  and\tbuy < 2\n", SCHEMA).names == {"buy"}


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_each_function_shows_its_use(name: str) -> None:
    assert FUNCTIONS[name].usage.startswith(f"{name}(")
