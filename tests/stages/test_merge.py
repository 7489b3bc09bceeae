"""Merging channels agrees with a dictionary."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stages.columns import Columns
from stages.merge import FUSION_K, merge
from stages.types import NO_HITS, Candidates, Hits
from tests.stages.fakes import hits, view_of

NAMES = ("a", "b", "c", "d")
channels = st.lists(st.lists(st.integers(0, 15), unique=True, max_size=10), max_size=4)
quotas = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 5), max_size=4)


def merged(parts: list[list[int]], limit: int = 1000, at_least: dict[str, int] | None = None) -> Candidates:
    found = [hits(*part, scores=[100.0 - i for i in range(len(part))]) for part in parts]
    return merge(found, NAMES[: len(parts)], Columns(view_of(), {}, {}), limit=limit, at_least=at_least or {})


def fused(parts: list[list[int]]) -> dict[int, float]:
    scores: dict[int, float] = {}
    for part in parts:
        for rank, row in enumerate(part, 1):
            scores[row] = scores.get(row, 0.0) + 1.0 / (FUSION_K + rank)
    return scores


@given(channels)
def test_every_item_is_there_once_with_its_channels_scores_and_ranks(parts: list[list[int]]) -> None:
    batch = merged(parts)
    model = fused(parts)
    assert sorted(batch.rows.tolist()) == sorted(model)
    for i, row in enumerate(batch.rows.tolist()):
        assert math.isclose(batch.score[i], model[row], rel_tol=1e-5)
        assert int(batch.source[i]) == sum(1 << bit for bit, part in enumerate(parts) if row in part)
        for name, part in zip(NAMES, parts, strict=False):
            rank, score = batch[f"channel.{name}.rank"][i], batch[f"channel.{name}.score"][i]
            if row in part:
                assert rank == part.index(row) + 1
                assert score == 100.0 - part.index(row)
            else:
                assert math.isnan(rank)
                assert math.isnan(score)


@given(channels)
def test_the_best_fused_score_comes_first_and_ties_go_to_the_lower_row(parts: list[list[int]]) -> None:
    batch = merged(parts)
    order = list(zip(batch.score.tolist(), batch.rows.tolist(), strict=True))
    assert order == sorted(order, key=lambda pair: (-pair[0], pair[1]))


@given(channels, quotas, st.integers(1, 20))
def test_a_limit_keeps_quotas_first_and_then_the_best(
    parts: list[list[int]], at_least: dict[str, int], limit: int
) -> None:
    whole = merged(parts).rows.tolist()
    must = {row for name, part in zip(NAMES, parts, strict=False) for row in part[: at_least.get(name, 0)]}
    chosen = set([r for r in whole if r in must][:limit])
    chosen |= set([r for r in whole if r not in must][: limit - len(chosen)])
    kept = merged(parts, limit, at_least).rows.tolist()
    assert kept == [r for r in whole if r in (chosen if len(whole) > limit else whole)]
    assert len(kept) == min(limit, len(whole))


@given(channels)
def test_merging_twice_gives_the_same_and_leaves_the_hits(parts: list[list[int]]) -> None:
    found = [hits(*part) for part in parts]
    for hit in found:
        hit.rows.setflags(write=False)
        hit.scores.setflags(write=False)
    one, two = (
        merge(found, NAMES[: len(parts)], Columns(view_of(), {}, {}), limit=7, at_least={"a": 2}) for _ in range(2)
    )
    np.testing.assert_array_equal(one.rows, two.rows)
    np.testing.assert_array_equal(one.score, two.score)


def test_no_channels_and_empty_channels_give_no_candidates() -> None:
    assert len(merged([])) == 0
    assert len(merged([[], []])) == 0
    batch = merge([NO_HITS, hits(3)], ["a", "b"], Columns(view_of(), {}, {}), limit=5, at_least={"a": 3})
    assert batch.rows.tolist() == [3]
    assert batch["channel.a.rank"].tolist() != batch["channel.b.rank"].tolist()


def test_large_row_numbers_survive() -> None:
    last = 2**31 - 1
    assert set(merged([[last, 0], [last]]).rows.tolist()) == {0, last}


def test_sixty_three_channels_have_a_bit_each() -> None:
    names = [f"c{i}" for i in range(63)]
    batch = merge([Hits(*_row(i)) for i in range(63)], names, Columns(view_of(), {}, {}), limit=100, at_least={})
    assert sorted(batch.source.tolist()) == [1 << bit for bit in range(63)]


def _row(i: int) -> tuple[np.ndarray, np.ndarray]:
    return np.array([i], np.int32), np.array([1], np.float32)


@given(channels, st.data())
def test_taking_keeps_each_items_channel_columns(parts: list[list[int]], data: st.DataObject) -> None:
    batch = merged(parts)
    index = data.draw(st.permutations(range(len(batch))))
    taken = batch.take(np.array(index, np.intp)).take(np.arange(len(batch) // 2))
    for name in NAMES[: len(parts)]:
        column = f"channel.{name}.rank"
        np.testing.assert_array_equal(taken[column], batch[column][index[: len(batch) // 2]])
