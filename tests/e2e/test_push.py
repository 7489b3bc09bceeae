"""Configuration and releases pushed to two workers under load: nobody notices a bad one, and nothing is mixed."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.shop import Shop
from tests.service import Place, Service, alive, recserve, serving
from tests.waiting import until

HOME = "scenes/home.yaml"
SOLD = "sold: item.buyers > 0"
PUSHES = 20


@pytest.fixture(scope="module")
def running(place: Place) -> Iterator[Service]:
    place.replace("service.yaml", "workers: 1", "workers: 2\npush: {canary: 1s, share: 0.5}")
    with serving(place) as service:
        yield service


@pytest.fixture
def live(place: Place, running: Service) -> Iterator[Service]:
    """The service; its configuration is put back and loaded after each test."""
    before = place.read(HOME)
    yield running
    saved(place, before)
    assert running.reload() == []


def saved(place: Place, text: str) -> None:
    """Saved as editors do: written beside and renamed."""
    beside = place.configs / "home.yaml.saving"
    beside.write_text(text, encoding="utf-8")
    beside.rename(place.configs / HOME)


def pushes(service: Service) -> dict[str, Any]:
    found: dict[str, Any] = service.get("/admin/status", operator=True)
    return dict(found["push"])


def config_of_all(service: Service) -> set[str]:
    """What each worker serves."""
    return {one["config"] for one in service.get("/admin/status", operator=True)["workers"]}


@contextlib.contextmanager
def asking(service: Service, shop: Shop, threads: int = 4) -> Iterator[list[Any]]:
    """Answers of people who ask all the while; an answer other than 200 fails the test."""
    over = threading.Event()
    answers: list[Any] = []

    def ask_on(thread: int) -> None:
        own = service.another()
        try:
            for at in range(1_000_000):
                if over.is_set():
                    return
                answers.append(own.ask("home", shop.user_ids[(thread * 31 + at) % len(shop.user_ids)], size=20))
                if at % 20 == 19:
                    own.close()  # the next connection may go to the other worker
        finally:
            own.close()

    with ThreadPoolExecutor(threads) as pool:
        asked = [pool.submit(ask_on, thread) for thread in range(threads)]
        try:
            until(lambda: len(answers) > 20, "traffic")
            yield answers
        finally:
            over.set()
        for one in asked:
            one.result()


def test_twenty_pushes_of_which_ten_are_malformed_under_load(place: Place, live: Service, shop: Shop) -> None:
    """Each answer obeys the configuration that it names, whichever worker gave it, and none fails."""
    plain = place.read(HOME)
    below: dict[str, float] = {live.ask()["config"]: float("inf")}
    with asking(live, shop) as answers:
        for at in range(PUSHES):
            price = 30.0 + at
            text = plain.replace(SOLD, f"{SOLD}, cheap: item.price < {price}")
            if at % 2:
                saved(place, text.replace("item.price", "item.prize") if at % 4 == 1 else text[: len(text) // 2])
                errors = live.reload()
                assert str(place.configs / HOME) in "\n".join(errors), "paths are those that people edit"
                assert str(place.var) not in "\n".join(errors)
            else:
                saved(place, text)
                assert live.reload() == []
                [config] = config_of_all(live)
                below[config] = price
    assert len(below) == 1 + PUSHES // 2
    assert {answer["config"] for answer in answers} == set(below)
    for answer in answers:
        assert len(answer["items"]) == 20
        prices = [item["fields"]["price"] for item in answer["items"]]
        assert below[answer["config"]] == float("inf") or all(price < below[answer["config"]] for price in prices)
    assert live.figure("recserve_pushes_total", outcome="committed") >= PUSHES // 2
    assert live.figure("recserve_pushes_total", outcome="refused") == PUSHES // 2
    assert live.figure("recserve_requests_total", route="/recommend", status="200") >= len(answers)
    assert live.figure("recserve_requests_total", route="/recommend") == live.figure(
        "recserve_requests_total", route="/recommend", status="200"
    )


def test_a_saved_file_is_served_without_being_asked_to(place: Place, live: Service) -> None:
    before = live.ask()["config"]
    saved(place, place.read(HOME).replace("k: 200", "k: 201"))
    until(lambda: config_of_all(live) != {before} and len(config_of_all(live)) == 1, "the push")
    saved(place, "half: [")
    until(lambda: pushes(live)["last"].get("outcome") == "refused", "the refusal")
    assert f"{place.configs / HOME}:2: Not YAML" in pushes(live)["last"]["errors"][0]
    assert config_of_all(live) != {before}


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (("budget: 120ms", "budget: 1ms"), "were degraded with it"),
        ((SOLD, "sold: item.buyers < 0"), "were empty with it"),
    ],
)
def test_a_push_that_makes_answers_worse_is_rolled_back_by_itself(
    place: Place, live: Service, shop: Shop, edit: tuple[str, str], said: str
) -> None:
    before = live.ask()["config"]
    rolled_back = live.figure("recserve_pushes_total", outcome="rolled_back")
    plain = place.read(HOME)
    errors: list[str] = []
    with asking(live, shop):
        for attempt in range(5):  # with too few answers in the time of a trial nothing can be told
            saved(place, plain.replace("k: 200", f"k: {210 + attempt}").replace(*edit))
            errors = live.reload()
            if errors:
                break
            saved(place, plain)
            assert live.reload() == []
    [error] = errors
    assert error.startswith("Rolled back after ")
    assert said in error
    assert config_of_all(live) == {before}
    assert live.figure("recserve_pushes_total", outcome="rolled_back") == rolled_back + 1
    assert pushes(live)["last"]["outcome"] == "rolled_back"


def test_one_command_goes_back_to_what_served_before(place: Place, live: Service) -> None:
    before = live.ask()["config"]
    saved(place, place.read(HOME).replace("k: 200", "k: 203"))
    assert live.reload() == []
    assert config_of_all(live) != {before}
    status, _, content = live.request("POST", "/admin/rollback", operator=True)
    assert (status, json.loads(content)) == (200, {"status": "rolled back"})
    assert config_of_all(live) == {before}


def test_a_worker_that_dies_while_a_broken_file_lies_there_starts_with_what_was_committed(
    place: Place, live: Service
) -> None:
    before = live.ask()["config"]
    saved(place, "half: [")
    victim = live.workers[0]
    os.kill(victim, signal.SIGKILL)
    until(lambda: not alive(victim), "the end of a worker")
    live.close()  # a connection may have been to that one
    until(lambda: live.get("/readyz", operator=True)["workers"]["ready"] == 2, "another worker")
    assert config_of_all(live) == {before}


def copied(place: Place, version: str) -> Path:
    """The active release under another name."""
    releases = place.var / "releases"
    shutil.copytree(releases / (releases / "active").read_text().strip(), releases / version)
    manifest = releases / version / "manifest.json"
    document = json.loads(manifest.read_text(encoding="utf-8"))
    manifest.write_text(json.dumps(document | {"release": version}), encoding="utf-8")
    return releases / version


def test_a_release_is_activated_and_rolled_back_by_one_command(place: Place, live: Service) -> None:
    first = live.ask()["release"]
    copied(place, "next")
    where = ("--var", place.var, "--operator", f"http://127.0.0.1:{live.operator}")
    done = recserve("release", "activate", "next", *where)
    assert (done.returncode, "The running service serves it." in done.stdout) == (0, True), done.stderr
    assert live.ask()["release"] == "next"
    damaged = copied(place, "damaged")
    (damaged / "item_vectors.faiss").write_bytes(b"")
    done = recserve("release", "activate", "damaged", *where)
    assert done.returncode == 1
    assert "item_vectors.faiss" in done.stderr
    assert recserve("release", "rollback", *where).returncode == 0
    assert live.ask()["release"] == first
    listed = json.loads(recserve("release", "list", "--var", place.var, "--json").stdout)["releases"]
    assert {one["release"]: one["state"] for one in listed} == {first: "active", "next": "previous", "damaged": ""}
    removed = json.loads(recserve("release", "gc", "--keep", "0", "--var", place.var, "--json").stdout)["removed"]
    assert removed == ["damaged"]
