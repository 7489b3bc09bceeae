"""Configuration swapped while serving: a bad one changes nothing, a good one is whole in every answer."""

from __future__ import annotations

import json
import re
import shutil
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.e2e.shop import Shop
from tests.service import Place, Service, ids, recserve, serving
from tests.waiting import until

HOME, ABTEST = "scenes/home.yaml", "abtest.yaml"
FILES = (ABTEST, HOME, "service.yaml", "scenes/discover.yaml", "models.yaml", "features.yaml")
CHEAP = 20.0


@pytest.fixture(scope="module")
def running(place: Place) -> Iterator[Service]:
    with (place.configs / "service.yaml").open("a", encoding="utf-8") as file:
        file.write("push: {watch: false, canary: 0s}\n")
    with serving(place) as service:
        yield service


@pytest.fixture
def own(place: Place, running: Service) -> Iterator[Place]:
    """The module's configuration, put back and loaded after each test."""
    before = {name: place.read(name) for name in FILES}
    yield place
    (place.configs / ABTEST).write_text(before[ABTEST].replace("status: running", "status: ended"), encoding="utf-8")
    for name in FILES[1:]:
        (place.configs / name).write_text(before[name], encoding="utf-8")
    assert running.reload() == []
    (place.configs / ABTEST).write_text(before[ABTEST], encoding="utf-8")
    assert running.reload() == []


@pytest.fixture
def live(own: Place, running: Service) -> Service:
    return running


def last_reload(service: Service) -> dict[str, Any]:
    found: dict[str, Any] = service.get("/admin/status", operator=True)["last_reload"]
    return found


def hang_up(service: Service) -> list[str]:
    """SIGHUP, and the errors once it has been acted on; `at` alone can't tell, for clocks are coarse."""
    before = last_reload(service)
    service.process.send_signal(signal.SIGHUP)
    until(lambda: last_reload(service) != before, "the reload")
    return list(last_reload(service)["errors"])


@pytest.mark.parametrize("how", ["signal", "route"])
@pytest.mark.parametrize(
    ("name", "old", "new", "line", "said"),
    [
        (HOME, "budget: 120ms", "budget: soon", 5, "budget"),
        (HOME, "sold: item.buyers > 0", "sold: item.byers > 0", 11, "item.buyers"),
        (HOME, "budget: 120ms", "budget: 120ms\nbudget: 130ms", 6, "budget"),
        ("models.yaml", "spaces:", "spaces: [", 5, "Not YAML"),
        ("features.yaml", "release: item_titles", "release: item_tittles", None, "item_titles"),
    ],
)
def test_a_malformed_configuration_keeps_the_old_one(
    own: Place, live: Service, shop: Shop, how: str, name: str, old: str, new: str, line: int | None, said: str
) -> None:
    before = live.ask("home", shop.user_ids[0])
    good = own.read(name)
    own.replace(name, old, new)
    errors = hang_up(live) if how == "signal" else live.reload()
    assert len(errors) >= 1
    text = "\n".join(errors)
    assert said in text
    where = f"{name}:{line}" if line is not None else ""
    assert where in text
    assert last_reload(live)["errors"] == errors
    until(lambda: "reload refused" in live.text() and where in live.text(), "the errors in the log")
    after = live.ask("home", shop.user_ids[0])
    assert (after["config"], after["items"]) == (before["config"], before["items"])
    assert live.get("/readyz") == {"status": "ready"}
    (own.configs / name).write_text(good, encoding="utf-8")
    assert live.reload() == []
    assert live.ask("home", shop.user_ids[0])["config"] == before["config"]


@pytest.mark.parametrize("score", ["item.price", "log(buy - 2)", "buy / 0", "channel.vector.score"])
def test_a_score_that_is_not_finite_is_refused_at_its_line_and_in_words(own: Place, live: Service, score: str) -> None:
    before = live.ask()["config"]
    own.replace(HOME, "score: buy", f'score: "{score}"')
    (told,) = live.reload()
    assert live.ask()["config"] == before
    checked = recserve("check", "--config", own.configs, "--var", own.var)
    assert checked.returncode == 1
    said, count = checked.stderr.splitlines()
    assert count == "1 problem."
    place = f"{own.configs / HOME}:13 rank.score: "
    assert said.startswith(place)
    words = (
        r"Model home_ranker: [1-9]\d* scores are not finite\. Fill what may be missing, with coalesce\(x, default\)\."
    )
    assert re.fullmatch(words, said.removeprefix(place))
    assert said.endswith(told.partition(":13 ")[2])


