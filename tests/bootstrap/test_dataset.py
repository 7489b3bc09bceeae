import asyncio

import numpy as np
import pytest

from bootstrap.dataset import Dataset
from bootstrap.errors import BootstrapError
from features.behaviour import Behaviour, event_code, event_codes
from features.ids import key_hash
from features.memory_store import MemoryStore
from tests.bootstrap.small import DAY, START, dataset, inputs, shop_rows


def names(data: Dataset) -> list[tuple[str, str, float]]:
    rows = zip(data.user.tolist(), data.item.tolist(), data.ts.tolist(), strict=True)
    return [(data.user_ids[u], data.item_ids[i], ts) for u, i, ts in rows]


def test_repeats_of_user_item_second_and_event_count_once(tmp_path):
    same = [("a", "x", 100.2, "buy", 1.0), ("a", "x", 100.9, "buy", 5.0), ("a", "x", 100, "buy", 2.0)]
    different = [("a", "x", 101, "buy", 1.0), ("a", "y", 100, "buy", 1.0), ("b", "x", 100, "buy", 1.0)]
    data = dataset(tmp_path, [*same, *different, ("a", "x", 100, "look", 1.0)])
    assert len(data.ts) == 5
    first = (data.user == data.user_ids.index("a")) & (data.item == data.item_ids.index("x")) & (data.ts == 100)
    assert sorted(data.event[first].tolist()) == sorted([event_code("buy"), event_code("look")])
    assert data.weight[first & (data.event == event_code("buy"))].tolist() == [2.0]  # the first in time stays


def test_events_are_in_order_of_time_and_seconds_are_whole(tmp_path):
    data = dataset(tmp_path, [("a", "x", 300.7), ("b", "x", 100.5), ("a", "y", 200.0)])
    assert names(data) == [("b", "x", 100.0), ("a", "y", 200.0), ("a", "x", 300.0)]
    assert data.as_of == 300.0


def test_before_a_cut_only_earlier_events_are_known(tmp_path):
    data = dataset(tmp_path, [("a", "x", 100), ("b", "y", 200), ("a", "y", 200), ("a", "z", 300)])
    early = data.before(200)
    assert names(early) == [("a", "x", 100.0)]
    assert early.as_of == 200
    assert (early.user_ids, early.item_ids) == (data.user_ids, data.item_ids)
    assert [len(early.history(row)) for row in range(2)] == [1, 0]
    assert len(data.before(0).ts) == 0
    assert len(data.before(301).ts) == 4
    assert names(data.before(300).before(200)) == names(early)


def test_what_was_taken_in_a_window_is_distinct_and_half_open(tmp_path):
    rows = [("a", "x", 99), ("a", "x", 100), ("a", "x", 150), ("a", "y", 199), ("b", "x", 150), ("b", "z", 200)]
    data = dataset(tmp_path, rows)
    users, items = data.taken_in(100, 200)
    pairs = [(data.user_ids[u], data.item_ids[i]) for u, i in zip(users, items, strict=True)]
    assert pairs == [("a", "x"), ("a", "y"), ("b", "x")]
    assert (np.diff(users) >= 0).all()
    assert [len(part) for part in data.taken_in(300, 400)] == [0, 0]


def test_a_users_history_is_their_own_oldest_first(tmp_path):
    data = dataset(tmp_path, shop_rows())
    for user in range(len(data.user_ids)):
        history = data.history(user)
        mine = np.flatnonzero(data.user == user)
        assert history.rows.tolist() == data.item[mine].tolist()
        assert (np.diff(history.ts) >= 0).all()
        assert history.keys.tolist() == [key_hash(data.item_ids[row].encode()) for row in history.rows]
    assert sum(len(data.history(user)) for user in range(len(data.user_ids))) == len(data.ts)


