"""What the funnel gets of a user and of live items: full names, defaults, and reasons where nobody knows."""

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from expression import Strings
from features.behaviour import Behaviour, Event, event_codes
from features.commands import Command, Reply
from features.errors import CommandError, StoreError, StoreTimeout, StoreUnavailable
from features.item_table import IdTable
from features.keys import KeyTemplate
from features.live import LiveField, LiveView
from features.memory_store import MemoryStore
from features.reader import ItemFetcher, Recent, UserColumns, UserReader
from features.resident import ResidentUsers
from features.store import FeatureStore

ITEMS = IdTable.build(["a", "b", "c", "d"])
USERS = ResidentUsers(IdTable.build(["u", "v"]), {"user.age": np.array([30, np.nan], np.float32)})
PROFILE = LiveView(
    "profile",
    KeyTemplate.compile("p:{id}"),
    "hash",
    (LiveField("score", "f32", 0.5), LiveField("city", "str")),
)
BADGE = LiveView("badge", KeyTemplate.compile("b:{id}"), "hash", (LiveField("level", "i32"),))
STOCK = LiveView(
    "stock",
    KeyTemplate.compile("s:{id}"),
    "hash",
    (LiveField("left", "i32", 0), LiveField("shop", "str"), LiveField("cost", "f32"), LiveField("look", "f32[2]")),
)


RECENT = Recent("user.recent", 2)


class Shop:
    """A store with readers over it."""

    def __init__(self, *views: LiveView, recent: Recent | None = RECENT) -> None:
        self.outage: Exception | None = None
        self.store = MemoryStore(before=self._before)
        self.behaviour = Behaviour(self.store, event_codes(["click"]))
        features = FeatureStore(self.store, self.behaviour, lambda: 0.0)
        self.reader = UserReader(ITEMS, USERS, features, views, recent)
        self.fetcher = ItemFetcher(ITEMS, features, {STOCK.name: STOCK})

    async def _before(self, commands: Sequence[Command]) -> None:
        if self.outage is not None:
            raise self.outage

    def set(self, *commands: Command) -> None:
        asyncio.run(self.store.execute(commands, timeout=1.0))

    def did(self, *items: str) -> None:
        asyncio.run(self.behaviour.append([Event("u", i, "click", 100.0 + n) for n, i in enumerate(items)], timeout=1))

    def read(self, user: str | None = "u") -> UserColumns:
        return asyncio.run(self.reader.read(user, timeout=1.0))

    def fetch(self, names: Sequence[str], rows: Sequence[int]) -> Any:
        return asyncio.run(self.fetcher.fetch({"stock": names}, np.array(rows, np.int32), timeout=1.0))


def test_release_live_and_behaviour_come_by_full_name_in_one_round_trip() -> None:
    shop = Shop(PROFILE)
    shop.set(("HSET", "p:u", "score", "2.5", "city", "Köln"))
    shop.did("c", "unknown", "a")
    before = shop.store.round_trips
    read = shop.read()
    assert shop.store.round_trips == before + 1
    assert read.failed == {}
    assert (read.columns["user.age"], read.columns["user.score"], read.columns["user.city"]) == (30.0, 2.5, "Köln")
    assert read.columns["user.history"].rows.tolist() == [2, -1, 0]
    assert read.columns["user.recent"].rows.tolist() == [-1, 0]


def test_missing_is_absent_or_the_default_and_not_an_error() -> None:
    read = Shop(PROFILE, BADGE).read("v")
    assert read.failed == {}
    assert dict(read.columns) == {"user.score": 0.5}


def test_an_anonymous_user_costs_no_round_trip() -> None:
    shop = Shop(PROFILE)
    shop.outage = StoreUnavailable("down")
    read = shop.read(None)
    assert read.failed == {}
    assert "user.history" not in read.columns


