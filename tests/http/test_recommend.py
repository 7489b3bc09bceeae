"""A good request, and the rules around it."""

import contextlib

import numpy as np
import pytest

from app.encode import AnswerEncoder, plain, short_decimals
from app.headers import is_loopback
from features.errors import StoreTimeout
from stages.types import Answer
from tests.http.service import TOKEN, Service
from tests.http.wire_client import connected, post


def test_the_answer_has_the_documented_shape(service: Service) -> None:
    answer = service.recommend(size=2, user_id="degraded", request_id="r-1").json()
    assert list(answer) == [
        "request_id", "scene", "config", "release", "items", "buckets", "degraded", "short", "level", "cursor",
    ]  # fmt: skip
    assert answer["request_id"] == "r-1"
    assert answer["degraded"] == [{"step": "recall.i2i", "reason": "timeout"}]
    assert answer["items"][0] == {
        "id": "1000",
        "score": 0.9,
        "channels": ["vector", "i2i"],
        "fields": {"title": "Item <b>0</b>", "price": 2.49},
    }


def test_the_engine_gets_the_checked_request(service: Service) -> None:
    service.recommend(
        user_id="用户💰", context={"hour": 9, "weight": 2, "app_version": "3.10"}, exclude=["1", "1"], candidates=[]
    )
    request = service.engine.requests[-1]
    assert request.user_id == "用户💰"
    assert request.exclude == ("1", "1")
    assert request.candidates == ()
    assert request.context == {"region": "all", "hour": 9, "weight": 2.0, "app_version": "3.10"}
    assert isinstance(request.context["weight"], float)
    assert request.deadline == pytest.approx(request.arrived + 0.12)


@pytest.mark.parametrize(
    ("sent", "budget"), [("50", 0.05), ("1", 0.001), ("119", 0.119), ("121", 0.12), ("60000", 0.12)]
)
def test_a_header_may_shorten_the_budget_only(service: Service, sent: str, budget: float) -> None:
    assert service.post("/recommend", {"scene": "home"}, x_request_deadline_ms=sent).status == 200
    request = service.engine.requests[-1]
    assert request.deadline == pytest.approx(request.arrived + budget)


@pytest.mark.parametrize("sent", ["0", "-1", "60001", "1.5", "1e2", "0x10", "", "+5", "5_0", "9" * 5000, "٣"])
def test_a_deadline_that_is_none_is_422(service: Service, sent: str) -> None:
    reply = service.post("/recommend", {"scene": "home"}, x_request_deadline_ms=sent.encode().decode("latin-1"))
    assert (reply.status, reply.json()["field"]) == (422, "x-request-deadline-ms")
    assert "integer from 1 to 60000" in reply.json()["detail"]


@pytest.mark.parametrize("second", ["50", "5000", "abc"])
def test_a_deadline_that_is_given_twice_is_422(service: Service, second: str) -> None:
    lines = (b"x-request-deadline-ms: 50", b"X-Request-Deadline-Ms: " + second.encode())
    with connected(service, post(*lines)) as wire:
        status, _, problem = wire.problem()
    assert (status, problem["field"]) == (422, "x-request-deadline-ms")


@pytest.mark.parametrize(
    ("body", "shed"),
    [
        ({"scene": "home", "priority": "batch"}, "batch"),
        ({"scene": "home", "priority": "prefetch"}, "prefetch"),
        ({"scene": "ahead"}, "prefetch"),
        ({"scene": "ahead", "priority": "interactive"}, None),
        ({"scene": "home", "priority": None}, None),
    ],
)
def test_the_class_is_the_requests_else_its_scenes(body: dict[str, str], shed: str | None) -> None:
    with Service(limit=10) as service, contextlib.ExitStack() as places:
        for _ in range(6):  # of 10, all that prefetching may have
            places.enter_context(service.admission.place("interactive"))
        reply = service.post("/recommend", body)
        counts = {name: count for name, count in service.admission.shed.items() if count}
    assert counts == ({} if shed is None else {shed: 1})
    assert reply.status == (200 if shed is None else 503)
    assert shed is None or (reply.json()["priority"], reply.headers["retry-after"]) == (shed, "1")


def test_an_anonymous_request_is_answered(service: Service) -> None:
    assert service.recommend(user_id=None).status == 200
    assert service.engine.requests[-1].user_id is None


def test_a_request_id_comes_from_the_body_then_the_header_then_the_service(service: Service) -> None:
    in_body = service.post("/recommend", {"scene": "home", "request_id": "b"}, x_request_id="h")
    assert (in_body.json()["request_id"], in_body.headers["x-request-id"]) == ("b", "h")
    assert service.post("/recommend", {"scene": "home"}, x_request_id="h").json()["request_id"] == "h"
    made = {service.recommend().json()["request_id"] for _ in range(20)}
    assert len(made) == 20
    for bad in ("a b", "x" * 129, 'a"b'):
        assert service.post("/recommend", {"scene": "home"}, x_request_id=bad).headers["x-request-id"] != bad


