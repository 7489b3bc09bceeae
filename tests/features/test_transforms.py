import inspect

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.history import History
from features.history_digest import DAY, HistoryDigest
from features.transforms import TRANSFORMS, ParameterKind

NOW = 1_000 * DAY
ROWS = np.array([0, 1, 2, 3], np.int32)


def history(*events: tuple[int, float]) -> HistoryDigest:
    """A digest of (row, days ago) events."""
    events = tuple(sorted(events, key=lambda event: -event[1]))
    rows = np.array([row for row, _ in events], np.int32)
    ts = np.array([NOW - days * DAY for _, days in events], np.float64)
    m = len(rows)
    return HistoryDigest(History(rows, rows.astype(np.uint64), ts, np.zeros(m, np.uint16), np.ones(m, np.float32)), NOW)


BOUGHT = history((1, 30), (2, 20), (1, 10), (1, 9.9))
UNIT = np.eye(4, dtype=np.float32)


def call(name: str, *arguments: object) -> list[float]:
    out = TRANSFORMS[name].apply(*arguments)
    assert out.dtype == np.float32
    return [float(value) for value in out]


def test_ratio_of_nothing_is_missing() -> None:
    found = call("ratio", np.array([1, 3, 0], np.float32), np.array([2, 0, 0], np.float32))
    assert found == pytest.approx([0.5, np.nan, np.nan], nan_ok=True)


def test_product_of_a_missing_value_is_missing() -> None:
    found = call("product", np.array([2, np.nan], np.float32), np.array([3, 1], np.float32))
    assert found == pytest.approx([6, np.nan], nan_ok=True)


def test_log1p_takes_negative_values_as_zero() -> None:
    assert call("log1p", np.array([0, np.e - 1, -5], np.float32)) == pytest.approx([0, 1, 0])


def test_age_counts_from_now_and_is_never_negative() -> None:
    assert call("age_days", NOW, NOW + np.array([-2.5, 1, np.nan]) * DAY) == pytest.approx(
        [2.5, 0, np.nan], nan_ok=True
    )


@pytest.mark.parametrize("vector", [None, np.zeros(4, np.float32), np.full(4, np.nan, np.float32)])
def test_dot_without_a_user_vector_is_missing(vector: np.ndarray | None) -> None:
    assert np.isnan(call("dot", vector, UNIT)).all()


def test_dot_is_the_inner_product() -> None:
    assert call("dot", np.arange(4, dtype=np.float32), UNIT) == [0, 1, 2, 3]


def test_similarity_is_to_the_mean_of_the_last_events() -> None:
    assert call("history_similarity", ROWS, BOUGHT, UNIT) == [0, 0.75, 0.25, 0]
    assert call("history_similarity", ROWS, BOUGHT, UNIT, 2) == [0, 1, 0, 0]


def test_nearest_leaves_the_item_itself_out() -> None:
    vectors = np.array([[1, 0], [1, 0], [0, 1], [0.6, 0.8]], np.float32)
    assert call("history_nearest", ROWS, BOUGHT, vectors) == pytest.approx([1, 0, 0, 0.8])
    assert call("history_nearest", ROWS, history((2, 1)), vectors)[2] != 1
    assert np.isnan(call("history_nearest", ROWS, history((2, 1)), vectors)[2])


def test_share_counts_events_of_the_same_code() -> None:
    codes = np.array([7, 7, 3, -1], np.int32)
    assert call("history_share", ROWS, BOUGHT, codes) == pytest.approx([0.75, 0.75, 0.25, np.nan], nan_ok=True)


def test_share_of_late_events_counts_more_with_a_half_life() -> None:
    codes = np.array([7, 7, 3, -1], np.int32)
    found = call("history_share", ROWS, history((1, 10), (2, 20)), codes, 10.0)
    assert found == pytest.approx([2 / 3, 2 / 3, 1 / 3, np.nan], nan_ok=True)
    assert np.isnan(call("history_share", ROWS, history((3, 1)), codes, 10.0)).all()


def test_share_of_a_history_of_long_ago_is_the_same() -> None:
    codes = np.array([7, 7, 3, -1], np.int32)
    old = call("history_share", ROWS, history((1, 100_010), (2, 100_020)), codes, 10.0)
    assert old == pytest.approx([2 / 3, 2 / 3, 1 / 3, np.nan], nan_ok=True)


def test_variety_of_a_code_is_distinct_items_over_events() -> None:
    codes = np.array([7, 7, 3, 4], np.int32)
    found = call("history_code_variety", ROWS, history((0, 4), (1, 3), (1, 2), (1, 1), (2, 1)), codes)
    assert found == pytest.approx([0.5, 0.5, 1, np.nan], nan_ok=True)
    assert np.isnan(call("history_code_variety", ROWS, history(), codes)).all()


