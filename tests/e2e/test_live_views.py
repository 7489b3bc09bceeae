"""Values that others keep in the store, in their own keys: read as they are, at once or after the view's ttl."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from features.commands import Command
from tests.e2e.shop import Shop
from tests.service import Place, Service, ask_store, ids, serving
from tests.valkey import running_valkey
from tests.waiting import until

NOW = ("--now", "2025-03-01T12:00:00Z")  # a clock that stands still must not stop the ttl
USER_VIEW = """user:
  profile_live:
    live: {key: 'u:{id}', layout: hash}
    cache: {policy: fifo, bytes: 1MiB, ttl: 500ms}
    fields: {thrifty: bool = false, most: f32 = 25, tier: str = none}
"""
ITEM_VIEW = """item:
  stock: {live: {key: 's:{id}', layout: hash}, fields: {stock: i32 = 1, status: str = on}}
"""
FILTERS = """filters:
  thrifty: {use: expression, condition: "not user.thrifty or item.price < user.most", on_fail: open}
  sellable: {use: expression, condition: "item.stock > 0 and item.status == 'on'", on_fail: open}
"""


@dataclass
class Live:
    """A service with live views, and its store."""

    service: Service
    url: str
    pid: int

    def write(self, *commands: Command) -> None:
        ask_store(self.url, *commands)


@pytest.fixture(scope="module")
def live(place: Place) -> Iterator[Live]:
    place.replace("features.yaml", "user:\n", USER_VIEW)
    place.replace("features.yaml", "item:\n", ITEM_VIEW)
    scene = place.read("scenes/home.yaml")
    filters = next(line for line in scene.splitlines() if line.startswith("filters:"))
    place.replace("scenes/home.yaml", filters, FILTERS + "  exclude: {}\n  sold: item.buyers > 0")
    place.replace("scenes/home.yaml", "return: [", "return: [stock, status, ")
    with running_valkey() as store, serving(place, *NOW, env={"REDIS_URL": store.url}) as service:
        assert store.pid is not None
        yield Live(service, store.url, store.pid)


def test_what_is_missing_has_its_default(live: Live, shop: Shop) -> None:
    answer = live.service.ask("home", shop.user_ids[0], size=20)
    assert answer["degraded"] == []
    assert {(item["fields"]["stock"], item["fields"]["status"]) for item in answer["items"]} == {(1, "on")}


def test_an_item_sold_out_a_moment_ago_is_gone_and_returns_when_it_does(live: Live, shop: Shop) -> None:
    user = shop.user_ids[1]
    first, second = ids(live.service.ask("home", user))[:2]
    live.write(("HSET", f"s:{first}", "stock", 0), ("HSET", f"s:{second}", "stock", 3, "status", "off"))
    listed = live.service.ask("home", user, size=500)
    assert not {first, second} & set(ids(listed))
    live.write(("HSET", f"s:{first}", "stock", 7), ("HSET", f"s:{second}", "status", "on"))
    again = live.service.ask("home", user)["items"]
    assert [item["id"] for item in again[:2]] == [first, second]
    assert [item["fields"]["stock"] for item in again[:2]] == [7, 3]


def test_a_profile_changed_in_the_store_is_served_once_its_ttl_has_passed(live: Live, shop: Shop) -> None:
    user = shop.user_ids[2]

    def dearest() -> float:
        answer = live.service.ask("home", user, size=50)
        return max(item["fields"]["price"] or 0.0 for item in answer["items"])

    assert dearest() > 25
    live.write(("HSET", f"u:{user}", "thrifty", "1"))
    until(lambda: dearest() < 25, "the changed profile")
    live.write(("HSET", f"u:{user}", "most", "10"))
    until(lambda: dearest() < 10, "the changed profile")
    live.write(("DEL", f"u:{user}"))
    until(lambda: dearest() > 25, "the removed profile")


def test_values_that_cannot_be_read_count_as_missing(live: Live, shop: Shop) -> None:
    user = shop.user_ids[3]
    first, second = ids(live.service.ask("home", user))[:2]
    live.write(("HSET", f"s:{first}", "stock", "many"), ("SET", f"s:{second}", "not a hash"))
    answer = live.service.ask("home", user)
    assert [item["id"] for item in answer["items"][:2]] == [first, second]
    assert [item["fields"]["stock"] for item in answer["items"][:2]] == [1, 1]
    assert answer["degraded"] == []
    live.write(("DEL", f"s:{first}", f"s:{second}"))


def test_with_the_store_gone_the_open_filter_lets_items_pass_and_says_so(live: Live, shop: Shop) -> None:
    user = shop.user_ids[4]
    sold_out = ids(live.service.ask("home", user))[0]
    live.write(("HSET", f"s:{sold_out}", "stock", 0))
    assert sold_out not in ids(live.service.ask("home", user, size=50))
    os.kill(live.pid, signal.SIGSTOP)
    try:
        answer = live.service.ask("home", user, size=20)
        assert len(ids(answer)) == 20
        degraded = {one["step"] for one in answer["degraded"]}
        assert {"features.user", "features.stock", "filters.sellable"} <= degraded
    finally:
        os.kill(live.pid, signal.SIGCONT)
    until(lambda: not live.service.ask("home", user)["degraded"], "a fresh answer", seconds=2.0)
    assert sold_out not in ids(live.service.ask("home", user, size=50))