def test_debug_is_free_on_loopback_and_adds_a_trace(service: Service) -> None:
    answer = service.recommend(debug=True, why_not=["9012"]).json()
    assert answer["trace"]["steps"][1]["name"] == "recall.vector"
    assert answer["trace"]["items"]["1000"] == {"recall": 0.5, "rank": 0.9, "re_rank": None}
    assert service.engine.requests[-1].why_not == ("9012",)


@pytest.mark.parametrize(
    "header",
    [
        *("forwarded", "x_forwarded_for", "x_forwarded_port", "x_forwarded_prefix", "x_forwarded_server", "x_real_ip"),
        *("via", "x_original_forwarded_for", "x_cluster_client_ip", "x_envoy_external_address"),
    ],
)
def test_debug_behind_a_proxy_needs_the_token(service: Service, header: str) -> None:
    body = {"scene": "home", "debug": True}
    refused = service.post("/recommend", body, **{header: "203.0.113.9"})
    assert (refused.status, refused.json()["type"]) == (403, "urn:recserve:problem:debug-forbidden")
    assert service.post("/recommend", body, **{header: "x"}, x_recserve_token="wrong").status == 403
    assert service.post("/recommend", body, **{header: "x"}, x_recserve_token=TOKEN).status == 200
    assert service.post("/recommend", {"scene": "home"}, **{header: "x"}).status == 200


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("::ffff:203.0.113.9", False),
        ("203.0.113.9", False),
        ("10.0.0.1", False),
        ("", False),
        ("localhost.evil", False),
        (None, False),
    ],
)
def test_loopback_is_told_from_the_peer_address(host: str | None, local: bool) -> None:
    assert is_loopback(host) is local


def test_events_are_recorded(service: Service) -> None:
    event = {"request_id": None, "user_id": "1607", "item_id": "9", "event": "click", "ts": 1764410400}
    reply = service.post("/events", {"events": [event, event]})
    assert (reply.status, reply.json()) == (200, {"recorded": 2})
    assert [recorded.item_id for recorded in service.engine.events] == ["9", "9"]
    assert service.engine.events[0].ts == 1764410400.0


def test_events_that_the_store_does_not_take_are_503(service: Service) -> None:
    service.engine.record_error = StoreTimeout("late")
    try:
        event = {"user_id": "1607", "item_id": "9", "event": "click", "ts": 1.5}
        reply = service.post("/events", {"events": [event]})
    finally:
        service.engine.record_error = None
    assert (reply.status, reply.headers["retry-after"]) == (503, "1")
    assert reply.json()["type"] == "urn:recserve:problem:store-unavailable"


def test_f32_values_are_as_short_as_f32_needs() -> None:
    column = np.array([2.49, 0.1, 123456.78, 16777216.0, 1e-7, 0.0, -3.5], np.float32)
    assert plain(column) == [2.49, 0.1, 123456.78, 16777216.0, 1e-7, 0.0, -3.5]
    assert plain(column[:2].tolist()) == [2.49, 0.1]
    assert plain([None, 0.25]) == pytest.approx([float("nan"), 0.25], nan_ok=True)


def test_f64_values_keep_their_digits() -> None:
    assert plain([0.1, 1764410400.123]) == [0.1, 1764410400.123]
    assert plain([1700000128.0]) == [1700000128.0]


def test_scores_have_six_digits() -> None:
    scores = np.array([0.81234567, 1.0, 0.0, 1e-4, 999999.4, -0.333333333], np.float32)
    assert short_decimals(scores) == [0.812346, 1.0, 0.0, 0.0001, 999999.0, -0.333333]


def test_json_never_has_nan() -> None:
    answer = Answer(
        "r", "home", "c", "v", ["1", "2"], np.array([np.nan, np.inf], np.float32), [[], []],
        {"price": [float("nan"), None], "class": ["x", None]}, {}, [],
    )  # fmt: skip
    body = AnswerEncoder().encode(answer)
    assert b'"score":null' in body
    assert b'"fields":{"price":null,"class":"x"}' in body
    assert b"NaN" not in body


def test_columns_of_unequal_length_are_a_bug_and_not_a_short_list() -> None:
    answer = Answer("r", "home", "c", "v", ["1", "2"], np.zeros(2, np.float32), [[], []], {"price": [1.0]}, {}, [])
    with pytest.raises(ValueError, match="differ in length"):
        AnswerEncoder().encode(answer)