@pytest.mark.parametrize(
    ("error", "reason"), [(StoreTimeout("late"), "timeout"), (StoreUnavailable("down"), "unavailable")]
)
def test_an_outage_names_every_column_that_could_not_be_read(error: StoreError, reason: str) -> None:
    shop = Shop(PROFILE, BADGE)
    shop.outage = error
    read = shop.read()
    names = ["user.score", "user.city", "user.level", "user.history", "user.recent"]
    assert dict(read.failed) == dict.fromkeys(names, reason)
    assert read.columns["user.age"] == 30.0


def test_no_time_left_is_a_timeout() -> None:
    read = asyncio.run(Shop(PROFILE).reader.read("u", timeout=-0.1))
    assert read.failed["user.history"] == "timeout"


def test_a_value_that_does_not_decode_is_missing_and_its_neighbours_stay() -> None:
    shop = Shop(PROFILE, BADGE)
    shop.set(("HSET", "p:u", "score", "lots", "city", "Köln"), ("SET", "b:u", "not a hash"))
    read = shop.read()
    assert read.failed == {}
    assert (read.columns["user.score"], read.columns["user.city"]) == (0.5, "Köln")
    assert "user.level" not in read.columns


def test_a_view_that_is_refused_is_named_alone() -> None:
    shop = Shop(PROFILE, BADGE)
    shop.set(("HSET", "p:u", "score", "2.5"), ("HSET", "b:u", "level", "7"))
    answer = shop.store.handlers["HMGET"]

    def forbidden(key: bytes, *names: bytes) -> Reply:
        if key.startswith(b"p:"):
            raise CommandError("NOPERM no permission")
        return answer(key, *names)

    shop.store.handlers["HMGET"] = forbidden
    read = shop.read()
    assert dict(read.failed) == {"user.score": "command", "user.city": "command"}
    assert read.columns["user.level"] == 7


def test_a_scene_without_behaviour_reads_none() -> None:
    shop = Shop(recent=None)
    shop.did("a")
    shop.outage = StoreUnavailable("down")
    assert shop.read() == UserColumns({"user.age": 30.0}, {})


def test_live_columns_are_typed_and_missing_items_have_defaults() -> None:
    shop = Shop()
    look = np.array([0.25, 4], "<f4").tobytes()
    shop.set(("HSET", "s:b", "left", "3", "shop", "north", "cost", "1.5", "look", look), ("HSET", "s:a", "left", "x"))
    before = shop.store.round_trips
    columns = shop.fetch(["item.left", "item.shop", "item.cost", "item.look"], [1, 3, 0])
    assert shop.store.round_trips == before + 1
    assert columns["item.left"].tolist() == [3, 0, 0]
    assert columns["item.left"].dtype == np.int32
    assert columns["item.shop"].decode() == ["north", None, None]
    np.testing.assert_array_equal(columns["item.cost"], np.array([1.5, np.nan, np.nan], np.float32))
    np.testing.assert_array_equal(columns["item.look"], np.array([[0.25, 4], [np.nan] * 2, [np.nan] * 2], np.float32))


def test_only_the_columns_asked_for_come() -> None:
    assert list(Shop().fetch(["item.cost"], [0])) == ["item.cost"]
    assert Shop().fetch(["item.cost"], [])["item.cost"].tolist() == []


def test_a_failed_fetch_raises_and_absent_gives_the_same_types() -> None:
    shop = Shop()
    names = ["item.left", "item.shop", "item.cost", "item.look"]
    shop.outage = StoreTimeout("late")
    with pytest.raises(StoreTimeout):
        shop.fetch(names, [0, 1])
    absent = shop.fetcher.absent(names, 2)
    shop.outage = None
    fetched = shop.fetch(names, [0, 1])
    for name in names:
        assert type(absent[name]) is type(fetched[name])
        if isinstance(absent[name], Strings):
            assert absent[name].decode() == fetched[name].decode() == [None, None]
        else:
            np.testing.assert_array_equal(absent[name], fetched[name])
            assert absent[name].dtype == fetched[name].dtype