def test_scenes_in_wrong_places_are_refused_by_a_push_too(own: Place, live: Service) -> None:
    text = own.read(HOME)
    strays = [own.configs / name for name in ("scenes/sub/n.yaml", "scenes/n.YAML", "Scenes/n.yaml")]
    for path in strays:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    told = live.reload()
    for path in strays:
        path.unlink()
    for path in (own.configs / "scenes/sub", own.configs / "Scenes"):
        path.rmdir()
    assert [line.removeprefix(f"{own.configs}/") for line in told] == [
        "Scenes/n.yaml: Not read: expected scenes in scenes/ itself. Move it there.",
        "scenes/n.YAML: Not read: expected the ending .yaml. Rename it.",
        "scenes/sub/n.yaml: Not read: expected scenes in scenes/ itself. Move it there.",
    ]


def test_every_error_of_a_bad_configuration_is_told(own: Place, live: Service) -> None:
    own.replace(HOME, "budget: 120ms", "budget: soon")
    own.replace("scenes/discover.yaml", "k: 300", "k: lots")
    own.replace("features.yaml", "last: 50", "last: many")
    errors = live.reload()
    for name in (HOME, "scenes/discover.yaml", "features.yaml"):
        assert re.search(rf"{name}:\d+ ", "\n".join(errors))


@pytest.mark.parametrize(
    ("old", "new"),
    [("url: '${REDIS_URL:-}'", "url: redis://127.0.0.1:1/0"), ("url: '${REDIS_URL:-}'", "timeout: 20ms")],
)
def test_what_is_read_at_start_only_is_not_ignored_in_silence(own: Place, live: Service, old: str, new: str) -> None:
    own.replace("service.yaml", old, new)
    errors = live.reload()
    assert len(errors) == 1
    assert "service.yaml:4 store." in errors[0]
    assert "restart" in errors[0]
    assert live.ask()["degraded"] == []


def test_a_release_that_is_gone_is_told_and_the_loaded_one_serves_on(own: Place, live: Service, shop: Shop) -> None:
    before = live.ask("home", shop.user_ids[0])["items"]
    active = own.var / "releases" / "active"
    active.rename(active.with_name("was"))
    assert "recserve bootstrap" in "\n".join(live.reload())
    assert live.ask("home", shop.user_ids[0])["items"] == before
    active.with_name("was").rename(active)
    assert live.reload() == []


def test_another_release_is_served_after_a_reload_and_taken_back_by_the_same_move(
    own: Place, live: Service, shop: Shop
) -> None:
    """Its own ids and popularity, the users' own histories: what was bought meanwhile counts in both."""
    releases, user = own.var / "releases", shop.user_ids[7]
    was = (releases / "active").read_text()
    shutil.copytree(releases / was.strip(), releases / "next")
    manifest = releases / "next" / "manifest.json"
    document = json.loads(manifest.read_text(encoding="utf-8"))
    manifest.write_text(json.dumps(document | {"release": "next"}), encoding="utf-8")
    (releases / "active").write_text("next")
    before = live.ask("home", user)
    assert live.reload() == []
    after = live.ask("home", user)
    assert (before["release"], after["release"]) == (was.strip(), "next")
    assert (after["config"], after["items"]) == (before["config"], before["items"])
    bought = ids(live.ask("discover", user))[0]
    live.did((user, bought, 1_760_000_000))
    (releases / "active").write_text(was)
    assert live.reload() == []
    answer = live.ask("discover", user, size=500)
    assert answer["release"] == was.strip()
    assert bought not in ids(answer)


