"""The store stops, dies or was never there: answers go on within the budget, say so, and are fresh soon after."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.e2e.shop import Shop
from tests.service import Place, Service, ask_store, ids, recserve, serving
from tests.valkey import running_valkey
from tests.waiting import until

NOW = float(int(time.time()))


@pytest.fixture(scope="module")
def live(place: Place) -> Iterator[Service]:
    with serving(place) as running:
        yield running


@pytest.fixture
def stopped(live: Service) -> Iterator[Service]:
    """The service with its store stopped; it goes on when the test does."""
    until(lambda: live.ask()["degraded"] == [], "a good start")
    pid = live.valkey
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        yield live
    finally:
        os.kill(pid, signal.SIGCONT)


def names(answer: Any) -> dict[str, str]:
    return {one["step"]: one["reason"] for one in answer["degraded"]}


def is_fresh(service: Service, user: str) -> bool:
    return not service.ask("discover", user)["degraded"]


@pytest.mark.parametrize("scene", ["home", "discover"])
def test_with_the_store_stopped_answers_are_full_in_time_and_say_so(stopped: Service, shop: Shop, scene: str) -> None:
    for user in shop.user_ids[:15]:
        answer = stopped.ask(scene, user, size=20)
        assert len(ids(answer)) == 20
        # late at first, and soon not asked any more
        assert names(answer)["features.user"] in ("store_timeout", "store_breaker")
        assert names(answer)["recall.i2i"] == names(answer)["features.user"]
        assert {name for item in answer["items"] for name in item["channels"]} <= {"vector", "popular", "fallback"}
        assert "deadline" not in names(answer).values()  # by its own clock no step came after the budget


def test_an_anonymous_request_does_not_need_the_store(stopped: Service) -> None:
    assert stopped.ask("discover", None)["degraded"] == []


def test_events_are_not_promised_while_the_store_is_stopped(stopped: Service, shop: Shop) -> None:
    event = {"user_id": "u", "item_id": shop.plain, "event": "click", "ts": NOW}
    status, headers, content = stopped.request("POST", "/events", {"events": [event]})
    assert status == 503
    assert int(headers["retry-after"]) >= 1
    assert json.loads(content)["type"].endswith("store-unavailable")


def test_many_at_once_are_answered_while_the_store_is_stopped(stopped: Service, shop: Shop) -> None:
    def ask(user: str) -> int:
        own = stopped.another()
        answers = [own.ask("home", user, size=20) for _ in range(3)]
        own.close()
        return min(len(ids(answer)) for answer in answers)

    with ThreadPoolExecutor(24) as pool:
        assert set(pool.map(ask, shop.user_ids[:48])) == {20}


def test_answers_are_fresh_within_two_seconds_of_the_stores_return(live: Service, shop: Shop) -> None:
    user, pid = shop.user_ids[20], live.valkey
    assert pid is not None
    until(lambda: is_fresh(live, user), "an end of the outage before")
    item = ids(live.ask("discover", user))[0]
    live.did((user, item, NOW))
    os.kill(pid, signal.SIGSTOP)
    try:
        assert item in ids(live.ask("discover", user, size=500)) or names(live.ask("discover", user))
    finally:
        os.kill(pid, signal.SIGCONT)
    until(lambda: is_fresh(live, user), "a fresh answer", seconds=2.0)
    assert item not in ids(live.ask("discover", user, size=500))


def test_a_killed_store_comes_back_by_itself_with_its_data(live: Service, shop: Shop) -> None:
    user, pid = shop.user_ids[21], live.valkey
    assert pid is not None
    until(lambda: is_fresh(live, user), "an end of the outage before")
    item = ids(live.ask("discover", user))[0]
    live.did((user, item, NOW))
    before = ids(live.ask("home", user, size=50))
    os.kill(pid, signal.SIGKILL)
    assert len(ids(live.ask("home", user, size=20))) == 20
    until(lambda: live.valkey not in (None, pid), "another store process")
    until(lambda: is_fresh(live, user), "a fresh answer", seconds=2.0)
    assert ids(live.ask("home", user, size=50)) == before
    assert item not in ids(live.ask("discover", user, size=500))
    assert "private store server exited" in until(
        lambda: live.text() if "private store server exited" in live.text() else "", "a line in the log"
    )


def test_degraded_answers_are_counted(live: Service) -> None:
    _, _, content = live.request("GET", "/metrics", operator=True)
    assert b'recserve_degraded_total{reason="store_timeout",step="features.user"}' in content
    assert b"recserve_internal_errors_total{" not in content


def test_a_store_of_ones_own_is_used_by_bootstrap_and_service(shop: Shop, built: Place, fresh: Any) -> None:
    place, user = fresh(), shop.user_ids[0]
    with running_valkey() as store:
        env = {"REDIS_URL": store.url}
        with serving(place, env=env) as service:
            assert b"watchdog" not in service.text().encode()
            with pytest.raises(StopIteration):
                _ = service.watchdog
            item = ids(service.ask("discover", user))[0]
            service.did((user, item, NOW))
            assert item not in ids(service.ask("discover", user, size=500))
            [keys] = ask_store(store.url, ("DBSIZE",))
            assert keys == 1
            assert store.pid is not None
            os.kill(store.pid, signal.SIGKILL)
            assert len(ids(service.ask("discover", user, size=20))) == 20
            until(lambda: is_fresh(service, user), "a fresh answer", seconds=5.0)
            assert item not in ids(service.ask("discover", user, size=500))


def test_a_store_that_is_not_there_costs_what_lies_in_it_and_no_more(shop: Shop, fresh: Any) -> None:
    """Its password, and the token for debug output from elsewhere, are shown nowhere."""
    place = fresh()
    place.replace("service.yaml", "extensions: []", "extensions: []\ntoken: ${SECRET}")
    env = {"REDIS_URL": "redis://shop:hunter2@127.0.0.1:1/0", "SECRET": "swordfish"}
    with serving(place, env=env) as service:
        answer = service.ask("discover", shop.user_ids[0], size=20)
        assert len(ids(answer)) == 20
        assert names(answer)["features.user"] in ("store_unavailable", "store_breaker")
        assert service.reload() == []
        store = service.get("/admin/status", operator=True)["store"]
        assert (store["address"], store["state"]) == ("redis://127.0.0.1:1/0", "down")
        assert "Error 111" in store["last_error"]["message"]
        said = [json.loads(line) for line in service.text().splitlines() if "127.0.0.1:1/0 is down" in line]
        assert said
        assert len({line["worker"] for line in said}) == len(said)  # each worker says it once
        assert service.figure("recserve_store_up") == 0
        shown = [service.request("GET", f"/admin/{page}", operator=True)[2].decode() for page in ("config", "status")]
        for text in (*shown, service.text()):
            assert "hunter2" not in text
            assert "swordfish" not in text


@pytest.mark.parametrize("url", ["redis://127.0.0.1:port/0", "redis://127.0.0.1/?socket_timeout=soon"])
def test_a_store_url_that_cannot_be_used_is_a_clear_error(built: Place, url: str) -> None:
    done = recserve("serve", *built.words, "--port", 0, "--operator-port", 0, env={"REDIS_URL": url}, seconds=30)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "store" in done.stderr
    assert "url" in done.stderr.lower()