def test_code_days_is_the_age_of_the_newest_event_of_the_code() -> None:
    codes = np.array([7, 7, 3, -1], np.int32)
    found = call("history_code_days", ROWS, BOUGHT, codes)
    assert found == pytest.approx([9.9, 9.9, 20, np.nan], nan_ok=True, rel=1e-4)


def test_ratio_to_the_usual_value_of_the_history() -> None:
    prices = np.array([5, 10, 2, np.nan], np.float32)
    assert call("history_ratio", ROWS, history((1, 2), (3, 1)), prices) == pytest.approx(
        [0.5, 1, 0.2, np.nan], nan_ok=True
    )


def test_own_item_counts_days_and_recency() -> None:
    assert call("history_count", ROWS, BOUGHT) == [0, 3, 1, 0]
    assert call("history_days", ROWS, BOUGHT) == [0, 2, 1, 0]
    assert call("history_last_days", ROWS, BOUGHT) == pytest.approx([np.nan, 9.9, 20, np.nan], nan_ok=True)
    assert call("history_frequency", ROWS, history((1, 10), (1, 0)), 10.0) == pytest.approx([0, 1.5, 0, 0])


def test_two_events_of_one_day_are_one_day() -> None:
    same_day = history((1, 0.0), (1, 0.0), (1, 5.0))
    assert call("history_days", ROWS, same_day)[1] == 2
    assert call("history_gap_days", ROWS, same_day)[1] == pytest.approx(5)


def test_due_prefers_the_users_own_gap_to_the_items() -> None:
    usual = np.array([40, 40, 40, 40], np.float32)
    found = call("history_due", ROWS, history((1, 30), (1, 10), (2, 20)), usual)
    assert found == pytest.approx([np.nan, 0.5, 0.5, np.nan], nan_ok=True)


def test_traits_of_the_history_are_the_same_for_all_candidates() -> None:
    assert call("history_length", ROWS, BOUGHT) == [4, 4, 4, 4]
    assert call("history_variety", ROWS, BOUGHT) == [0.5] * 4
    assert call("history_idle_days", ROWS, BOUGHT) == pytest.approx([9.9] * 4)


def arguments(name: str, digest: HistoryDigest, rows: np.ndarray, items: int) -> list[object]:
    random = np.random.default_rng(1)
    made: dict[ParameterKind, object] = {
        ParameterKind.ROWS: rows,
        ParameterKind.NOW: NOW,
        ParameterKind.COLUMN: random.random(rows.size).astype(np.float32),
        ParameterKind.MATRIX: random.random((rows.size, 8)).astype(np.float32),
        ParameterKind.USER_VECTOR: random.random(8).astype(np.float32),
        ParameterKind.HISTORY: digest,
        ParameterKind.RESIDENT_COLUMN: random.random(items).astype(np.float32),
        ParameterKind.RESIDENT_MATRIX: random.random((items, 8)).astype(np.float32),
        ParameterKind.RESIDENT_CODES: random.integers(-1, 5, items).astype(np.int32),
        ParameterKind.CONSTANT: 10.0,
    }
    return [made[kind] for kind in TRANSFORMS[name].parameters.values()]


@pytest.mark.parametrize("name", TRANSFORMS)
@given(events=st.lists(st.tuples(st.integers(0, 11), st.floats(0, 90)), max_size=30), n=st.integers(0, 12))
@settings(max_examples=20, deadline=None)
def test_a_candidate_gets_the_same_value_alone_and_in_a_batch(
    name: str, events: list[tuple[int, float]], n: int
) -> None:
    digest = history(*events)
    rows = np.random.default_rng(n).permutation(12).astype(np.int32)[:n]
    given_arguments = arguments(name, digest, rows, 12)
    whole = TRANSFORMS[name].apply(*given_arguments)
    assert whole.shape == (n,)
    assert whole.dtype == np.float32
    assert not np.isinf(whole).any()
    varying = (ParameterKind.ROWS, ParameterKind.COLUMN, ParameterKind.MATRIX)
    for at in range(min(n, 3)):
        alone = [
            value[at : at + 1] if kind in varying else value  # type: ignore[index]  # arrays, by their kind
            for kind, value in zip(TRANSFORMS[name].parameters.values(), given_arguments, strict=True)
        ]
        np.testing.assert_allclose(TRANSFORMS[name].apply(*alone)[0], whole[at], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_declared_parameters_are_the_functions_own(name: str) -> None:
    transform = TRANSFORMS[name]
    signature = inspect.signature(transform.apply)
    assert tuple(signature.parameters) == tuple(transform.parameters)
    assert dict(transform.defaults) == {
        key: value.default for key, value in signature.parameters.items() if value.default is not value.empty
    }
