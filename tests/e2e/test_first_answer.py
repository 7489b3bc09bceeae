"""What a newcomer sees: the printed curl line, one answer, the pages."""

from __future__ import annotations

import json
import re
import shlex
import subprocess

import pytest

from tests.e2e.shop import Shop
from tests.service import Place, Service, ids, recserve

SCENES = ("home", "discover")


def printed_request(service: Service) -> list[str]:
    line = next(line for line in service.text().splitlines() if line.strip().startswith("try"))
    return shlex.split(line.strip().removeprefix("try"))


def test_the_printed_curl_line_works(service: Service) -> None:
    words = printed_request(service)
    done = subprocess.run([*words, "--max-time", "10"], capture_output=True, check=True)
    answer = json.loads(done.stdout)
    assert words[0] == "curl"
    assert len(answer["items"]) == 5


def test_the_printed_user_has_a_history(service: Service, shop: Shop) -> None:
    words = printed_request(service)
    user = json.loads(words[words.index("-d") + 1])["user_id"]
    assert shop.of(user)


@pytest.mark.parametrize("scene", SCENES)
def test_an_answer_is_full_and_says_why_each_item_is_there(service: Service, shop: Shop, scene: str) -> None:
    user = shop.log["user_id"][-1]
    answer = service.ask(scene, user, size=20)
    assert len(set(ids(answer))) == 20
    assert answer["short"] is None
    assert answer["degraded"] == []
    assert answer["level"] == 0
    for item in answer["items"]:
        assert item["channels"]
        assert set(item["channels"]) <= {"vector", "i2i", "popular", "repeat", "fallback"}
        assert item["score"] is not None
        assert set(item["fields"]) == {"title", "price", "category"}
        if item["id"] != shop.plain:
            assert item["fields"]["title"].endswith("«nice»")
            assert 1 <= item["fields"]["price"] <= 50


def test_scores_of_the_ranker_are_probabilities(service: Service, shop: Shop) -> None:
    answer = service.ask("home", shop.log["user_id"][-1], size=20)
    assert all(0 < item["score"] < 1 for item in answer["items"])


def test_home_repeats_what_was_bought_and_discover_never_does(service: Service, shop: Shop) -> None:
    for user in shop.user_ids[:40]:
        assert not shop.of(user) & set(ids(service.ask("discover", user, size=20)))
    user = max(shop.user_ids, key=lambda one: len(shop.of(one)))
    repeated = [item["id"] for item in service.ask("home", user)["items"] if "repeat" in item["channels"]]
    assert repeated
    assert set(repeated) <= shop.of(user)


def test_an_answer_names_configuration_release_and_assignment(service: Service, shop: Shop) -> None:
    version, answers = service.get("/version"), [service.ask(scene, shop.user_ids[0]) for scene in SCENES]
    for answer in answers:
        assert answer["config"] == version["config"]
        assert answer["release"] == version["release"]
        assert list(answer["buckets"]) == ["re_rank"]
    assert re.fullmatch(r"[0-9a-f]{12}", version["config"])
    assert version["scenes"] == ["discover", "home"]


def test_recommend_and_why_ask_the_running_service(service: Service, shop: Shop) -> None:
    user, url = shop.user_ids[3], f"http://127.0.0.1:{service.port}"
    listed = recserve("recommend", user, "--url", url)
    assert listed.returncode == 0, listed.stderr
    first = service.ask("home", user, size=20)["items"][0]
    assert first["fields"]["title"] in listed.stdout
    bought = min(shop.of(user))
    why = recserve("why", "--user", user, "--item", bought, "--scene", "discover", "--url", url, "--json")
    said = json.loads(why.stdout)
    assert (said["listed"], said["step"]) == (False, "filters.seen")


def test_the_pages_are_there(service: Service) -> None:
    for path in ("/", "/docs"):
        status, headers, content = service.request("GET", path)
        assert status == 200
        assert headers["content-type"].startswith("text/html")
        assert b"<" in content
    assert set(service.get("/openapi.json")["paths"]) >= {"/recommend", "/events", "/healthz", "/readyz", "/version"}
    assert service.get("/healthz") == {"status": "ok"}
    assert service.get("/readyz") == {"status": "ready"}


def test_operator_pages_are_on_the_second_listener_only(service: Service) -> None:
    status, headers, content = service.request("GET", "/metrics", operator=True)
    assert status == 200
    assert headers["content-type"].startswith("text/plain")
    for metric in (b"recserve_requests_total", b'recserve_step_seconds_count{step="rank.model"}', b"exposures_dropped"):
        assert metric in content
    assert service.get("/admin/status", operator=True)["last_reload"] == {}
    for path in ("/metrics", "/admin/status", "/admin/config"):
        assert service.request("GET", path)[0] == 404


def test_the_configuration_is_shown_without_secrets(service: Service) -> None:
    shown = service.get("/admin/config", operator=True)
    assert set(shown) >= {"service.yaml", "features.yaml", "scenes/home.yaml", "abtest.yaml"}


def test_what_bootstrap_writes_passes_check(built: Place) -> None:
    done = recserve("check", "--config", built.configs)
    assert done.returncode == 0, done.stderr
    assert "is good" in done.stdout


def test_the_index_and_its_measured_recall_stand_in_the_manifest(built: Place) -> None:
    active = (built.var / "releases" / "active").read_text().strip()
    manifest = json.loads((built.var / "releases" / active / "manifest.json").read_text())
    index = manifest["indexes"]["item_vectors"]
    assert index["recall"]["value"] >= 0.93
    assert set(manifest["models"]) == {"home_ranker", "discover_ranker"}
    assert all(entry["files"] for entry in manifest["models"].values())
