import numpy as np
import pytest
import scipy.sparse as sp

from bootstrap import item_to_item
from bootstrap.item_to_item import ItemToItemSettings, neighbours


def purchases(seed: int = 0, users: int = 80, items: int = 40) -> sp.csr_matrix:
    random = np.random.default_rng(seed)
    return sp.csr_matrix((random.random((users, items)) < 0.15).astype(np.float32))


def list_of(found: sp.csr_matrix, item: int) -> tuple[list[int], list[float]]:
    low, high = found.indptr[item], found.indptr[item + 1]
    return found.indices[low:high].tolist(), found.data[low:high].tolist()


def test_items_bought_by_the_same_users_are_each_others_best_neighbours() -> None:
    matrix = purchases().tolil()
    matrix[:, 1] = matrix[:, 0]
    found = neighbours(sp.csr_matrix(matrix), ItemToItemSettings(top=5))
    assert list_of(found, 0)[0][0] == 1
    assert list_of(found, 1)[0][0] == 0


def test_lists_are_bounded_descending_and_never_hold_the_item_itself() -> None:
    found = neighbours(purchases(), ItemToItemSettings(top=7))
    assert np.diff(found.indptr).max() <= 7
    for item in range(40):
        rows, scores = list_of(found, item)
        assert item not in rows
        assert scores == sorted(scores, reverse=True)
        assert all(score > 0 for score in scores)


def test_an_item_of_a_single_user_is_in_no_list() -> None:
    matrix = purchases().tolil()
    matrix[:, 3] = 0
    matrix[5, 3] = 1
    found = neighbours(sp.csr_matrix(matrix), ItemToItemSettings(min_support=2))
    assert list_of(found, 3) == ([], [])
    assert 3 not in found.indices


def test_blocks_do_not_change_the_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = neighbours(purchases(), ItemToItemSettings(top=10))
    monkeypatch.setattr(item_to_item, "BLOCK_PAIRS", 50)
    steps: list[None] = []
    blocked = neighbours(purchases(), ItemToItemSettings(top=10), lambda: steps.append(None))
    assert len(steps) > 5
    np.testing.assert_array_equal(whole.indptr, blocked.indptr)
    np.testing.assert_array_equal(whole.indices, blocked.indices)
    np.testing.assert_allclose(whole.data, blocked.data, rtol=1e-5)


def test_shrinkage_puts_a_well_supported_pair_before_a_lucky_one() -> None:
    matrix = np.zeros((40, 5), np.float32)
    matrix[:30, 0] = matrix[:30, 1] = 1
    matrix[30:36, 1] = 1
    matrix[38:, 2] = matrix[38:, 3] = 1
    found = neighbours(sp.csr_matrix(matrix), ItemToItemSettings(shrinkage=5.0, discount=0.0, popularity=1.0))
    assert list_of(found, 0)[1][0] > list_of(found, 2)[1][0]


def test_nothing_in_gives_empty_lists() -> None:
    found = neighbours(sp.csr_matrix((4, 6), dtype=np.float32), ItemToItemSettings())
    assert found.shape == (6, 6)
    assert found.nnz == 0
