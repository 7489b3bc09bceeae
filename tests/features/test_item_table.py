"""The id table: ids to rows and back, whatever the ids are."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.ids import key_hashes
from features.item_table import IdTable

any_id = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
distinct = st.lists(any_id, unique=True, max_size=30)


@settings(deadline=None)
@given(distinct, st.lists(any_id, max_size=10))
def test_any_unicode_ids_round_trip_and_only_they_are_known(ids: list[str], others: list[str]) -> None:
    table = IdTable.build(ids, "v1")
    rows = table.rows(ids)
    assert rows.dtype == np.int32
    assert rows.tolist() == list(range(len(ids)))
    assert table.ids(rows) == ids
    places = {name: row for row, name in enumerate(ids)}
    assert table.rows(others).tolist() == [places.get(name, -1) for name in others]
    assert len(table) == len(ids)


@settings(deadline=None)
@given(st.lists(any_id, unique=True, min_size=1, max_size=20), st.data())
def test_a_repeated_id_is_refused_by_name(ids: list[str], data: st.DataObject) -> None:
    twice = data.draw(st.sampled_from(ids))
    at = data.draw(st.integers(0, len(ids)))
    with pytest.raises(ValueError, match="stands twice") as refused:
        IdTable.build([*ids[:at], twice, *ids[at:]])
    assert repr(twice) in str(refused.value)


def test_ids_are_compared_byte_by_byte() -> None:
    composed, decomposed = "caf\u00e9", "cafe\u0301"
    ids = [composed, decomposed, "17850", "17850.0", " 17850", "", "a\x00b", "a\x00", "💰"]
    table = IdTable.build(ids)
    assert table.ids(table.rows(ids)) == ids


def test_ids_come_back_in_the_order_of_the_rows_asked_for() -> None:
    table = IdTable.build(["a", "", "ccc"])
    assert table.ids(np.array([2, 0, 2, 1], np.int32)) == ["ccc", "a", "ccc", ""]
    assert table.ids(np.empty(0, np.int32)) == []


def test_an_empty_table_knows_nothing() -> None:
    table = IdTable.build([])
    assert table.rows(["a", ""]).tolist() == [-1, -1]
    assert table.rows([]).tolist() == []
    assert len(table) == 0


def test_hashes_below_and_above_all_keys_are_unknown() -> None:
    table = IdTable.build(["a", "b", "c"])
    edge = np.array([0, 2**64 - 1], np.uint64)
    assert table.rows_of_keys(edge).tolist() == [-1, -1]
    assert table.rows_of_keys(key_hashes(["c", "a"])).tolist() == [2, 0]


def test_two_ids_of_one_hash_are_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("features.item_table.key_hashes", lambda ids: np.zeros(len(ids), np.uint64))
    with pytest.raises(ValueError, match="Ids 'x' and 'y' share a 64-bit hash"):
        IdTable.build(["x", "y"])


def test_an_id_without_bytes_is_refused() -> None:
    with pytest.raises(ValueError, match="surrogates"):
        IdTable.build(["\ud800"])
