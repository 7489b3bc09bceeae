"""The YAML reader is bounded: depth, size, aliases, bytes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.config.yaml_nodes import INVALID, MAX_VALUES, Document, read

TAG = "A tag (!name) isn't supported. Write the value without it, or quote it if it is text."


def document(text: str | bytes) -> Document:
    return read(text if isinstance(text, bytes) else text.encode(), "f.yaml", {})


def messages(text: str | bytes) -> list[str]:
    return [str(problem) for problem in document(text).problems]


def test_an_alias_bomb_is_refused_before_it_grows() -> None:
    levels = "\n".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 20))
    found = document("a0: &a0 [1, 2]\n" + levels)
    assert found.value is INVALID
    assert [str(problem) for problem in found.problems] == [
        f"f.yaml:6: More than {MAX_VALUES:,} values (aliases counted). Split the file."
    ]


def test_an_alias_stands_for_its_value() -> None:
    assert document("a: &x [1, 2]\nb: *x").value == {"a": [1, 2], "b": [1, 2]}


def test_an_alias_inside_its_own_anchor_is_refused() -> None:
    (line,) = messages("a: &x [*x]")
    assert line == "f.yaml:1 a[0]: An alias (*name) can't be used here. Write the value out, or quote it if it is text."


@pytest.mark.parametrize("text", ["[" * 100_000, "{a: " * 50_000, "- " * 100_000, "? " * 5_000])
def test_deep_nesting_is_refused_without_recursion(text: str) -> None:
    (message,) = messages(text)
    assert any(said in message for said in ("Nested more than", "isn't a simple name", "maximum nesting depth"))


def test_aliases_can_not_add_up_to_a_depth() -> None:
    levels = "\n".join(f"a{i}: &a{i} [*a{i - 1}]" for i in range(1, 60))
    (message,) = messages("a0: &a0 [1]\n" + levels)
    assert "Nested more than 32 deep" in message


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"a: 1\nb: \xff\n", "f.yaml:2: Byte 8 isn't UTF-8. Save the file as UTF-8."),
        (b"", "f.yaml: The file is empty. Expected keys and values, first of all version: 1."),
        (b"# nothing\n", "f.yaml: The file is empty. Expected keys and values, first of all version: 1."),
        (b"a" * (1 << 21), "f.yaml: The file has 2,097,152 bytes. At most 1,048,576 are read."),
        (b"a: " + b"9" * 5000, "f.yaml:1 a: An integer of 5000 digits. At most 18 are read; quote it for text."),
        (b"a: 1\na: 2\n", "f.yaml:2 a: Duplicate key; the first is on line 1. Keep one of them."),
        (b"[a]: 1\n", "f.yaml:1: A key that isn't a simple name. Expected name: value."),
        (b"a: 1\n---\nb: 2\n", "f.yaml:2: A second document after '---'. Expected one in each file."),
        (b"a: !x 3\n", "f.yaml:1 a: " + TAG),
        (b"true: 1\n", "f.yaml:1 true: The key true isn't a name. Quote it if it is meant."),
    ],
)  # fmt: skip
def test_what_could_be_misread_is_refused(data: bytes, expected: str) -> None:
    assert messages(data) == [expected]


def test_a_byte_order_mark_is_skipped() -> None:
    assert document(b"\xef\xbb\xbfa: 1").value == {"a": 1}


def test_plain_values_are_those_of_yaml_1_2() -> None:
    text = "[1, -2, 1.5, 1e3, true, null, ~, a b, 'on', \"0123\", 2026-01-01, 30s, 64MiB, 3.2.0]"
    assert document(text).value == [
        1, -2, 1.5, 1000.0, True, None, None, "a b", "on", "0123", "2026-01-01", "30s", "64MiB", "3.2.0",
    ]  # fmt: skip


def test_every_value_has_its_line() -> None:
    found = document("a:\n  b: 1\n  c:\n    - 2\n    - x\n")
    assert {path: mark.line for path, mark in found.positions.items()} == {
        (): 1, ("a",): 1, ("a", "b"): 2, ("a", "c"): 3, ("a", "c", 0): 4, ("a", "c", 1): 5,
    }  # fmt: skip
    assert found.columns[("a", "c", 1)] == 7


@given(st.binary(max_size=200))
def test_any_bytes_give_a_value_or_problems(data: bytes) -> None:
    found = document(data)
    assert (found.value is not INVALID) or found.problems


plain_keys = st.text("abcxyz", min_size=2, max_size=4)
texts = st.text("ab z:#-'\"\\[]{},&*!|>%@`\nü漢💰", max_size=8)
values: st.SearchStrategy[Any] = st.recursive(
    st.one_of(
        st.integers(-(10**17), 10**17),
        st.booleans(),
        st.none(),
        st.text("ab z:#-'\"\\[]{},&*!|>%@`\nü漢💰", max_size=8),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(plain_keys, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(plain_keys, values, min_size=1, max_size=3))
def test_json_is_read_as_it_is(value: dict[str, Any]) -> None:
    text = json.dumps(value, ensure_ascii=False)
    found = document(text)
    assert found.value == json.loads(text), found.problems
