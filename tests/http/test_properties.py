"""Laws of the request schema: no body is a 5xx, and every valid one is a 200."""

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.http.service import Service

COMMON = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
NAMES = (
    "scene", "user_id", "size", "request_id", "device_id", "session_id", "context", "exclude", "candidates",
    "cursor", "debug", "why_not", "region", "events", "ts",
)  # fmt: skip
TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=64)  # at most 256 bytes
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(("home", "1607", "3.2.0")),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(NAMES) | st.text(), inner, max_size=5),
    max_leaves=12,
)
CONTEXT = st.fixed_dictionaries(
    {},
    optional={
        "region": TEXT,
        "hour": st.integers(-(2**63), 2**63 - 1),
        "weight": st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**63), 2**63 - 1),
        "member": st.booleans(),
        "app_version": st.from_regex(r"\A[0-9]{1,4}(\.[0-9]{1,4}){0,3}\Z"),
    },
)
VALID = st.fixed_dictionaries(
    {"scene": st.sampled_from(("home", "discover"))},
    optional={
        "user_id": st.none() | TEXT.filter(lambda text: text not in ("bug", "os-bug", "slow")),
        "size": st.integers(1, 500),
        "request_id": st.none() | TEXT,
        "device_id": st.none() | TEXT,
        "session_id": st.none() | TEXT,
        "context": CONTEXT,
        "exclude": st.lists(TEXT, max_size=5),
        "candidates": st.none() | st.lists(TEXT, max_size=5),
        "cursor": st.none(),
        "debug": st.booleans(),
        "priority": st.none() | st.sampled_from(("interactive", "prefetch", "batch")),
    },
)


def _is_answer_or_problem(status: int, body: bytes) -> None:
    assert status < 500
    document = json.loads(body)
    assert status == 200 or ("type" in document and ("field" in document or "byte" in document))


@COMMON
@given(body=st.binary(max_size=200))
def test_no_bytes_are_a_5xx(service: Service, body: bytes) -> None:
    reply = service.post("/recommend", body)
    _is_answer_or_problem(reply.status, reply.body)


@COMMON
@given(
    path=st.sampled_from(("/recommend", "/events")),
    document=ANYTHING | st.dictionaries(st.sampled_from(NAMES), ANYTHING, max_size=6),
    ascii_only=st.booleans(),
)
def test_no_document_is_a_5xx(service: Service, path: str, document: Any, ascii_only: bool) -> None:
    reply = service.post(path, json.dumps(document, ensure_ascii=ascii_only))
    _is_answer_or_problem(reply.status, reply.body)


@COMMON
@given(body=VALID, cut=st.floats(0, 1, exclude_max=True), ascii_only=st.booleans())
def test_a_valid_request_is_answered_and_its_truncation_is_400(
    service: Service, body: dict[str, Any], cut: float, ascii_only: bool
) -> None:
    data = json.dumps(body, ensure_ascii=ascii_only).encode()
    reply = service.post("/recommend", data)
    assert reply.status == 200, reply.body
    answer = reply.json()
    assert answer["scene"] == body["scene"]
    assert len(answer["items"]) == min(body.get("size", 20), 50)
    assert answer["request_id"] == (body.get("request_id") or reply.headers["x-request-id"])
    assert ("trace" in answer) == body.get("debug", False)
    truncated = service.post("/recommend", data[: int(len(data) * cut)])
    assert truncated.status == 400
    assert truncated.json()["type"].endswith(("malformed-json", "missing-field"))
