"""Selection over arrays agrees with Python's sorted()."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stages.arrays import best, descending, top

scores = st.lists(st.sampled_from([0.0, -0.0, 1.0, -2.5, 3.25, math.inf, -math.inf, math.nan]), max_size=30)
keeps = st.integers(0, 35)


def in_order(values: list[float]) -> list[int]:
    return sorted(
        range(len(values)), key=lambda i: (values[i] != values[i], -values[i] if values[i] == values[i] else 0)
    )


@given(scores)
def test_descending_is_a_stable_sort_with_nan_last(values: list[float]) -> None:
    assert descending(np.array(values, np.float32)).tolist() == in_order(values)


@given(scores, keeps)
def test_best_is_the_head_of_that_sort(values: list[float], keep: int) -> None:
    assert best(np.array(values, np.float32), keep).tolist() == in_order(values)[:keep]


@given(scores.filter(len), st.integers(0, 600))
def test_long_arrays_are_ordered_like_short_ones(values: list[float], keep: int) -> None:
    long = (values * 500)[:500]
    assert descending(np.array(long, np.float32)).tolist() == in_order(long)
    assert best(np.array(long, np.float32), keep).tolist() == in_order(long)[:keep]


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(-3, 3)), max_size=30), keeps)
def test_top_sums_scores_by_row_and_breaks_ties_by_row(pairs: list[tuple[int, int]], keep: int) -> None:
    sums: dict[int, int] = {}
    for row, score in pairs:
        sums[row] = sums.get(row, 0) + score
    wanted = sorted(sums.items(), key=lambda pair: (-pair[1], pair[0]))[:keep]
    found = top(np.array([r for r, _ in pairs], np.int32), np.array([s for _, s in pairs], np.float32), keep)
    assert list(zip(found.rows.tolist(), found.scores.tolist(), strict=True)) == wanted
    assert found.rows.dtype == np.int32


def test_inputs_stay_as_they_are() -> None:
    score, rows = np.array([1, 3, 2], np.float32), np.array([2, 0, 2], np.int32)
    for array in (score, rows):
        array.setflags(write=False)
    best(score, 2)
    top(rows, score, 2)
    descending(score)
