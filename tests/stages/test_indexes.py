"""FAISS: recall is measured and reached, parameters stay with their call, files come back."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from stages.runtime.indexes import BuiltIndex, FaissIndex, build_index

N, DIM, K = 3000, 16, 20


def clustered(n: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(0).normal(size=(60, DIM))
    return (centres[rng.integers(0, 60, n)] + 0.3 * rng.normal(size=(n, DIM))).astype(np.float32)


VECTORS, QUERIES = clustered(N, 1), clustered(50, 2)


def build(kind: str = "ivf_sq8", floor: float = 0.9) -> BuiltIndex:
    return build_index(VECTORS, QUERIES, space="als", kind=kind, k=K, floor=floor)


@pytest.fixture(scope="module")
def ivf() -> BuiltIndex:
    return build()


def exact(query: np.ndarray, k: int = K) -> list[int]:
    return np.argsort(-(VECTORS @ query), kind="stable")[:k].tolist()  # type: ignore[no-any-return]


def recall(index: FaissIndex, effort: int | None = None) -> float:
    found = [index.search(q, K, effort=effort)[0] for q in QUERIES]
    return float(np.mean([np.isin(exact(q), f).mean() for q, f in zip(QUERIES, found, strict=True)]))


def test_a_small_catalogue_is_searched_exhaustively() -> None:
    built = build("auto")
    assert (built.kind, built.index.effort, built.recall) == ("flat", None, 1.0)
    for query in QUERIES[:5]:
        rows, scores = built.index.search(query, K)
        assert rows.tolist() == exact(query)
        np.testing.assert_allclose(scores, VECTORS[rows] @ query, rtol=1e-4)


def test_probes_grow_until_the_floor_is_reached_and_the_recall_is_what_searches_get(ivf: BuiltIndex) -> None:
    assert ivf.kind == "ivf_sq8"
    assert ivf.recall >= 0.9
    assert recall(ivf.index) == pytest.approx(ivf.recall, abs=1e-6)


def test_a_higher_floor_takes_at_least_as_many_probes(ivf: BuiltIndex) -> None:
    low = build(floor=0.0)
    assert low.index.effort is not None
    assert ivf.index.effort is not None
    assert low.index.effort <= ivf.index.effort
    assert low.recall <= ivf.recall + 1e-6


def test_building_twice_gives_the_same_answers(ivf: BuiltIndex) -> None:
    again = build()
    assert (again.recall, again.index.effort) == (ivf.recall, ivf.index.effort)
    np.testing.assert_array_equal(again.index.search(QUERIES[0], K)[0], ivf.index.search(QUERIES[0], K)[0])


def test_the_effort_of_one_search_does_not_leak_into_the_next(ivf: BuiltIndex) -> None:
    index, query = ivf.index, QUERIES[3]
    default = index.search(query, K)[0].tolist()
    narrow = index.search(query, 2000, effort=1)[0]
    assert 0 < len(narrow) < N // 4
    assert (narrow >= 0).all()
    assert index.search(query, K)[0].tolist() == default
    assert len(index.search(query, 2000, effort=10**6)[0]) == 2000


def test_searches_of_different_effort_run_side_by_side(ivf: BuiltIndex) -> None:
    wanted = {effort: [ivf.index.search(q, K, effort=effort)[0].tolist() for q in QUERIES] for effort in (1, 8, 64)}
    jobs = [(effort, at) for at in range(len(QUERIES)) for effort in wanted]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda job: ivf.index.search(QUERIES[job[1]], K, effort=job[0])[0].tolist(), jobs))
    assert found == [wanted[effort][at] for effort, at in jobs]


@pytest.mark.parametrize("kind", ["flat", "ivf_sq8"])
def test_a_written_index_answers_the_same_when_loaded(tmp_path: Path, ivf: BuiltIndex, kind: str) -> None:
    built = ivf if kind == "ivf_sq8" else build("flat")
    built.write(tmp_path / "i.faiss")
    loaded = FaissIndex.load(tmp_path / "i.faiss", space="als", effort=built.index.effort)
    assert (loaded.space, loaded.dim, loaded.index.ntotal) == ("als", DIM, N)
    for query in QUERIES[:5]:
        for one, two in zip(loaded.search(query, K), built.index.search(query, K), strict=True):
            np.testing.assert_array_equal(one, two)


def test_more_than_there_are_gives_all_there_are() -> None:
    index = build_index(VECTORS[:7], VECTORS[:7], space="als").index
    rows, scores = index.search(QUERIES[0], 100)
    assert sorted(rows.tolist()) == list(range(7))
    assert len(scores) == 7


def test_an_item_without_a_vector_stays_behind_those_that_point_the_same_way() -> None:
    vectors = np.array([[1, 0], [np.nan, np.nan], [0.5, 0.5]], np.float32)
    index = build_index(vectors, vectors[:1], space="als").index
    rows, scores = index.search(np.array([1, 0], np.float32), 3)
    assert rows.tolist() == [0, 2, 1]
    assert np.isfinite(scores).all()


def test_a_read_only_query_is_searched(ivf: BuiltIndex) -> None:
    query = QUERIES[0].copy()
    query.setflags(write=False)
    assert len(ivf.index.search(query, K)[0]) == K
