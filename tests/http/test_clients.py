"""API keys: who is let in, how often, and that keys show up nowhere."""

from __future__ import annotations

import hmac
import logging
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app import clients as module
from app.clients import Clients
from app.headers import Headers
from app.problems import Problem
from tests.http.service import Service

KEY, OTHER = "k3y-of-web", "k3y-of-app"


@dataclass(frozen=True)
class Client:
    name: str
    key: str
    rate: float = 1000.0
    burst: float = 1000.0


def headers(**lines: str) -> Headers:
    return Headers([(name.replace("_", "-").encode(), value.encode()) for name, value in lines.items()])


@pytest.mark.parametrize("path", ["/recommend", "/events"])
@pytest.mark.parametrize("lines", [{}, {"x_recserve_key": "wrong"}, {"authorization": f"Basic {KEY}"}])
def test_without_a_valid_key_it_is_401(path: str, lines: dict[str, str], caplog: pytest.LogCaptureFixture) -> None:
    with Service(clients=Clients([Client("web", KEY)])) as service, caplog.at_level(logging.DEBUG):
        refused = service.post(path, {"scene": "home"}, **lines)
        assert (refused.status, refused.headers["www-authenticate"]) == (401, "Bearer")
        assert refused.json()["type"] == "urn:recserve:problem:unauthorized"
        assert service.ask("GET", "/healthz").status == 200
        assert b"wrong" not in refused.body
        text = service.ask("GET", "/metrics", operator=True).body.decode()
        assert "recserve_unauthorized_total 1.0" in text
    assert KEY not in caplog.text
    assert KEY not in text


@pytest.mark.parametrize("lines", [{"x_recserve_key": OTHER}, {"authorization": f"bearer  {OTHER}"}])
def test_either_header_carries_the_key(lines: dict[str, str]) -> None:
    with Service(clients=Clients([Client("web", KEY), Client("app", OTHER)])) as service:
        assert service.post("/recommend", {"scene": "home"}, **lines).status == 200


def test_over_its_rate_a_client_is_told_when_to_come_back() -> None:
    now = [0.0]
    clients = Clients([Client("web", KEY, rate=0.5, burst=2), Client("app", OTHER)], clock=lambda: now[0])
    with Service(clients=clients) as service:
        ask = lambda key: service.post("/recommend", {"scene": "home"}, x_recserve_key=key)  # noqa: E731 - a word for it
        assert [ask(KEY).status for _ in range(3)] == [200, 200, 429]
        refused = ask(KEY)
        assert refused.headers["retry-after"] == "2"
        assert refused.json()["type"] == "urn:recserve:problem:rate-limited"
        assert KEY.encode() not in refused.body
        assert ask(OTHER).status == 200
        now[0] = 2.0
        assert [ask(KEY).status for _ in range(2)] == [200, 429]
        text = service.ask("GET", "/metrics", operator=True).body.decode()
        assert 'recserve_rate_limited_total{client="web"} 3.0' in text


@pytest.mark.parametrize(
    ("workers", "said"),
    [
        (1, "client web: more than 10 requests per second"),
        (4, "client web: more than its share, in this worker 2.5, of 10 requests per second"),
    ],
)
def test_what_is_told_of_a_rate_is_true_of_a_worker(workers: int, said: str) -> None:
    clients = Clients([Client("web", KEY, rate=10, burst=1)], workers, clock=lambda: 0.0)
    clients.check(headers(x_recserve_key=KEY))
    with pytest.raises(Problem, match=f"^{said}$"):
        clients.check(headers(x_recserve_key=KEY))


def test_a_key_that_is_given_twice_opens_nothing() -> None:
    clients = Clients([Client("web", KEY)])
    for first, second in ((KEY, KEY), ("wrong", KEY), (KEY, "wrong")):
        with pytest.raises(Problem):
            clients.check(Headers([(b"x-recserve-key", first.encode()), (b"x-recserve-key", second.encode())]))


def test_without_clients_nobody_is_asked() -> None:
    clients = Clients([Client("web", "")])
    assert not clients
    clients.check(headers())
    clients.check(headers(x_recserve_key=""))


def test_an_empty_key_opens_nothing() -> None:
    clients = Clients([Client("off", ""), Client("web", KEY)])
    for lines in ({}, {"x_recserve_key": ""}, {"authorization": "Bearer "}, {"authorization": ""}):
        with pytest.raises(Problem):
            clients.check(headers(**lines))


def test_every_key_is_compared_and_none_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []

    class Watched:
        @staticmethod
        def compare_digest(a: bytes, b: bytes) -> bool:
            compared.append((a, b))
            return hmac.compare_digest(a, b)

    monkeypatch.setattr(module, "hmac", Watched)
    clients = Clients([Client("web", KEY), Client("app", OTHER), Client("tv", "x" * 1000)])
    clients.check(headers(x_recserve_key=KEY))
    assert len(compared) == 3
    assert {len(side) for pair in compared for side in pair} == {32}


@given(
    rate=st.floats(0.1, 100),
    burst=st.floats(1, 50),
    workers=st.integers(1, 8),
    gaps=st.lists(st.floats(0, 1), min_size=1, max_size=200),
)
def test_no_more_than_the_workers_share_gets_through(
    rate: float, burst: float, workers: int, gaps: list[float]
) -> None:
    now = [0.0]
    clients = Clients([Client("web", KEY, rate, burst)], workers, clock=lambda: now[0])
    passed = 0
    for gap in gaps:
        now[0] += gap
        refused = None
        try:
            clients.check(headers(x_recserve_key=KEY))
            passed += 1
        except Problem as problem:
            refused = problem
        assert refused is None or (refused.status == 429 and int(refused.headers["retry-after"]) >= 1)
    assert passed <= max(burst / workers, 1.0) + rate / workers * now[0] + 1e-6
