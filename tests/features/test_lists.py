"""Lists of rows: by number, by name, several at once."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from features.lists import Lists

entries = st.lists(st.tuples(st.integers(0, 99), st.floats(0, 1, width=32)), max_size=6)


def lists_of(groups: list[list[tuple[int, float]]]) -> Lists:
    return Lists.of_groups(
        [
            (f"g{i}", np.array([r for r, _ in g], np.int32), np.array([s for _, s in g], np.float32))
            for i, g in enumerate(groups)
        ]
    )


@settings(deadline=None)
@given(st.lists(entries, min_size=1, max_size=6), st.data())
def test_gathering_lists_equals_reading_them_one_by_one(
    groups: list[list[tuple[int, float]]], data: st.DataObject
) -> None:
    lists = lists_of(groups)
    asked = data.draw(st.lists(st.integers(0, len(groups) - 1), max_size=8))
    rows, scores, lengths = lists.gather(np.array(asked, np.int32))
    wanted = [pair for g in asked for pair in groups[g]]
    assert rows.tolist() == [r for r, _ in wanted]
    np.testing.assert_array_equal(scores, np.array([s for _, s in wanted], np.float32))
    assert lengths.tolist() == [len(groups[g]) for g in asked]


@settings(deadline=None)
@given(st.lists(entries, max_size=6))
def test_a_list_is_found_by_name_and_by_number(groups: list[list[tuple[int, float]]]) -> None:
    lists = lists_of(groups)
    assert len(lists) == len(groups)
    for number, group in enumerate(groups):
        assert lists.group(f"g{number}") == number
        rows, scores = lists.slice(number)
        assert rows.tolist() == [r for r, _ in group]
        assert (rows.dtype, scores.dtype) == (np.int32, np.float32)
    assert lists.group("G0") == -1
    assert lists.group("") == -1
    assert len(lists.slice(len(groups))[0]) == 0


def test_a_slice_copies_nothing() -> None:
    lists = lists_of([[(1, 0.5)], [(2, 0.5), (3, 0.25)]])
    assert np.shares_memory(lists.slice(1)[0], lists.rows)


def test_unnamed_lists_have_no_groups() -> None:
    lists = Lists(np.array([0, 1]), np.array([5], np.int32), np.array([1], np.float32))
    assert lists.group("all") == -1
    assert lists.slice(0)[0].tolist() == [5]
