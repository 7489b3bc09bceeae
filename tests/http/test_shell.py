"""What the shell promises for every route."""

import http.client
import logging
import socket
import threading

import pytest

from app.lag import LoopLag
from tests.http.service import Reply, Service
from tests.waiting import until


@pytest.mark.parametrize("path", ["/recommend", "/events"])
@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"])
def test_another_method_on_a_fast_route_is_405_with_allow(service: Service, path: str, method: str) -> None:
    reply = service.ask(method, path)
    assert (reply.status, reply.headers["allow"]) == (405, "POST")
    assert (reply.body == b"") == (method == "HEAD")


@pytest.mark.parametrize("path", ["/", "/docs", "/healthz", "/readyz", "/version", "/openapi.json"])
def test_head_is_get_without_a_body(service: Service, path: str) -> None:
    head, get = service.ask("HEAD", path), service.ask("GET", path)
    assert (head.status, head.body) == (200, b"")
    assert head.headers["content-length"] == str(len(get.body))
    refused = service.ask("POST", path, b"")
    assert (refused.status, refused.headers["allow"]) == (405, "GET, HEAD")
    assert refused.json()["request_id"] == refused.headers["x-request-id"]


@pytest.mark.parametrize("path", ["/nope", "/recommend/", "/admin/status", "/metrics", "/..%2f", "/%00"])
def test_another_path_is_a_404_problem(service: Service, path: str) -> None:
    reply = service.ask("GET", path)
    assert reply.status == 404
    assert reply.headers["content-type"] == "application/problem+json"
    assert reply.json()["type"] == "urn:recserve:problem:no-such-path"


@pytest.mark.parametrize("user", ["bug", "os-bug"])
def test_a_bug_is_a_500_with_a_log_and_a_counter(service: Service, user: str, caplog: pytest.LogCaptureFixture) -> None:
    before = service.metrics.internal_errors["/recommend"]
    reply = service.post("/recommend", {"scene": "home", "user_id": user, "device_id": "private"}, x_request_id="r-7")
    assert reply.status == 500
    assert reply.json()["type"] == "urn:recserve:problem:internal"
    assert b"a bug of ours" not in reply.body
    assert service.metrics.internal_errors["/recommend"] == before + 1
    (record,) = (record for record in caplog.records if record.levelno >= logging.ERROR)
    assert record.fields == {"route": "/recommend", "request_id": "r-7"}  # type: ignore[attr-defined] # set by `extra`
    assert record.exc_info
    assert "private" not in caplog.text


def test_a_bug_outside_the_fast_path_is_the_same(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> list[str]:
        raise ZeroDivisionError

    monkeypatch.setattr(service.readiness, "waiting_for", broken)
    reply = service.ask("GET", "/readyz")
    assert (reply.status, reply.json()["type"]) == (500, "urn:recserve:problem:internal")
    assert service.metrics.internal_errors["/readyz"] == 1


def test_many_requests_share_a_connection(service: Service) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=10)
    headers = {"content-type": "application/json"}
    for body, status in (
        (b'{"scene": "home"}', 200),
        (b"{", 400),
        (b" " * (2 << 20), 413),
        (b'{"scene": "home"}', 200),
    ):
        connection.request("POST", "/recommend", body, headers)
        response = connection.getresponse()
        response.read()
        assert response.status == status
    connection.close()


def test_a_client_that_leaves_is_not_an_error(service: Service) -> None:
    bugs = sum(service.metrics.internal_errors.values())
    for head in (b"Content-Length: 500\r\n\r\n{", b"Transfer-Encoding: chunked\r\n\r\n5\r\n{"):
        gone = service.metrics.disconnects
        with socket.create_connection(("127.0.0.1", service.port)) as sock:
            sock.sendall(b"POST /recommend HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n" + head)
        until(lambda gone=gone: service.metrics.disconnects == gone + 1, "its count")
    assert sum(service.metrics.internal_errors.values()) == bugs


def test_over_the_limit_is_503_at_once_and_the_place_comes_back() -> None:
    with Service(limit=1) as service:
        replies: list[Reply] = []
        slow = threading.Thread(target=lambda: replies.append(service.recommend(user_id="slow")))
        slow.start()
        assert service.engine.entered.wait(10)
        shed = service.recommend(user_id="1607")
        assert (shed.status, shed.headers["retry-after"]) == (503, "1")
        assert shed.json()["type"] == "urn:recserve:problem:overloaded"
        assert service.ask("GET", "/healthz").status == 200
        service.engine.release.set()
        slow.join(10)
        assert replies[0].status == 200
        assert service.recommend(user_id="1607").status == 200
        assert service.admission.in_flight == 0
        assert sum(service.admission.shed.values()) == 1
        assert 'recserve_shed_total{priority="unread"}' in service.ask("GET", "/metrics", operator=True).body.decode()


def test_metrics_count_requests_by_route_and_status(service: Service) -> None:
    service.recommend(user_id="degraded", size=60)
    service.ask("GET", "/nope-with-a-user-id-1607")
    text = service.ask("GET", "/metrics", operator=True).body.decode()
    for line in (
        'recserve_requests_total{route="/recommend",status="200"}',
        'recserve_requests_total{route="other",status="404"}',
        'recserve_request_seconds_bucket{le="0.05",route="/recommend"}',
        'recserve_degraded_total{reason="timeout",step="recall.i2i"}',
        'recserve_short_answers_total{reason="too_few_candidates",scene="home"}',
        "recserve_client_disconnects_total",
        "recserve_in_flight 0.0",
        "process_resident_memory_bytes",
    ):
        assert line in text
    assert "1607" not in text


def test_how_long_requests_wait_for_their_turn_is_noted() -> None:
    class Noted(LoopLag):
        def saw(self, seconds: float, source: str = "request") -> None:
            waits.append(seconds)
            super().saw(seconds, source)

    waits: list[float] = []
    with Service(lag=Noted()) as service:
        assert service.recommend().status == 200
        assert service.ask("GET", "/healthz").status == 200
    assert len(waits) == 2
    assert min(waits) >= 0.0
