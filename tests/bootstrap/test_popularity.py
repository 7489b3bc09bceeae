import numpy as np
import pytest

from bootstrap.popularity import DAY, popularity_columns, popularity_lists, sold_of_codes

NOW = 400 * DAY


def days_ago(*days: float) -> np.ndarray:
    return NOW - np.array(days) * DAY


def test_windows_count_interactions_buyers_and_new_buyers() -> None:
    users = np.array([0, 0, 1, 1], np.int32)
    items = np.array([0, 0, 0, 1], np.int32)
    columns = popularity_columns(users, items, days_ago(40, 3, 10, 200), 3, NOW, windows=(7, 30, 180))
    assert columns["sold_7d"].tolist() == [1, 0, 0]
    assert columns["sold_30d"].tolist() == [2, 0, 0]
    assert columns["sold_180d"].tolist() == [3, 0, 0]
    assert columns["buyers_180d"].tolist() == [2, 0, 0]
    assert columns["buyers"].tolist() == [2, 1, 0]
    assert columns["new_buyers_7d"].tolist() == [0, 0, 0]
    assert columns["new_buyers_30d"].tolist() == [1, 0, 0]


def test_sales_of_a_code_are_those_of_its_items() -> None:
    found = sold_of_codes(np.array([1, 2, 4, 8], np.float32), np.array([5, 9, 5, -1], np.int32))
    assert found.tolist()[:3] == [5, 2, 5]
    assert np.isnan(found[3])


def test_an_item_never_seen_has_no_first_or_last_time() -> None:
    columns = popularity_columns(np.array([0]), np.array([0]), days_ago(5), 2, NOW)
    assert columns["first_seen"][0] == NOW - 5 * DAY
    assert np.isnan(columns["first_seen"][1])
    assert np.isnan(columns["last_seen"][1])


def test_events_after_as_of_change_nothing() -> None:
    random = np.random.default_rng(2)
    users, items = random.integers(0, 20, 300), random.integers(0, 10, 300)
    ts = NOW + random.uniform(-200, 50, 300) * DAY
    past = ts <= NOW
    whole = popularity_columns(users, items, ts, 10, NOW)
    cut = popularity_columns(users[past], items[past], ts[past], 10, NOW)
    assert whole.keys() == cut.keys()
    for name, column in whole.items():
        np.testing.assert_array_equal(column, cut[name], err_msg=name)
    np.testing.assert_array_equal(
        popularity_lists(items, ts, 10, NOW).toarray(),
        popularity_lists(items[past], ts[past], 10, NOW).toarray(),
    )


def test_repurchase_days_is_the_mean_gap_between_days_of_one_user() -> None:
    users = np.array([0, 0, 0, 1], np.int32)
    items = np.zeros(4, np.int32)
    columns = popularity_columns(users, items, days_ago(30, 20, 16, 50), 2, NOW)
    assert columns["repurchase_days"][0] == pytest.approx(7.0)
    assert np.isnan(columns["repurchase_days"][1])


def test_an_item_that_users_return_for_has_the_larger_repeat_share() -> None:
    users = np.repeat(np.arange(10), 4).astype(np.int32)
    items = np.tile([0, 0, 1, 2], 10).astype(np.int32)
    ts = np.tile(days_ago(30, 20, 10, 5), 10)
    share = popularity_columns(users, items, ts, 3, NOW)["repeat_share"]
    assert share[0] > share[1]
    assert ((share >= 0) & (share <= 1)).all()


def test_a_recent_seller_leads_the_list() -> None:
    items = np.array([0] * 10 + [1] * 4, np.int32)
    ts = np.concatenate([days_ago(*[60] * 10), days_ago(*[1] * 4)])
    lists = popularity_lists(items, ts, 3, NOW, half_life_days=7.0, top=2)
    assert lists.indices.tolist() == [1, 0]
    assert lists.data[0] > lists.data[1]


def test_a_group_with_evidence_differs_and_one_without_follows_everyone() -> None:
    items = np.array([0] * 500 + [1] * 900, np.int32)
    groups = np.array([0] * 500 + [1] * 900, np.int32)
    lists = popularity_lists(items, np.full(1400, NOW), 2, NOW, groups=groups, n_groups=3, prior=50.0)
    first = [int(lists.indices[lists.indptr[row]]) for row in range(4)]
    assert first == [1, 0, 1, 1]
