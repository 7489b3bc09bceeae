"""Read your writes: what `POST /events` took is in the very next answer, once, and after any restart."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest

from features.keys import OwnKey
from tests.e2e.shop import Shop
from tests.service import Place, Service, alive, ids, serving
from tests.waiting import until

NOW = float(int(time.time()))


@pytest.fixture(scope="module")
def live(place: Place) -> Iterator[Service]:
    with serving(place) as running:
        yield running


def channels(answer: Any, item: str) -> list[str]:
    return next((one["channels"] for one in answer["items"] if one["id"] == item), [])


def refused(service: Service, *events: dict[str, Any]) -> dict[str, Any]:
    status, headers, content = service.request("POST", "/events", {"events": list(events)})
    assert headers["content-type"] == "application/problem+json"
    document: dict[str, Any] = json.loads(content)
    assert document["status"] == status
    return document


def test_the_next_answer_knows_what_was_just_bought(live: Service, shop: Shop) -> None:
    for user in [*shop.user_ids[:10], "a new 👤"]:
        item = ids(live.ask("discover", user, size=5))[2]
        live.did((user, item, NOW))
        assert item not in ids(live.ask("discover", user, size=500))
        assert "repeat" in channels(live.ask("home", user, size=500), item)


def test_a_first_event_brings_neighbours(live: Service, shop: Shop) -> None:
    assert not [item for item in live.ask("discover", "newcomer", size=50)["items"] if "i2i" in item["channels"]]
    live.did(("newcomer", shop.plain, NOW))
    found = live.ask("discover", "newcomer", size=50)
    assert [item for item in found["items"] if "i2i" in item["channels"]]
    assert shop.plain not in ids(found)


def test_one_bad_event_keeps_all_of_them_out(live: Service, shop: Shop) -> None:
    user = "all or nothing"
    good = {"user_id": user, "item_id": shop.plain, "event": "purchase", "ts": NOW}
    for bad in ({"event": "refund"}, {"ts": 4e12}, {"item_id": ""}, {"surprise": 1}, {"item_id": "é" * 200}):
        document = refused(live, good, good | bad)
        assert document["status"] in (400, 422)
        assert "events[1]" in document["detail"]
        assert shop.plain in ids(live.ask("discover", user, size=500))


def test_an_undeclared_event_is_named_with_those_that_are_declared(live: Service, shop: Shop) -> None:
    document = refused(live, {"user_id": "u", "item_id": shop.plain, "event": "refund", "ts": NOW})
    assert document["status"] == 422
    assert "click, purchase" in document["detail"]


def test_a_retry_counts_once(live: Service, shop: Shop) -> None:
    events = [("retrier", item, NOW - at) for at, item in enumerate(shop.log["item_id"][:20])]
    live.did(*events)
    first = live.ask("home", "retrier", size=50)["items"]
    for _ in range(3):
        live.did(*events)
    assert live.ask("home", "retrier", size=50)["items"] == first


def test_events_with_items_that_the_release_does_not_know_are_kept_and_harmless(live: Service) -> None:
    live.did(*[("explorer", f"new item 🆕 {at}", NOW + at) for at in range(1000)])
    answer = live.ask("discover", "explorer", size=20)
    assert len(ids(answer)) == 20
    assert answer["degraded"] == []


@pytest.mark.parametrize("foreign", [("SET", "foreign"), ("HSET", "f", "v")])
def test_what_somebody_else_put_under_the_key_hides_no_event(
    live: Service, shop: Shop, foreign: tuple[str, ...]
) -> None:
    user = f"met a {foreign[0]}"
    word, *values = foreign
    live.store((word, OwnKey("events", "1").key(user.encode()), *values))
    live.did((user, shop.plain, NOW))
    answer = live.ask("discover", user, size=500)
    assert shop.plain not in ids(answer)
    assert answer["degraded"] == []


def test_no_event_and_too_many_are_refused(live: Service) -> None:
    event = {"user_id": "u", "item_id": "i", "event": "click", "ts": NOW}
    assert refused(live, *[event] * 1001)["status"] in (413, 422)
    assert refused(live)["status"] in (400, 422)


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL])
def test_events_survive_the_end_of_the_service_and_nothing_outlives_it(
    place: Place, shop: Shop, ending: signal.Signals, tmp_path_factory: pytest.TempPathFactory, built: Place
) -> None:
    own = built.copy(tmp_path_factory.mktemp("ending"))
    with serving(own) as first:
        keepers = [first.watchdog, first.valkey]
        history = ids(first.ask("discover", shop.user_ids[0], size=500))
        first.did(("survivor", shop.plain, NOW))
        os.kill(first.process.pid, ending)
        assert first.process.wait(20) == (0 if ending == signal.SIGTERM else -signal.SIGKILL)
        until(lambda: not any(alive(pid) for pid in keepers if pid is not None), "the end of the store")
    with serving(own) as second:
        assert shop.plain not in ids(second.ask("discover", "survivor", size=500))
        assert ids(second.ask("discover", shop.user_ids[0], size=500)) == history
