"""What the guard accepts from a component, and how it names what it does not."""

import logging
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from features.errors import CommandError, StoreError, StoreTimeout, StoreUnavailable
from stages.errors import InvalidOutput
from stages.guard import REASONS, Outcome, Record, check_hits, check_mask, check_order, check_scores, reason_of
from stages.types import Hits

f32 = np.float32


def hits_of(rows: Any, scores: Any) -> Hits:
    return Hits(rows, scores)


@given(
    st.lists(
        st.tuples(st.integers(-2, 9), st.sampled_from([1.0, 0.5, np.nan, np.inf, -np.inf, 0.0])),
        max_size=20,
    )
)
def test_hits_lose_unknown_rows_repetitions_and_scores_that_are_not_numbers(pairs: list[tuple[int, float]]) -> None:
    wanted: dict[int, float] = {}
    for row, score in pairs:
        if row >= 0 and np.isfinite(score):
            wanted.setdefault(row, score)
    made = check_hits(hits_of(np.array([r for r, _ in pairs], np.int64), np.array([s for _, s in pairs])), 10)
    assert list(zip(made.rows.tolist(), made.scores.tolist(), strict=True)) == list(wanted.items())
    assert (made.rows.dtype, made.scores.dtype) == (np.int32, np.float32)


@pytest.mark.parametrize(
    ("hits", "message"),
    [
        (None, "returned NoneType. Expected Hits"),
        (([1], [2.0]), "returned tuple. Expected Hits"),
        (hits_of(np.array([1, 2]), np.array([1.0])), r"rows \(2,\) and scores \(1,\)"),
        (hits_of(np.array([[1, 2]]), np.array([[1.0, 2.0]])), "Expected two of one length"),
        (hits_of(np.array([1, 10]), np.ones(2)), r"up to 10\. Expected rows below 10"),
        (hits_of(np.array([2**32 + 1]), np.ones(1)), "Expected rows below 10"),
        (hits_of(np.array([1.5]), np.ones(1)), "float64"),
    ],
)
def test_hits_that_break_the_contract_are_named(hits: Any, message: str) -> None:
    with pytest.raises(InvalidOutput, match=message):
        check_hits(hits, 10)


def test_plain_lists_are_hits_too() -> None:
    assert check_hits(hits_of([3, 1], [2.0, 1.0]), 10).rows.tolist() == [3, 1]
    assert len(check_hits(hits_of([], []), 10).rows) == 0


@pytest.mark.parametrize(
    "mask", [None, [True] * 3, np.ones(3), np.ones(3, np.int8), np.ones(2, np.bool_), np.ones((3, 1), np.bool_), True]
)
def test_a_filter_returns_bools_for_every_candidate(mask: Any) -> None:
    with pytest.raises(InvalidOutput, match=r"Expected bool\[3\]"):
        check_mask(mask, 3)


@pytest.mark.parametrize("scores", [None, [1.0] * 3, np.ones(2), np.ones((3, 1)), np.float32(1), 1.0])
def test_a_scorer_returns_a_score_for_every_candidate(scores: Any) -> None:
    with pytest.raises(InvalidOutput, match=r"Expected f32\[3\]"):
        check_scores(scores, 3)


def test_a_score_may_be_the_worst_but_not_nan() -> None:
    assert check_scores(np.array([1, -np.inf, np.inf]), 3).dtype == np.float32
    assert check_scores(np.array([3, 1, 2]), 3).tolist() == [3, 1, 2]
    with pytest.raises(InvalidOutput, match="NaN for 2 of 3"):
        check_scores(np.array([np.nan, 1, np.nan], f32), 3)


@given(st.lists(st.integers(-1, 5), max_size=7), st.integers(0, 5))
def test_an_order_is_accepted_exactly_when_it_holds_positions_each_once(order: list[int], n: int) -> None:
    valid = len(set(order)) == len(order) and all(0 <= at < n for at in order)
    if valid:
        assert check_order(np.array(order, np.intp), n).tolist() == order
    else:
        with pytest.raises(InvalidOutput, match="a re-ranker returned"):
            check_order(np.array(order, np.intp), n)


@pytest.mark.parametrize("order", [None, [0, 1], np.array([0.0]), np.array([[0]]), np.array([True])])
def test_an_order_is_an_array_of_positions(order: Any) -> None:
    with pytest.raises(InvalidOutput, match="Expected an index array"):
        check_order(order, 2)


FAILURES: dict[str, tuple[BaseException, str, bool]] = {
    "store_timeout": (StoreTimeout("x"), "store_timeout", False),
    "store_unavailable": (StoreUnavailable("x"), "store_unavailable", False),
    "store_command": (CommandError("x"), "store_command", False),
    "store_error": (StoreError("x"), "store_error", False),
    "timeout": (TimeoutError(), "timeout", False),
    "invalid": (InvalidOutput("x"), "invalid_output", True),
    "bug": (ZeroDivisionError("x"), "error", True),
    "key": (KeyError("item.x"), "error", True),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_has_a_reason_of_the_closed_list_and_only_bugs_are_logged(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    error, reason, bug = FAILURES[name]
    with caplog.at_level(logging.DEBUG, "recserve.stages"):
        assert reason_of("rank.model", error) == reason
    assert reason in REASONS
    assert [r.exc_info[1] if r.exc_info else None for r in caplog.records] == ([error] if bug else [])
    assert all("rank.model" in r.getMessage() for r in caplog.records)


def test_an_outcome_takes_reads_of_steps_that_ran_and_nothing_once_sealed() -> None:
    outcome = Outcome()
    outcome.add(Record("a", 0.1, 1, 1), ["p"])
    outcome.add(Record("b", 0.1, 1, 1, "timeout"), ["q"])
    outcome.add(Record("c", 0.1, 1, 1, "error"), ["r"])
    outcome.sealed = True
    outcome.add(Record("d", 0.1, 1, 1, "error"), ["s"])
    assert outcome.reads == {"p"}
    assert outcome.degraded == [("b", "timeout"), ("c", "error")]
    assert outcome.bugs == 1
    assert len(outcome.records) == 3
