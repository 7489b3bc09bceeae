from __future__ import annotations

import socket
import threading
from itertools import pairwise

import numpy as np
import pytest

from app.load.generator import Progress, run
from app.load.plan import Phase, Plan, RequestClass, schedule
from app.load.requests import recommend_requests
from tests.load.server import Exchange, Server, document, good, http, plan


def test_every_request_is_sent_and_answered_at_the_plans_rate() -> None:
    ticks: list[Progress] = []
    with Server(good) as server:
        made = plan(server.address, Phase("one", 400, 1.2))
        result = run(made, ticks.append)
    summary = result.summary()
    assert summary.sent == len(schedule(made).due) == server.requests
    assert summary.outcomes == {"200": server.requests}
    assert summary.full == summary.served
    assert result.pairs() == {("9f2c01ab34de", "r1"): server.requests}
    assert (result.samples.latency > 0).all()
    assert (result.samples.late >= 0).all()
    assert result.wall >= 1.2
    assert ticks[0].sent == 0
    assert ticks[-1].answered == ticks[-1].sent == server.requests
    assert all(before.seconds <= after.seconds for before, after in pairwise(ticks))
    assert server.connections == result.connections.opened <= 256


def test_a_stall_shows_in_the_latency_of_every_request_that_was_meant_for_it() -> None:
    stalled = threading.Event()

    def behave(exchange: Exchange) -> None:
        if exchange.number == 20:
            stalled.wait(1.0)  # nobody sets it: the whole server stands still for a second
        good(exchange)

    with Server(behave) as server:
        result = run(plan(server.address, Phase("one", 200, 1.5), timeout=10.0, connections=8))
    # About 150 requests were meant for the first 0.75 s of the stall, and each waited for at least the last 0.25 s
    # of it. Eight connections held eight of them; a closed loop would have seen those and no more.
    slow = int((result.samples.latency > 0.25).sum())
    assert slow > 100
    assert result.summary().served == len(result.samples)
    assert result.summary().latency.p99 > 0.25
    assert result.summary().latency.most >= 0.9


def test_a_server_that_hangs_ends_the_run_with_timeouts() -> None:
    with Server(lambda exchange: None) as server:
        result = run(plan(server.address, Phase("one", 300, 0.3), timeout=0.3, connections=10))
    summary = result.summary()
    assert summary.answered == 0
    assert summary.outcomes["timeout"] + summary.outcomes.get("unsent", 0) == summary.sent
    assert summary.latency.count == 0
    assert summary.failed == summary.sent
    assert server.connections <= result.connections.opened <= 10 + summary.sent


def test_resets_are_counted_and_cost_one_request_each() -> None:
    def behave(exchange: Exchange) -> None:
        if exchange.number % 5 == 4:
            exchange.reset()
        else:
            good(exchange)

    with Server(behave) as server:
        result = run(plan(server.address, Phase("one", 300, 0.5)))
    resets = result.summary().outcomes["reset"]
    assert resets == server.requests // 5 == result.connections.dropped
    assert result.summary().served == server.requests - resets
    assert server.connections <= 16 + server.requests  # no request opens more than one


def test_nobody_listening_is_counted_as_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = taken.getsockname()
    result = run(plan(address, Phase("one", 200, 0.2)))
    assert result.summary().outcomes == {"refused": len(result.samples)}
    assert result.connections.refused == result.connections.opened <= 16 + len(result.samples)


def test_connections_that_the_server_closes_are_replaced_without_loss() -> None:
    def behave(exchange: Exchange) -> None:
        exchange.answer(http(document(), head="Connection: close\r\n"))
        exchange.close()

    with Server(behave) as server:
        result = run(plan(server.address, Phase("one", 200, 0.4)))
    assert result.summary().served == len(result.samples) == server.requests
    assert server.connections >= server.requests


@pytest.mark.parametrize(
    "content", [b"SSH-2.0-x\r\n\r\n", b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"]
)
def test_what_is_not_an_answer_is_garbled(content: bytes) -> None:
    with Server(lambda exchange: exchange.answer(content)) as server:
        result = run(plan(server.address, Phase("one", 100, 0.2)))
    assert result.summary().outcomes == {"garbled": len(result.samples)}


def test_an_answer_in_pieces_is_put_together() -> None:
    def behave(exchange: Exchange) -> None:
        answer = http(document(level=3))
        loop = server._loop
        for at in range(0, len(answer), 40):
            loop.call_later(at * 1e-5, exchange.answer, answer[at : at + 40])

    with Server(behave) as server:
        result = run(plan(server.address, Phase("one", 50, 0.3)))
    assert result.summary().levels == {3: len(result.samples)}


def test_what_answers_say_is_read_and_kept_apart() -> None:
    slow = [{"step": "recall.i2i", "reason": "store_timeout"}]
    answers = [
        http(document()),
        http(document(level=2, degraded=slow)),
        http(document(items=[], release="r2")),
        http(b'{"type":"overloaded"}', 503, "Retry-After: 1\r\n"),
        http(b"not json"),
    ]
    with Server(lambda exchange: exchange.answer(answers[exchange.number % 5])) as server:
        result = run(plan(server.address, Phase("one", 500, 0.5)))
    summary, n = result.summary(), server.requests
    count = [len(range(first, n, 5)) for first in range(5)]
    assert summary.outcomes == {"200": n - count[3], "503": count[3]}
    assert (summary.shed, summary.failed, summary.empty) == (count[3], 0, count[2])
    assert summary.levels == {0: count[0] + count[2], 2: count[1]}
    assert summary.full == n - count[3] - count[1]
    assert result.reasons() == {"recall.i2i: store_timeout": count[1]}
    assert result.pairs() == {("9f2c01ab34de", "r1"): count[0] + count[1], ("9f2c01ab34de", "r2"): count[2]}


def test_classes_and_phases_are_told_apart() -> None:
    def behave(exchange: Exchange) -> None:
        exchange.answer(http(document(), 503 if b"prefetch" in exchange.body else 200))

    with Server(behave) as server:
        home = RequestClass("home", recommend_requests("home", ["1"]), budget=30.0)
        prefetch = RequestClass("prefetch", recommend_requests("home", ["1"], priority="prefetch"), weight=0)
        phases = (Phase("calm", 200, 0.3), Phase("rest", 0, 0.1), Phase("spike", 600, 0.3, {"prefetch": 3}))
        result = run(Plan(server.address, (home, prefetch), phases))
    assert result.phases["spike"] == pytest.approx((0.4, 0.7))
    assert result.phase("calm").availability == 1.0
    assert result.phase("rest").sent == 0
    assert result.phase("spike", "home").availability == 1.0
    assert result.phase("spike", "prefetch").served == 0
    assert result.phase("spike").shed == result.phase("spike", "prefetch").sent > 0
    assert result.phase("calm", "home").good == result.phase("calm").sent
    series = result.series()
    assert [second.sent for second in series] == [len(result.samples)]
    assert np.isfinite(series[0].p99 or np.nan)