def test_a_good_change_is_served_whole_under_load(own: Place, live: Service, shop: Shop) -> None:
    """Two configurations swapped back and forth: each answer obeys the one that it names."""
    plain = own.read(HOME)
    first = live.ask()["config"]
    own.replace(HOME, "sold: item.buyers > 0", f"sold: item.buyers > 0, cheap: item.price < {CHEAP}")
    own.replace(HOME, "return: [title, price, category]", "return: [price, title]")
    cheap = own.read(HOME)
    over = threading.Event()

    def ask_on(worker: int) -> list[Any]:
        own_connections = live.another()
        answers = []
        while not over.is_set():
            user = shop.user_ids[(worker * 31 + len(answers)) % len(shop.user_ids)]
            answers.append(own_connections.ask("home", user, size=20))
        own_connections.close()
        return answers

    with ThreadPoolExecutor(4) as pool:
        working = [pool.submit(ask_on, worker) for worker in range(4)]
        try:
            for at in range(6):
                (own.configs / HOME).write_text(plain if at % 2 else cheap, encoding="utf-8")
                assert live.reload() == []
            own.replace(HOME, "budget: 120ms", "budget: soon")
            assert live.reload() != []
        finally:
            over.set()
        answers = [answer for job in working for answer in job.result()]
    by_config: dict[str, list[Any]] = {}
    for answer in answers:
        by_config.setdefault(answer["config"], []).append(answer)
    assert len(by_config) == 2
    assert first in by_config
    for config, some in by_config.items():
        fields = {tuple(sorted(item["fields"])) for answer in some for item in answer["items"]}
        prices = [item["fields"]["price"] for answer in some for item in answer["items"]]
        assert all(len(ids(answer)) == 20 for answer in some)
        if config == first:
            assert fields == {("category", "price", "title")}
            assert any(price is None or price >= CHEAP for price in prices)
        else:
            assert fields == {("price", "title")}
            assert all(price is not None and price < CHEAP for price in prices)
    assert live.ask()["config"] == first
    status, _, metrics = live.request("GET", "/metrics", operator=True)
    assert status == 200
    assert b'recserve_requests_total{route="/recommend",status="5' not in metrics


def test_another_default_of_a_parameter_changes_the_order(own: Place, live: Service, shop: Shop) -> None:
    users = shop.user_ids[:20]
    before = {user: live.ask("home", user, size=20) for user in users}
    own.replace(ABTEST, "home.relevance: {float: [0, 1], default: 0.95", "home.relevance: {float: [0, 1], default: 0.3")
    assert live.reload() == []
    after = {user: live.ask("home", user, size=20) for user in users}
    assert all(after[user]["config"] != before[user]["config"] for user in users)
    assert any(ids(after[user]) != ids(before[user]) for user in users)


@pytest.mark.parametrize(
    ("old", "new", "accepted"),
    [
        ("control: {weight: 5000, control", "control: {weight: 4000, control", False),
        ("slots: [[0, 2000]]", "slots: [[0, 1000]]", False),
        ("slots: [[0, 2000]]", "slots: [[0, 3000]]", True),
        ("slots: [[0, 2000]]", "slots: [[1000, 3000]]", False),
        ("unit: user_id\n        experiments:", "unit: device_id\n        experiments:", False),
        ("set: {discover.relevance: 0.7}", "set: {discover.relevance: 0.6}", False),
        ("mmr_relevance@1", "mmr_relevance@2", True),
        ("status: running", "status: ended", True),
    ],
)
def test_a_change_that_would_reshuffle_a_running_experiment_is_refused(
    own: Place, live: Service, shop: Shop, old: str, new: str, accepted: bool
) -> None:
    before = {user: live.ask("discover", user)["buckets"] for user in shop.user_ids[:50]}
    own.replace(ABTEST, old, new)
    if "weight: 4000" in new:
        own.replace(ABTEST, "diverse: {weight: 5000", "diverse: {weight: 6000")
    errors = live.reload()
    assert (errors == []) is accepted
    if not accepted:
        assert re.search(rf"{ABTEST}:\d+ ", errors[0])
        assert "mmr_relevance@1" in "\n".join(errors)
        assert {user: live.ask("discover", user)["buckets"] for user in before} == before
