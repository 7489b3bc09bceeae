"""Re-rankers: always a permutation, and each its own law."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.re_rank.mmr import Mmr
from stages.re_rank.spread import Spread
from stages.roles import ColumnName
from stages.types import Candidates
from tests.stages.fakes import batch_of, texts, view_of

VECTORS = ColumnName("item.v")
CATEGORY = ColumnName("item.c")


@st.composite
def scored_vectors(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    n = draw(st.integers(0, 14))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    vectors = rng.normal(size=(n, 3)).astype(np.float32)
    for row in draw(st.sets(st.integers(0, 13), max_size=3)):
        vectors[row : row + 1] = draw(st.sampled_from([np.nan, 0.0]))
    scores = np.sort(rng.normal(size=n).astype(np.float32))[::-1].copy()
    scores[draw(st.integers(0, 14)) :] = draw(st.sampled_from([-np.inf, -3.0]))
    return scores, vectors


def over(scores: np.ndarray, vectors: np.ndarray) -> Candidates:
    return batch_of(range(len(scores)), scores.tolist(), {"item.v": vectors})


def order_of(component: Any, batch: Candidates, size: int) -> list[int]:
    return component.order(view_of(), batch, size).tolist()  # type: ignore[no-any-return]


@given(scored_vectors(), st.floats(0, 1), st.integers(1, 20), st.integers(1, 20))
def test_mmr_returns_a_permutation(
    given_: tuple[np.ndarray, np.ndarray], relevance: float, window: int, size: int
) -> None:
    batch = over(*given_)
    order = order_of(Mmr(VECTORS, relevance, window), batch, size)
    assert sorted(order) == list(range(len(batch)))


@given(scored_vectors(), st.integers(1, 20))
def test_mmr_of_relevance_1_keeps_the_order(given_: tuple[np.ndarray, np.ndarray], size: int) -> None:
    batch = over(*given_)
    assert order_of(Mmr(VECTORS, 1.0), batch, size) == list(range(len(batch)))


def values_of(scores: np.ndarray, vectors: np.ndarray, relevance: float, picked: list[int]) -> list[float]:
    """What each candidate is worth after `picked`, in plain Python; an unlike item is worth no bonus."""
    finite = [float(s) for s in scores if np.isfinite(s)]
    low, high = (min(finite), max(finite)) if finite else (0.0, 0.0)
    unit = [(max(float(s), low) - low) / (high - low) if high > low else 0.0 for s in scores]
    found = []
    for i in range(len(scores)):
        similar = max([_cosine(vectors[i], vectors[j]) for j in picked], default=0.0)
        found.append(relevance * unit[i] - (1 - relevance) * max(similar, 0.0))
    return found


def _cosine(a: np.ndarray, b: np.ndarray) -> float:
    lengths = float(np.linalg.norm(a.astype(np.float64)) * np.linalg.norm(b.astype(np.float64)))
    return float(a.astype(np.float64) @ b.astype(np.float64)) / lengths if lengths > 0 else 0.0


@settings(max_examples=60)
@given(scored_vectors(), st.sampled_from([0.0, 0.3, 0.7, 0.95]))
def test_mmr_picks_what_the_naive_definition_picks(given_: tuple[np.ndarray, np.ndarray], relevance: float) -> None:
    scores, vectors = given_
    order = order_of(Mmr(VECTORS, relevance), over(scores, vectors), len(scores))
    for place, chosen in enumerate(order):
        worth = values_of(scores, vectors, relevance, order[:place])
        assert worth[chosen] >= max(worth[i] for i in order[place:]) - 1e-5


def test_mmr_still_diversifies_when_one_item_has_the_worst_possible_score() -> None:
    vectors = np.array([[1, 0], [1, 0.01], [0, 1], [np.nan, np.nan]], np.float32)
    scores = np.array([1.0, 0.99, 0.5, -np.inf], np.float32)
    assert order_of(Mmr(VECTORS, 0.5), over(scores, vectors), 4)[:2] == [0, 2]


def test_mmr_arranges_only_its_window_and_keeps_the_rest() -> None:
    vectors = np.ones((10, 2), np.float32)
    order = order_of(Mmr(VECTORS, 0.5, window=4), over(np.linspace(1, 0, 10).astype(np.float32), vectors), 2)
    assert sorted(order[:4]) == [0, 1, 2, 3]
    assert order[4:] == [4, 5, 6, 7, 8, 9]


def test_mmr_leaves_scores_and_vectors_as_they_are() -> None:
    scores, vectors = np.array([3, 2, 1], np.float32), np.eye(3, dtype=np.float32)
    vectors.setflags(write=False)
    batch = over(scores, vectors)
    batch.score.setflags(write=False)
    order_of(Mmr(VECTORS, 0.2), batch, 3)


values = st.lists(st.none() | st.sampled_from(["x", "y", "z"]), max_size=24)


@given(values, st.integers(1, 30), st.integers(1, 3), st.integers(1, 6))
def test_spread_puts_at_most_max_of_a_value_in_a_row_of_within_as_long_as_others_are_left(
    column: list[str | None], size: int, most: int, within: int
) -> None:
    batch = batch_of(range(len(column)), resident={"item.c": texts(*column)})
    order = order_of(Spread(CATEGORY, most, within), batch, size)
    assert sorted(order) == list(range(len(column)))
    placed = min(size, len(column))
    for place in range(placed):
        window = [column[i] for i in order[max(0, place - within + 1) : place]]
        fitting = [i for i in order[place:] if column[i] is None or window.count(column[i]) < most]
        # the best one that fits, by the order that the batch came in; else the best one left
        assert order[place] == min(fitting or order[place:])
    assert order[placed:] == sorted(order[placed:])


def test_spread_of_items_that_differ_keeps_the_order() -> None:
    batch = batch_of(range(5), resident={"item.c": texts("a", "b", "c", "d", None)})
    assert order_of(Spread(CATEGORY, 1, 5), batch, 5) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_spread_works_over_numbers_and_never_limits_a_missing_one(dtype: Any) -> None:
    column = np.array([7, 7, 7, 8], dtype)
    batch = batch_of(range(4), resident={"item.c": column})
    assert order_of(Spread(CATEGORY, 1, 2), batch, 4) == [0, 3, 1, 2]
    missing = np.array([np.nan] * 3 + [8], np.float32)
    assert order_of(Spread(CATEGORY, 1, 2), batch_of(range(4), resident={"item.c": missing}), 4) == [0, 1, 2, 3]
