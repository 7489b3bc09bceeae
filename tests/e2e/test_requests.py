"""Requests that are unusual but right: a full list, and the reason when it can't be one."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.e2e.shop import Shop
from tests.service import Service, ids

SCENES = pytest.mark.parametrize("scene", ["home", "discover"])
NOBODY = "nobody 🤷"


@SCENES
@pytest.mark.parametrize("user", [None, NOBODY, "x" * 256, "\0", "用户" * 20])
def test_somebody_unknown_gets_a_full_list(service: Service, scene: str, user: str | None) -> None:
    answer = service.ask(scene, user, size=20)
    assert len(ids(answer)) == 20
    assert answer["degraded"] == []
    assert {name for item in answer["items"] for name in item["channels"]} <= {"popular", "fallback"}


@SCENES
def test_a_known_user_without_a_history_gets_their_regions_list(service: Service, shop: Shop, scene: str) -> None:
    quiet = sorted(set(shop.regions) - set(shop.user_ids))
    by_region = {shop.regions[user]: ids(service.ask(scene, user, size=20)) for user in quiet}
    assert len(by_region) == 3
    assert all(len(listed) == 20 for listed in by_region.values())
    assert len({tuple(listed) for listed in by_region.values()}) > 1


def test_an_item_without_features_is_ranked_and_listed(service: Service, shop: Shop) -> None:
    answer = service.ask("home", shop.user_ids[1], candidates=[shop.plain, shop.item_ids[0]], size=2)
    item = next(item for item in answer["items"] if item["id"] == shop.plain)
    assert item["fields"] == {"title": None, "price": None, "category": None}
    assert item["score"] is not None
    assert answer["degraded"] == []


def test_given_candidates_replace_recall(service: Service, shop: Shop) -> None:
    asked = [item for item in shop.item_ids if item in set(shop.log["item_id"])][:30]
    answer = service.ask("home", shop.user_ids[2], candidates=asked, size=10)
    assert len(ids(answer)) == 10
    assert set(ids(answer)) <= set(asked)
    assert all(item["channels"] == [] for item in answer["items"])


def test_candidates_that_nobody_knows_are_left_out_and_the_list_says_why(service: Service, shop: Shop) -> None:
    known = shop.log["item_id"][0]
    answer = service.ask("home", shop.user_ids[2], candidates=["no-such", known, known, "🎈"], size=5)
    assert ids(answer) == [known]
    assert answer["short"] == "candidates_exhausted"
    assert ids(service.ask("home", candidates=["no-such"], size=5)) == []
    assert ids(service.ask("home", candidates=[], size=5)) == []


@SCENES
def test_excluded_items_stay_out_whether_known_or_not(service: Service, shop: Shop, scene: str) -> None:
    user = shop.user_ids[5]
    before = ids(service.ask(scene, user, size=10))
    answer = service.ask(scene, user, size=10, exclude=[*before, "no-such-item"])
    assert not set(before) & set(ids(answer))
    assert len(ids(answer)) == 10


@SCENES
def test_a_size_beyond_the_catalogue_gives_all_there_is_and_says_so(service: Service, shop: Shop, scene: str) -> None:
    answer = service.ask(scene, shop.user_ids[0], size=500)
    sold = set(shop.log["item_id"])
    had = shop.of(shop.user_ids[0]) if scene == "discover" else set()
    assert set(ids(answer)) == sold - had
    assert len(ids(answer)) == len(sold - had)
    assert answer["short"] == "catalogue_exhausted"
    assert shop.unsold not in ids(answer)


@SCENES
def test_the_same_request_a_hundred_times_gives_the_same_list(service: Service, shop: Shop, scene: str) -> None:
    def asked(user: str | None) -> str:
        answer = service.ask(scene, user, size=50)
        return json.dumps([answer["items"], answer["buckets"]])

    for user in (shop.user_ids[0], None):
        first = asked(user)
        others = [asked(name) for name in shop.user_ids[1:40]]  # what others ask must not change what is cached
        assert {asked(user) for _ in range(100)} == {first}
        assert len(set(others)) > 20


def test_requests_side_by_side_give_each_user_their_own_list(service: Service, shop: Shop) -> None:
    alone = {user: ids(service.ask("home", user)) for user in shop.user_ids[:30]}

    def ask(user: str) -> tuple[str, list[str]]:
        own = service.another()
        answer: Any = own.ask("home", user)
        own.close()
        return user, ids(answer)

    with ThreadPoolExecutor(8) as pool:
        assert all(alone[user] == listed for user, listed in pool.map(ask, [*alone] * 3))


def test_a_declared_context_is_taken_and_an_undeclared_one_refused(service: Service) -> None:
    assert service.ask("home", context={"region": "öst", "hour": 9, "app_version": "3.2.0"})["items"]
    body = {"scene": "home", "user_id": None, "size": 5, "context": {"weather": "rain"}}
    status, headers, content = service.request("POST", "/recommend", body)
    assert status == 422
    assert headers["content-type"] == "application/problem+json"
    assert "app_version" in json.loads(content)["detail"]


def test_debug_shows_the_funnel_and_why_items_are_missing(service: Service, shop: Shop) -> None:
    user = shop.user_ids[0]
    bought = min(shop.of(user))
    asked = [bought, shop.unsold, "no-such-item"]
    answer = service.ask("discover", user, debug=True, why_not=asked)
    steps = {step["name"]: step for step in answer["trace"]["steps"]}
    assert {"features.user", "recall.vector", "recall.i2i", "recall.popular", "merge", "rank.model"} <= set(steps)
    assert steps["filters.seen"]["in"] > steps["filters.seen"]["out"]
    why = {one["id"]: one for one in answer["trace"]["why_not"]}
    assert why[bought]["step"] == "filters.seen"
    assert why["no-such-item"]["step"] is not None
    assert why[shop.unsold]["step"] is not None