def test_histories_come_back_from_the_store_as_training_sees_them(tmp_path):
    """Records through Behaviour and its codec: the same rows, times, events and weights in the same order."""
    rows = [(*row, ("buy", "look")[at % 3 == 0], 1.0 + at % 5) for at, row in enumerate(shop_rows(events=800))]
    rows += [("emoji 🎈", "项目", START + at, "buy", 0.5) for at in range(20)]
    data = dataset(tmp_path, rows)
    behaviour = Behaviour(MemoryStore(), event_codes(data.found.events))
    at = {key: row for row, key in enumerate(data.item_keys.tolist())}

    async def read_all():
        store = MemoryStore()
        behaviour = Behaviour(store, event_codes(data.found.events))
        await behaviour.import_history((data.user_ids[u], data.records(u)) for u in range(len(data.user_ids)))
        return [await store.execute(behaviour.read_commands(name), timeout=1.0) for name in data.user_ids]

    for user, replies in enumerate(asyncio.run(read_all())):
        read = behaviour.decode(replies, lambda keys: np.array([at[key] for key in keys.tolist()], np.int32))
        mine = data.history(user)
        order = np.lexsort((mine.event, mine.keys, mine.ts))
        for name in ("rows", "keys", "ts", "event", "weight"):
            assert getattr(read, name).tolist() == getattr(mine, name)[order].tolist()


def test_ids_of_the_catalogue_have_rows_though_nobody_had_them(tmp_path):
    items = {"item_id": ["x", "never"], "title": ["X", "Never"], "colour": ["red", "red"]}
    users = {"user_id": ["a", "b", "quiet"], "region": ["north", "south", "north"], "age": [30, 40, 50]}
    data = dataset(tmp_path, [("a", "x", 100), ("b", "y", 200)], items=items, users=users)
    assert data.item_ids == ["never", "x", "y"]
    assert data.user_ids == ["a", "b", "quiet"]
    assert data.item_columns["title"].decode() == ["Never", "X", None]
    assert "colour" not in data.item_columns  # one value tells nothing
    assert dict(data.found.item_columns) == {"title": "str"}
    assert data.found.user_columns["region"] == "str"
    assert data.found.group == "region"
    assert len(data.history(2)) == 0
    assert len(data.records(2)) == 0


@pytest.mark.parametrize(
    ("columns", "group"),
    [
        ({"region": ["n", "s"], "city": ["a", "b"]}, "region"),
        ({"segment": ["gold", "tin"]}, "segment"),
        ({"region": ["n", "n"], "city": ["a", "b"]}, "city"),
        ({"region": [1, 2]}, None),
        ({"mood": ["good", "bad"]}, None),
    ],
)
def test_popularity_is_split_by_a_column_that_names_a_place_or_a_segment(tmp_path, columns, group):
    data = dataset(tmp_path, [("a", "x", 100), ("b", "y", 200)], users={"user_id": ["a", "b"], **columns})
    assert data.found.group == group


def test_codes_are_text_that_groups_items_and_numbers_called_ids(tmp_path):
    items = {
        "item_id": ["x", "y"],
        "title": ["a", "b"],
        "category": ["c", "d"],
        "maker_id": [7, 9],
        "size": [1, 2],
    }
    data = dataset(tmp_path, [("a", "x", 100), ("b", "y", 200)], items=items)
    assert set(data.found.codes) == {"category", "maker_id"}


def test_more_values_than_kinds_are_codes_when_each_has_many_items(tmp_path):
    made = 25_000
    items = {"item_id": [f"i{at}" for at in range(made)], "type": [f"t{at % 2_400}" for at in range(made)]}
    items["family"] = [f"f{at % 50}" for at in range(made)]
    items["serial"] = [f"s{at % 5_000}" for at in range(made)]
    data = dataset(tmp_path, [("a", "i1", 100), ("b", "i2", 200)], items=items)
    assert set(data.found.codes) == {"type", "family"}
    assert data.found.kind == "family"


def test_a_log_without_events_is_refused(tmp_path):
    from dataclasses import replace

    given = inputs(tmp_path, [("a", "x", START), ("b", "y", START + DAY)])
    log = given.interactions
    empty = replace(
        log, user=log.user[:0], item=log.item[:0], ts=log.ts[:0], event=log.event[:0], weight=log.weight[:0]
    )
    with pytest.raises(BootstrapError, match="no rows"):
        Dataset.of(replace(given, interactions=empty))
