import numpy as np

from bootstrap.title_vectors import title_vectors

TITLES = [
    "red mug large", "blue mug large", "red mug small", "green garden chair", "brown garden chair", "garden chair",
    None, "", "unrelated", "mug", "漢字 mug \U0001f4b0",
]  # fmt: skip


def test_similar_wording_is_nearer_than_other_wording() -> None:
    vectors = title_vectors(TITLES, dim=4)
    assert vectors[0] @ vectors[2] > vectors[0] @ vectors[3] + 0.3
    assert vectors[3] @ vectors[4] > vectors[3] @ vectors[1] + 0.3


def test_vectors_are_of_unit_length_or_zero() -> None:
    vectors = title_vectors(TITLES, dim=8)
    assert vectors.shape == (len(TITLES), 8)
    assert vectors.dtype == np.float32
    length = np.linalg.norm(vectors, axis=1)
    assert length[6] == length[7] == 0
    np.testing.assert_allclose(length[[0, 1, 2, 3, 4, 5, 9, 10]], 1, atol=1e-5)


def test_without_titles_all_vectors_are_zeros() -> None:
    assert not title_vectors([None] * 5).any()
    assert title_vectors([]).shape == (0, 32)
    assert not title_vectors(["mug"]).any()


def test_vectors_repeat_themselves() -> None:
    np.testing.assert_array_equal(title_vectors(TITLES, dim=4), title_vectors(TITLES, dim=4))


def test_a_lone_surrogate_in_a_title_is_taken() -> None:
    assert np.isfinite(title_vectors(["mug \ud800", "mug \ud800x", "mug"], dim=2)).all()
