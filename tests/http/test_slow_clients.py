"""Clients that dawdle, flood or don't speak HTTP take nothing from the others."""

from __future__ import annotations

import contextlib
import http.client
import json
import logging
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from app import server
from app.body import BodyReader
from app.logs import Throttle
from app.protocol import Protocol
from tests.http.service import Service
from tests.http.wire_client import connected, post
from tests.waiting import until

HEAD = b"POST /recommend HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
SLOW = HEAD + b"Content-Length: 100\r\n\r\n{"


@contextlib.contextmanager
def sent(service: Service, *parts: bytes) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", service.port), timeout=10) as sock:
        for part in parts:
            sock.sendall(part)
        yield sock


def answer(sock: socket.socket) -> tuple[http.client.HTTPResponse, Any]:
    response = http.client.HTTPResponse(sock)
    response.begin()
    assert response.getheader("content-type") == "application/problem+json"
    problem = json.loads(response.read())
    assert problem["status"] == response.status
    assert problem["request_id"] == response.getheader("x-request-id")
    return response, problem


def closes(sock: socket.socket) -> bool:
    """Whether the connection ends, in whatever way, within the socket's timeout."""
    try:
        while sock.recv(65536):
            pass
    except ConnectionResetError:
        pass
    return True


def test_a_body_that_does_not_come_holds_no_place_and_is_408() -> None:
    with contextlib.ExitStack() as stack:
        service = stack.enter_context(Service(limit=1, bodies=BodyReader(seconds=0.3)))
        slow = [stack.enter_context(sent(service, SLOW)) for _ in range(8)]
        until(lambda: service.bodies.reading == 8, "the heads")
        assert service.recommend(user_id="1607").status == 200
        for sock in slow:
            response, problem = answer(sock)
            assert (response.status, problem["type"]) == (408, "urn:recserve:problem:body-timeout")
            assert response.getheader("connection") == "close"
            sock.shutdown(socket.SHUT_WR)
            assert closes(sock)
        until(lambda: service.bodies.reading == 0, "their end")
        assert service.bodies.slow == 8
        assert "recserve_slow_bodies_total 8.0" in service.ask("GET", "/metrics", operator=True).body.decode()


def test_a_trickle_does_not_prolong_the_time() -> None:
    with Service(bodies=BodyReader(seconds=0.3)) as service, sent(service, SLOW) as sock:
        sock.settimeout(0.02)
        for _ in range(200):
            with contextlib.suppress(TimeoutError):
                assert sock.recv(13) == b"HTTP/1.1 408 "
                return
            sock.sendall(b" ")
    raise AssertionError("it went on for ever")


def test_beyond_the_limit_of_bodies_only_those_that_are_there_are_read() -> None:
    with contextlib.ExitStack() as stack:
        service = stack.enter_context(Service(bodies=BodyReader(seconds=10.0, at_once=2)))
        slow = [stack.enter_context(sent(service, SLOW)) for _ in range(2)]
        until(lambda: service.bodies.reading == 2, "the heads")
        with connected(service, post()) as wire:
            assert wire.answer()[0] == 200
        response, problem = answer(stack.enter_context(sent(service, SLOW)))
        assert (response.status, problem["type"]) == (503, "urn:recserve:problem:overloaded")
        assert response.getheader("retry-after") == "1"
        for sock in slow:
            sock.close()
        until(lambda: service.bodies.reading == 0, "their end")


@pytest.mark.parametrize(
    "head", [b"G", b"GET /healthz HTTP/1.1\r\n", HEAD + b"X-Slow: 1", b"\r\n", b"GET /healthz HTTP/1.1\r\nHost: x\r\n"]
)
def test_a_head_that_does_not_end_is_408(service: Service, head: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Protocol, "head_seconds", 0.1)
    with sent(service, head) as sock:
        response, problem = answer(sock)
        assert (response.status, problem["type"]) == (408, "urn:recserve:problem:head-timeout")
        assert closes(sock)


def test_the_next_requests_head_has_its_time_too(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Protocol, "head_seconds", 0.1)
    with sent(service, b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n") as sock:
        response = http.client.HTTPResponse(sock)
        response.begin()
        response.read()
        assert response.status == 200
        sock.sendall(b"GET /healthz HTTP/1.1\r\n")
        assert answer(sock)[0].status == 408


def test_a_connection_without_a_request_is_closed_as_an_idle_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "KEEP_ALIVE", 0.05)
    with Service() as service, sent(service) as sock:
        assert sock.recv(1) == b""


def test_a_body_or_an_answer_may_take_longer_than_a_head(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Protocol, "head_seconds", 0.0)
    with sent(service, HEAD + b"Content-Length: 17\r\n\r\n{") as sock:
        until(lambda: service.bodies.reading == 1, "the heads")
        sock.sendall(b'"scene": "home"}')
        assert sock.recv(12) == b"HTTP/1.1 200"


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 TLS\r\n\r\n",
        b"NONSENSE\r\n\r\n",
        HEAD + b"Content-Length: abc\r\n\r\n",
        HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
    ],
)
def test_what_is_not_http_is_a_400_problem(service: Service, request_bytes: bytes) -> None:
    with sent(service, request_bytes) as sock:
        response, problem = answer(sock)
        assert (response.status, problem["type"]) == (400, "urn:recserve:problem:malformed-request")
        assert closes(sock)


@pytest.mark.parametrize("lines", [b"Transfer-Encoding: gzip, chunked\r\n", b"transfer-encoding: gzip\r\n" * 2])
def test_another_transfer_encoding_is_refused(service: Service, lines: bytes) -> None:
    if b"chunked" not in lines:
        lines += b"Transfer-Encoding: chunked\r\n"
    with sent(service, HEAD + lines + b'\r\n11\r\n{"scene": "home"}\r\n0\r\n\r\n') as sock:
        response, problem = answer(sock)
    assert (response.status, problem["field"]) == (501, "transfer-encoding")


def test_a_client_that_sends_without_end_reads_its_413(service: Service) -> None:
    piece = b"%x\r\n" % 65536 + b" " * 65536 + b"\r\n"
    with sent(service, HEAD + b"Transfer-Encoding: chunked\r\n\r\n") as sock:
        for _ in range(10 * 16):
            sock.sendall(piece)
        response, problem = answer(sock)
        assert (response.status, problem["limit"]) == (413, 1 << 20)
        assert response.getheader("connection") == "close"
        sock.sendall(b"0\r\n\r\n")
        assert closes(sock)


def test_warnings_of_one_message_are_throttled_and_counted() -> None:
    now = [0.0]
    throttle = Throttle(10.0, lambda: now[0])

    def record(message: str, level: int = logging.WARNING) -> logging.LogRecord:
        return logging.LogRecord("uvicorn.error", level, __file__, 1, message, None, None)

    assert [throttle.filter(record("bad")) for _ in range(4)] == [True, False, False, False]
    assert throttle.filter(record("other"))
    assert throttle.filter(record("bad", logging.ERROR))
    now[0] = 10.0
    later = record("bad")
    assert throttle.filter(later)
    assert later.getMessage() == "bad (3 more since the last such line)"
