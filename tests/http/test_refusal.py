"""At the limit, requests are refused by the protocol: by class, in order, and the connection goes on."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from collections.abc import Iterator

import pytest

from app.logs import ACCESS
from app.protocol import Protocol
from tests.http.service import Service
from tests.http.wire_client import BODY, connected, post
from tests.waiting import until

AT_ONCE = "interactive requests are refused for now"


@pytest.fixture(scope="module")
def full() -> Iterator[Service]:
    """A service whose only place is taken."""
    with Service(limit=1) as service:
        slow = threading.Thread(target=lambda: service.recommend(user_id="slow"))
        slow.start()
        assert service.engine.entered.wait(10)
        yield service
        service.engine.release.set()
        slow.join(10)


def shed(service: Service) -> int:
    return sum(service.admission.shed.values())


def test_a_refusal_is_the_documented_problem_with_the_callers_id(full: Service) -> None:
    before = full.admission.shed["interactive"]
    with connected(full, post(b"X-Request-Id: r-77")) as wire:
        status, headers, problem = wire.problem()
    assert (status, headers["retry-after"], headers["x-request-id"]) == (503, "1", "r-77")
    assert problem["type"] == "urn:recserve:problem:overloaded"
    assert (problem["detail"], problem["priority"]) == (AT_ONCE, "interactive")
    assert full.admission.shed["interactive"] == before + 1
    with connected(full, post(b'X-Request-Id: a"b')) as wire:
        assert wire.problem()[1]["x-request-id"] != 'a"b'


def test_the_connection_goes_on_after_a_refusal(full: Service) -> None:
    with connected(full) as wire:
        ids = set()
        for _ in range(3):
            wire.send(post())
            status, headers, _ = wire.problem()
            assert (status, headers["connection"]) == (503, None)
            ids.add(headers["x-request-id"])
        assert len(ids) == 3
        wire.send(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert wire.answer()[0] == 200
        wire.send(post())
        assert wire.problem()[0] == 503


def test_pipelined_requests_are_answered_in_order(full: Service) -> None:
    health = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
    with connected(full, post() + health + post() + post() + health) as wire:
        assert [wire.answer()[0] for _ in range(5)] == [503, 200, 503, 503, 200]


@pytest.mark.parametrize("size", [1, 7, 40])
def test_a_body_split_over_packets_is_skipped(full: Service, size: int) -> None:
    data = post(body=b" " * 300 + BODY) * 2
    before = full.admission.shed["unread"]
    with connected(full, *(data[at : at + size] for at in range(0, len(data), size))) as wire:
        assert [wire.problem()[0] for _ in range(2)] == [503, 503]
    assert full.admission.shed["unread"] >= before


def test_a_chunked_body_is_skipped(full: Service) -> None:
    head = (
        b"POST /recommend HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    chunks = [b"5\r\nhello\r\n", b"3;ext=1\r\nabc\r\n", b"0\r\nTrailer: x\r\n\r\n"]
    with connected(full, head, *chunks, head + b"".join(chunks)) as wire:
        assert [wire.problem()[0] for _ in range(2)] == [503, 503]


@pytest.mark.parametrize("request_bytes", [post(b"Connection: close"), post(version=b"1.0")])
def test_a_client_that_wants_no_more_is_hung_up_on(full: Service, request_bytes: bytes) -> None:
    with connected(full, request_bytes) as wire:
        status, headers, _ = wire.problem()
        assert (status, headers["connection"]) == (503, "close")
        assert wire.ends()
    before = shed(full)
    with connected(full, request_bytes + post() * 3) as wire:
        assert wire.problem()[0] == 503
        assert wire.ends()
    assert shed(full) == before + 1


def test_a_client_that_asks_before_it_sends_is_refused_after_its_body(full: Service) -> None:
    head, _, body = post(b"Expect: 100-continue").partition(b"\r\n\r\n")
    with connected(full, head + b"\r\n\r\n") as wire:
        assert wire.answer()[0] == 100
        wire.send(body)
        status, _, problem = wire.problem()
        assert (status, problem["priority"]) == (503, "interactive")
        assert problem["detail"] != AT_ONCE
        wire.send(post())
        assert wire.problem()[0] == 503


def test_a_body_without_end_is_answered_and_closed(full: Service) -> None:
    head = (
        b"POST /recommend HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    piece = b"%x\r\n" % 65536 + b" " * 65536 + b"\r\n"
    with connected(full, head, *[piece] * 20) as wire:
        status, headers, _ = wire.problem()
        assert (status, headers["connection"]) == (503, "close")
        wire.socket.shutdown(socket.SHUT_WR)
        assert wire.ends()


def test_a_body_that_does_not_come_is_answered_and_closed(full: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Protocol, "head_seconds", 0.1)
    with connected(full, post()[:-3]) as wire:
        status, headers, _ = wire.problem()
        assert (status, headers["connection"]) == (503, "close")
        assert wire.ends()


def test_a_connection_is_idle_and_not_slow_after_a_refusal(full: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Protocol, "head_seconds", 0.0)
    with connected(full) as wire:
        for _ in range(5):
            wire.send(post())
            assert wire.problem()[2]["type"] == "urn:recserve:problem:overloaded"


@pytest.mark.parametrize("path", [b"/events", b"/recommend?x=1", b"/nope"])
def test_only_the_hot_path_is_refused_at_once(full: Service, path: bytes) -> None:
    with connected(full, post(path=path)) as wire:
        status, _, problem = wire.problem()
    assert status in (400, 404, 503)
    assert problem["detail"] != AT_ONCE


def test_refusals_are_counted_and_logged_like_answers(full: Service, caplog: pytest.LogCaptureFixture) -> None:
    def counted() -> float:
        text = full.ask("GET", "/metrics", operator=True).body.decode()
        (line,) = (
            li for li in text.splitlines() if li.startswith('recserve_requests_total{route="/recommend",status="503"')
        )
        return float(line.rpartition(" ")[2])

    full.recommend()
    before = counted()
    with caplog.at_level(logging.INFO, ACCESS), connected(full, post(b"X-Request-Id: logged")) as wire:
        wire.problem()
    assert counted() == before + 1
    fields = [record.fields for record in caplog.records if record.name == ACCESS]  # type: ignore[attr-defined] # `extra`
    assert [(f["route"], f["status"]) for f in fields if f["request_id"] == "logged"] == [("/recommend", 503)]
    text = full.ask("GET", "/metrics", operator=True).body.decode()
    for name, count in full.admission.shed.items():
        assert f'recserve_shed_total{{priority="{name}"}} {float(count)}' in text


def test_requests_of_one_turn_of_the_loop_count_before_they_take_their_places() -> None:
    with Service(limit=4) as service:
        wires = []
        try:
            for _ in range(12):
                context = connected(service)
                wires.append((context, context.__enter__()))
            stall = threading.Event()
            service.call(stall.wait)
            for _, wire in wires:
                wire.send(post(body=b'{"scene": "home", "user_id": "slow"}'))
            stall.set()
            until(lambda: shed(service) == 8, "all refusals")
            service.engine.release.set()
            answers = [wire.answer() for _, wire in wires]
        finally:
            for context, _ in wires:
                context.__exit__(None, None, None)
        assert sorted(status for status, _, _ in answers) == [200] * 4 + [503] * 8
        assert all(AT_ONCE in body.decode() for status, _, body in answers if status == 503)


@pytest.fixture(scope="module")
def pressed() -> Iterator[Service]:
    """A service where no prefetching is let in any more, and interactive requests are."""
    with Service(limit=10) as service, contextlib.ExitStack() as places:
        for _ in range(6):
            places.enter_context(service.admission.place("interactive"))
        yield service


@pytest.mark.parametrize("body", [b'{"scene": "home", "priority": "prefetch"}', b'{"user_id": "1", "scene": "ahead"}'])
def test_prefetching_is_refused_at_once_while_others_are_let_in(pressed: Service, body: bytes) -> None:
    before = pressed.admission.shed["prefetch"]
    statuses = []
    with connected(pressed) as wire:
        for one in (body, BODY, body, BODY):
            wire.send(post(body=one))
            status, _, content = wire.answer()
            statuses.append(status)
            assert status == 200 or b'"prefetch requests are refused for now"' in content
    assert statuses == [503, 200, 503, 200]
    assert pressed.admission.shed["prefetch"] == before + 2


@pytest.mark.parametrize("size", [1, 50, 200])
def test_under_pressure_a_body_in_pieces_is_served(pressed: Service, size: int) -> None:
    data = post(body=b" " * 300 + BODY) * 2
    with connected(pressed, *(data[at : at + size] for at in range(0, len(data), size))) as wire:
        assert [wire.answer()[0] for _ in range(2)] == [200, 200]


@pytest.mark.parametrize(
    ("body", "status"),
    [(b"{", 400), (b"", 400), (b'{"scene": "home", "priority": "x"}', 422), (BODY.ljust(90_000), 200)],
)
def test_under_pressure_bodies_are_judged_as_ever(pressed: Service, body: bytes, status: int) -> None:
    with connected(pressed, post(body=body), post()) as wire:
        assert [wire.answer()[0] for _ in range(2)] == [status, 200]


@pytest.mark.parametrize("request_bytes", [post(b"Connection: close"), post(version=b"1.0")])
def test_under_pressure_a_client_that_wants_no_more_is_hung_up_on(pressed: Service, request_bytes: bytes) -> None:
    with connected(pressed, request_bytes) as wire:
        assert wire.answer()[0] == 200
        assert wire.ends()
