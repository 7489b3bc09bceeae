import mmap
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from expression import Strings, Vocabulary

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
values = st.lists(st.none() | texts, max_size=30)


@given(values)
def test_encoding_and_decoding_give_the_values_back(column: list[str | None]) -> None:
    assert Strings.encode(column).decode() == column


@given(st.lists(texts))
def test_a_vocabulary_is_sorted_by_utf8_bytes_and_inverts_its_codes(column: list[str]) -> None:
    vocab = Vocabulary.of(column)
    listed = [vocab.text(code) for code in range(len(vocab))]
    assert listed == sorted(set(column), key=str.encode)
    assert [vocab.code(text) for text in listed] == list(range(len(vocab)))


@given(values, values, texts)
def test_columns_of_different_vocabularies_agree_with_a_list_model(
    column: list[str | None], other: list[str | None], text: str
) -> None:
    strings = Strings.encode(column)
    assert strings.equals(text).tolist() == [value == text for value in column]
    wanted = {value for value in other if value is not None}
    assert strings.isin(wanted).tolist() == [value in wanted for value in column]
    assert strings.missing().tolist() == [value is None for value in column]
    assert strings.filled(text).decode() == [text if value is None else value for value in column]
    vocab = Vocabulary.of(wanted)
    expected = [-1 if value is None else vocab.code(value) for value in column]
    assert strings.recode(vocab).tolist() == expected


def test_an_unknown_row_is_a_missing_value() -> None:
    column = Strings.encode(["a", "b", None])
    taken = column.take(np.array([1, -1, 2, 0], dtype=np.int32))
    assert taken.decode() == ["b", None, None, "a"]
    assert column.decode() == ["a", "b", None]
    assert column.take(np.array([], dtype=np.int64)).decode() == []


def test_a_row_past_the_end_is_an_error() -> None:
    with pytest.raises(IndexError):
        Strings.encode(["a"]).take(np.array([1]))
    with pytest.raises(IndexError):
        Strings.encode([]).take(np.array([0]))
    assert Strings.encode([]).take(np.array([-1])).decode() == [None]


def test_none_equals_nothing() -> None:
    assert not Strings.encode(["a", None]).equals(None).any()


def test_a_lone_surrogate_is_absent_and_cannot_be_encoded() -> None:
    assert Vocabulary.of(["a"]).code("\ud800") == -1
    with pytest.raises(ValueError, match="surrogates"):
        Vocabulary.of(["\ud800"])


def test_a_code_outside_the_vocabulary_is_an_error() -> None:
    vocab = Vocabulary.of(["a"])
    for code in (-1, 1):
        with pytest.raises(IndexError):
            vocab.text(code)


def test_arrays_that_do_not_belong_together_are_refused() -> None:
    with pytest.raises(ValueError, match="offsets"):
        Vocabulary(np.array([0, 3]), np.zeros(2, dtype=np.uint8))
    with pytest.raises(ValueError, match="offsets"):
        Vocabulary(np.array([], dtype=np.int64), np.zeros(0, dtype=np.uint8))


def test_a_memory_mapped_vocabulary_is_used_in_place(tmp_path: Path) -> None:
    built = Strings.encode([f"title {n}" for n in range(1000)])
    arrays = {"codes": built.codes, "offsets": built.vocab.offsets, "blob": built.vocab.blob}
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array)
    mapped = {name: np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in arrays}
    column = Strings(mapped["codes"], Vocabulary(mapped["offsets"], mapped["blob"]))
    assert column.equals("title 7").nonzero()[0].tolist() == [7]
    assert column.take(np.array([3, -1])).decode() == ["title 3", None]
    assert type(column.codes) is np.ndarray
    base = column.vocab.blob.base
    while isinstance(base, np.ndarray):
        base = base.base
    assert isinstance(base, mmap.mmap)


def test_looking_up_more_texts_than_the_memo_holds_stays_right() -> None:
    vocab = Vocabulary.of([str(n) for n in range(100)])
    assert [vocab.code(str(n)) for n in range(5000)].count(-1) == 4900
    assert vocab.text(vocab.code("42")) == "42"
