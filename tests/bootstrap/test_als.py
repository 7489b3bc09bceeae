import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from bootstrap.als import AlsSettings, confidence, fold_in, train
from bootstrap.matrix import DAY, decayed_matrix, keep_heaviest


def two_tastes(users: int = 60, items: int = 30) -> sp.csr_matrix:
    random = np.random.default_rng(0)
    taste = (np.arange(users)[:, None] % 2) == (np.arange(items)[None, :] % 2)
    return sp.csr_matrix((taste & (random.random((users, items)) < 0.4)).astype(np.float32))


def dense_solution(trust: np.ndarray, other: np.ndarray, regularisation: float) -> np.ndarray:
    out = np.zeros((trust.shape[0], other.shape[1]))
    for row, extra in enumerate(trust):
        left = other.T @ ((1 + extra)[:, None] * other) + regularisation * np.eye(other.shape[1])
        out[row] = np.linalg.solve(left, other.T @ ((1 + extra) * (extra > 0)))
    return out


@given(seed=st.integers(0, 10_000), density=st.floats(0.02, 0.9), factors=st.sampled_from([2, 8, 16]))
@settings(max_examples=30, deadline=None)
def test_fold_in_solves_the_normal_equations_for_short_and_long_rows(seed: int, density: float, factors: int) -> None:
    random = np.random.default_rng(seed)
    trust = random.random((20, 40)) * 5 * (random.random((20, 40)) < density)
    other = random.standard_normal((40, factors)).astype(np.float32)
    solved = fold_in(sp.csr_matrix(trust.astype(np.float32)), other, 2.0)
    np.testing.assert_allclose(solved, dense_solution(trust, other, 2.0), atol=2e-3)


def test_a_row_without_interactions_is_all_zeros() -> None:
    other = np.ones((3, 2), np.float32)
    solved = fold_in(sp.csr_matrix(np.array([[0, 0, 0], [1, 0, 0]], np.float32)), other, 1.0)
    assert not solved[0].any()
    assert solved[1].any()


def test_unseen_items_of_a_users_taste_score_above_the_others() -> None:
    matrix = two_tastes()
    factors = train(matrix, AlsSettings(factors=8, regularisation=1.0, seed=3))
    scores = factors.users @ factors.items.T
    unseen = matrix.toarray() == 0
    same = (np.arange(60)[:, None] % 2) == (np.arange(30)[None, :] % 2)
    assert scores[unseen & same].mean() > 5 * abs(scores[unseen & ~same].mean())


def test_training_repeats_itself_for_one_seed() -> None:
    first = train(two_tastes(), AlsSettings(factors=8, seed=3))
    second = train(two_tastes(), AlsSettings(factors=8, seed=3))
    np.testing.assert_array_equal(first.items, second.items)
    np.testing.assert_array_equal(first.users, second.users)


def test_items_below_the_support_floor_still_get_vectors() -> None:
    matrix = two_tastes().tolil()
    matrix[:, 29] = 0
    matrix[0, 29] = 1
    factors = train(sp.csr_matrix(matrix), AlsSettings(factors=8, min_support=3))
    assert factors.items[29].any()


def test_an_empty_matrix_gives_zeros() -> None:
    factors = train(sp.csr_matrix((3, 4), dtype=np.float32), AlsSettings(factors=2))
    assert factors.users.shape == (3, 2)
    assert not factors.items.any()


def test_confidence_does_not_depend_on_the_unit_of_weights() -> None:
    matrix = decayed_matrix(
        np.array([0, 0, 1]), np.array([0, 1, 1]), np.zeros(3), np.array([1.0, 2.0, 5.0]), (2, 2), 0.0, 30.0
    )
    np.testing.assert_allclose(confidence(matrix, 2.0).data, confidence(matrix * 1000, 2.0).data, rtol=1e-5)


def test_weights_halve_with_every_half_life_and_add_up() -> None:
    ts = np.array([0.0, 10 * DAY, 20 * DAY])
    matrix = decayed_matrix(
        np.zeros(3, np.int32), np.zeros(3, np.int32), ts, np.ones(3), (1, 1), 20 * DAY, half_life_days=10.0
    )
    assert matrix[0, 0] == pytest.approx(1.75)


def test_pairs_that_cancel_out_are_left_out() -> None:
    matrix = decayed_matrix(np.array([0, 0]), np.array([1, 1]), np.zeros(2), np.array([2.0, -2.0]), (1, 2), 0.0, np.inf)
    assert matrix.nnz == 0


@given(seed=st.integers(0, 1_000), most=st.integers(1, 8))
@settings(max_examples=25, deadline=None)
def test_only_the_heaviest_entries_of_a_row_are_kept(seed: int, most: int) -> None:
    matrix = sp.random(6, 12, 0.6, "csr", random_state=np.random.default_rng(seed))
    kept = keep_heaviest(matrix, most)
    for row in range(6):
        before = np.sort(matrix[row].data)[::-1][:most]
        np.testing.assert_array_equal(np.sort(kept[row].data)[::-1], before)
