import numpy as np
import pytest

from bootstrap.protocol import estimate, measure, ndcg_of_groups, summary, truth_after

DAY = 86_400.0


def test_truth_holds_known_users_and_only_new_items_when_asked() -> None:
    users = np.array([0, 0, 0, 1, 2, 0])
    items = np.array([5, 5, 6, 5, 4, 7])
    ts = np.array([0.0, 10.0, 11.0, 12.0, 1.0, 100.0]) * DAY
    new = truth_after(users, items, ts, 10 * DAY, 30.0, new_only=True)
    assert new.users.tolist() == [0]
    assert [part.tolist() for part in new.items] == [[6]]
    repeats = truth_after(users, items, ts, 10 * DAY, 30.0, new_only=False)
    assert [part.tolist() for part in repeats.items] == [[5, 6]]


def test_no_one_after_the_cut_is_an_empty_truth() -> None:
    truth = truth_after(np.array([0]), np.array([0]), np.array([0.0]), DAY, 30.0, new_only=True)
    assert truth.users.size == 0
    assert truth.items == []


def test_metrics_of_lists_worked_out_by_hand() -> None:
    got = measure([np.array([1, 2, 3]), np.array([], np.int32)], [np.array([2, 9]), np.array([1])])
    assert got[0] == pytest.approx([1, 0.5, (1 / np.log2(3)) / (1 + 1 / np.log2(3))])
    assert got[1].tolist() == [0, 0, 0]


def test_only_the_first_k_places_count() -> None:
    served = np.arange(100, 130)
    assert measure([served], [np.array([125])])[0].tolist() == [0, 0, 0]
    assert measure([served], [np.array([100])])[0].tolist() == [1, 1, 1]


def test_the_interval_holds_the_mean_and_repeats_itself() -> None:
    values = np.random.default_rng(0).random(400)
    got = estimate(values)
    assert got.low < got.mean < got.high
    assert got.high - got.low < 0.1
    assert estimate(values) == got
    assert str(got).startswith("0.")
    assert set(summary(np.zeros((3, 3)))) == {"hit_rate", "recall", "ndcg"}


def test_no_users_have_no_estimate() -> None:
    assert np.isnan(estimate(np.empty(0)).mean)


def test_grouped_ndcg_agrees_with_the_lists_own() -> None:
    random = np.random.default_rng(3)
    sizes = np.array([30, 5, 40, 3])
    labels = random.random(78) < 0.2
    labels[-3:] = False
    score = random.random(78)
    lists, truth, start = [], [], 0
    for size in sizes:
        part = slice(start, start + size)
        order = np.argsort(-score[part])
        if labels[part].any():
            lists.append(order)
            truth.append(np.flatnonzero(labels[part]))
        start += size
    assert ndcg_of_groups(score, labels, sizes) == pytest.approx(measure(lists, truth)[:, 2].mean())
