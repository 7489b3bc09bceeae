"""Limits of a head, arrival times, connections beyond the limit, and what is pipelined behind an answer."""

from __future__ import annotations

import contextlib
import json
import threading
import time

import pytest

from app.protocol import HEADERS, Protocol
from tests.http.service import Service
from tests.http.wire_client import connected, post
from tests.waiting import until

START = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"


@pytest.mark.parametrize(
    "head",
    [
        START + b"".join(b"x-%d: 1\r\n" % at for at in range(HEADERS)) + b"\r\n",
        START + b"x: " + b"a" * 70_000 + b"\r\n\r\n",
        START + b"".join(b"x-%d: %s\r\n" % (at, b"a" * 1000) for at in range(70)) + b"\r\n",
        START + b"a" * 500_000,
        b"GET /" + b"a" * 500_000,
    ],
    ids=["headers", "value", "together", "name without end", "path without end"],
)
def test_too_large_a_head_is_431(service: Service, head: bytes) -> None:
    with connected(service, *(head[at : at + 4096] for at in range(0, len(head), 4096))) as wire:
        status, headers, problem = wire.problem()
        assert (status, headers["connection"]) == (431, "close")
        assert problem["type"] == "urn:recserve:problem:head-too-large"
        assert wire.ends()


def test_a_head_just_within_the_limits_is_read(service: Service) -> None:
    lines = b"".join(b"x-%d: %s\r\n" % (at, b"a" * 600) for at in range(HEADERS - 1))
    with connected(service, START + lines + b"\r\n", START + lines + b"\r\n") as wire:
        assert [wire.answer()[0] for _ in range(2)] == [200, 200]


def test_trailers_have_the_same_limits(service: Service) -> None:
    head = (
        b"POST /recommend HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    trailers = b"1\r\n{\r\n0\r\n" + b"".join(b"x-%d: 1\r\n" % at for at in range(HEADERS))
    with connected(service, head, trailers) as wire:
        assert wire.problem()[0] == 431


def test_an_answer_that_is_owed_comes_before_the_connection_ends() -> None:
    slow = post(body=b'{"scene": "home", "user_id": "slow"}')
    for bad in (b"NONSENSE\r\n\r\n", START + b"x: " + b"a" * 400_000 + b"\r\n\r\n"):
        with Service() as service, connected(service, slow) as wire:
            assert service.engine.entered.wait(10)
            with contextlib.suppress(ConnectionError):
                wire.send(bad)
            service.engine.release.set()
            assert wire.answer()[0] == 200
            assert wire.ends()


def test_bytes_that_are_not_http_inside_a_body_are_a_400(service: Service) -> None:
    head = (
        b"POST /recommend HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    gone = service.metrics.disconnects
    with connected(service, head, b"zz\r\n") as wire:
        status, _, problem = wire.problem()
        assert (status, problem["type"]) == (400, "urn:recserve:problem:malformed-request")
        assert wire.ends()
    until(lambda: service.metrics.disconnects == gone + 1, "its count")


def test_the_deadline_counts_from_the_first_byte(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = threading.Event()
    begin = Protocol.on_message_begin

    def on_message_begin(self: Protocol) -> None:
        begin(self)
        begun.set()

    monkeypatch.setattr(Protocol, "on_message_begin", on_message_begin)
    data = post()
    with connected(service, data[:1]) as wire:
        assert begun.wait(10)
        between = time.monotonic()
        wire.send(data[1:])
        assert wire.answer()[0] == 200
    request = service.engine.requests[-1]
    assert request.arrived <= between
    assert request.deadline - request.arrived == pytest.approx(0.12)


def test_connections_beyond_the_limit_are_answered_and_closed() -> None:
    with Service(connections=3) as service, contextlib.ExitStack() as stack:
        open_ones = [stack.enter_context(connected(service)) for _ in range(3)]
        until(lambda: service.gate.connections == 3, "all connections")
        with connected(service) as wire:
            status, headers, problem = wire.problem()
            assert (status, headers["retry-after"], headers["connection"]) == (503, "1", "close")
            assert problem["type"] == "urn:recserve:problem:overloaded"
            assert wire.ends()
        open_ones[0].send(post())
        assert open_ones[0].answer()[0] == 200
        open_ones[1].socket.close()
        until(lambda: service.gate.connections == 2, "room for one")
        assert service.recommend().status == 200
        text = service.ask("GET", "/metrics", operator=True).body.decode()
        assert "recserve_connections_refused_total 1.0" in text
    assert service.gate.connections == 0


def test_a_request_answered_before_its_body_came_leaves_the_connection_usable(service: Service) -> None:
    head = b"PUT /recommend HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n"
    with connected(service, head) as wire:
        status, _, problem = wire.problem()
        assert (status, problem["type"]) == (405, "urn:recserve:problem:method-not-allowed")
        wire.send(b"0123", b"456789", post())
        status, _, body = wire.answer()
        assert (status, len(json.loads(body)["items"])) == (200, 3)


@pytest.mark.parametrize(
    "bad",
    [
        START + b"bad header\r\n" + b"x" * 70_000,
        b"GET / HTTP/1.1\r\n\r\n" + b"x" * 70_000,
        b"NONSENSE\r\n\r\n" + b"x" * 70_000,
        post(version=b"1.0") + b"bad header\r\n" + b"x" * 70_000,
    ],
    ids=["header", "host", "no request", "after an answer that ends the connection"],
)
def test_what_comes_after_a_refusal_is_no_error_of_ours(caplog: pytest.LogCaptureFixture, bad: bytes) -> None:
    with Service() as service:
        with connected(service, bad) as wire:
            assert wire.answer()[0] in (200, 400)
        assert service.recommend().status == 200
    assert not [record for record in caplog.records if record.levelname in ("ERROR", "CRITICAL")]


def test_requests_that_are_refused_unread_are_counted() -> None:
    with Service() as service:
        for bad, status in ((b"NONSENSE\r\n\r\n", 400), (START + b"x: " + b"a" * 70_000, 431)):
            with connected(service, bad) as wire:
                assert wire.problem()[0] == status
        text = service.metrics.exposition().decode()
    for status in (400, 431):
        assert f'recserve_requests_total{{route="other",status="{status}"}} 1.0' in text


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET /healthz HTTP/1.1\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nHost: x\r\nhost: y\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.0\r\nHost: x\r\nHost: x\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nHost:\r\n\r\n", 200),
        (b"GET /healthz HTTP/1.0\r\n\r\n", 200),
    ],
)
def test_a_request_names_one_host(service: Service, head: bytes, status: int) -> None:
    with connected(service, head) as wire:
        assert wire.answer()[0] == status
        assert status == 200 or wire.ends()


def test_a_target_longer_than_a_head_may_be_is_431_in_one_piece_too(service: Service) -> None:
    with connected(service, b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n") as wire:
        assert wire.problem()[0] == 431
        assert wire.ends()
