"""Whatever is sent, the answer is a 4xx problem document that names the field or the byte."""

import json
import socket

import pytest

from tests.http.service import Reply, Service

HUGE = 2**64
LONG_ID = "x" * 10_240
WIDE_ID = "é" * 200  # 400 bytes in 200 characters

# name: (body, status, kind, field or byte, words that the detail must have)
CASES = {
    "empty": (b"", 400, "malformed-json", 0, "empty"),
    "blank": (b" \n", 400, "malformed-json", 0, "empty"),
    "truncated object": (b'{"scene": "home"', 400, "malformed-json", 16, "ends at byte 16"),
    "truncated string": (b'{"scene": "ho', 400, "malformed-json", 13, "ends at byte 13"),
    "truncated literal": (b'{"scene": "home", "debug": tru', 400, "malformed-json", 30, "ends"),
    "truncated inside a pair": (b'{"scene": "\\ud83d', 400, "malformed-json", 17, "ends"),
    "trailing comma": (b'{"scene": "home",}', 400, "malformed-json", 17, "trailing comma"),
    "trailing text": (b'{"scene": "home"} x', 400, "malformed-json", 18, "trailing characters"),
    "trailing bracket": (b'{"scene": "home"}]', 400, "malformed-json", 17, "at byte 17"),
    "single quotes": (b"{'scene': 1}", 400, "malformed-json", 1, "byte 1"),
    "byte order mark": (b'\xef\xbb\xbf{"scene": "home"}', 400, "malformed-json", 0, "byte order mark"),
    "leading zero": (b'{"scene": "home", "size": 01}', 400, "malformed-json", 27, "number"),
    "raw control character": (b'{"scene": "ho\nme"}', 400, "malformed-json", 13, "byte 13"),
    "not an object": (b"[]", 400, "wrong-type", "body", "an object"),
    "null": (b"null", 400, "wrong-type", "body", "an object"),
    "NaN": (b'{"scene": "home", "size": NaN}', 400, "not-a-number", 26, "NaN at byte 26"),
    "Infinity": (b'{"scene": "home", "context": {"weight": Infinity}}', 400, "not-a-number", 40, "Infinity"),
    "-Infinity": (b'{"scene": "home", "size": -Infinity}', 400, "not-a-number", 26, "-Infinity at byte 26"),
    "1e400 as size": (b'{"scene": "home", "size": 1e400}', 422, "out-of-range", "size", "1 to 500"),
    "1e400 in context": (b'{"scene": "home", "context": {"weight": 1e400}}', 422, "out-of-range", "context.weight", ""),
    "2**64 as size": (b'{"scene": "home", "size": %d}' % HUGE, 422, "out-of-range", "size", "1 to 500"),
    "2**64 in context": (b'{"scene": "home", "context": {"hour": %d}}' % HUGE, 422, "out-of-range", "context.hour", ""),
    "10,000 digits": (b'{"scene": "home", "size": %s}' % (b"9" * 10_000), 422, "out-of-range", "size", ""),
    "10,000 digits in context": (
        b'{"scene": "home", "context": {"hour": %s}}' % (b"9" * 10_000), 422, "out-of-range", "context.hour", ""),
    "high surrogate": (b'{"scene": "\\ud800"}', 400, "malformed-json", 11, "half a surrogate pair"),
    "high surrogate before text": (b'{"scene": "\\ud800abc", "size": 3}', 400, "malformed-json", 11, "half"),
    "high surrogate before another escape": (b'{"scene": "\\ud800\\u0041"}', 400, "malformed-json", 11, "half"),
    "low surrogate": (b'{"scene": "\\\\\\udc00"}', 400, "malformed-json", 13, "half"),
    "surrogate as a key": (b'{"\\ud800": 1}', 400, "malformed-json", 2, "half"),
    "encoded surrogate": (b'{"scene": "\xed\xa0\x80"}', 400, "malformed-json", 11, "UTF-8"),
    "not UTF-8": (b'{"scene": "home", "user_id": "\xff"}', 400, "malformed-json", 30, "byte 30 is not valid UTF-8"),
    "1,000 deep": (b"[" * 1000 + b"]" * 1000, 400, "wrong-type", "body", "an object"),
    "1,000 deep unknown field": (
        b'{"scene": "home", "x": ' + b"[" * 1000 + b"]" * 1000 + b"}", 400, "unknown-field", "x", ""),
    "1,000 deep in context": (
        b'{"scene": "home", "context": {"hour": ' + b"[" * 1000 + b"]" * 1000 + b"}}",
        400, "wrong-type", "context", "got an array"),
    "100,000 deep objects in context": (
        b'{"scene": "home", "context": {"hour": ' + b'{"a":' * 100_000, 400, "wrong-type", "context", "got an object"),
    "no scene": (b"{}", 400, "missing-field", "scene", "missing"),
    "integer scene": (b'{"scene": 1}', 400, "wrong-type", "scene", "Names are strings"),
    "misspelt field": (b'{"scene": "home", "sise": 3}', 400, "unknown-field", "sise", 'Did you mean "size"'),
    "strange field": (b'{"scene": "home", "a`b - at `$.x`": 3}', 400, "unknown-field", "a`b - at `$.x`", "Known here"),
    "size as text": (b'{"scene": "home", "size": "3"}', 400, "wrong-type", "size", "got a string"),
    "size as float": (b'{"scene": "home", "size": 3.5}', 400, "wrong-type", "size", "integer from 1 to 500"),
    "size as bool": (b'{"scene": "home", "size": true}', 400, "wrong-type", "size", "got a boolean"),
    "size null": (b'{"scene": "home", "size": null}', 400, "wrong-type", "size", "got null"),
    "size 0": (b'{"scene": "home", "size": 0}', 422, "out-of-range", "size", "1 to 500"),
    "size -1": (b'{"scene": "home", "size": -1}', 422, "out-of-range", "size", "1 to 500"),
    "size 10**9": (b'{"scene": "home", "size": 1000000000}', 422, "out-of-range", "size", "1 to 500"),
    "integer user": (b'{"scene": "home", "user_id": 1607}', 400, "wrong-type", "user_id", "as strings"),
    "float user": (b'{"scene": "home", "user_id": 17850.0}', 400, "wrong-type", "user_id", "as strings"),
    "empty user": (b'{"scene": "home", "user_id": ""}', 422, "out-of-range", "user_id", "1 to 256 bytes"),
    "10 kB user": (
        json.dumps({"scene": "home", "user_id": LONG_ID}).encode(), 422, "out-of-range", "user_id", "256 bytes"),
    "400-byte user of 200 characters": (
        json.dumps({"scene": "home", "user_id": WIDE_ID}).encode(), 422, "out-of-range", "user_id", "256 bytes"),
    "empty id in exclude": (b'{"scene": "home", "exclude": ["1", ""]}', 422, "out-of-range", "exclude[1]", "256"),
    "integer in exclude": (b'{"scene": "home", "exclude": ["1", 2]}', 400, "wrong-type", "exclude[1]", "as strings"),
    "wide id in exclude": (
        json.dumps({"scene": "home", "exclude": ["1", WIDE_ID]}).encode(), 422, "out-of-range", "exclude[1]", "256"),
    "1,001 excluded": (
        json.dumps({"scene": "home", "exclude": ["1"] * 1001}).encode(), 422, "out-of-range", "exclude", "1000"),
    "1,001 candidates": (
        json.dumps({"scene": "home", "candidates": ["1"] * 1001}).encode(), 422, "out-of-range", "candidates", "1000"),
    "51 why_not": (
        json.dumps({"scene": "home", "debug": True, "why_not": ["1"] * 51}).encode(),
        422, "out-of-range", "why_not", "at most 50"),
    "force without debug": (
        b'{"scene": "home", "force": {"rank": "a@1/b"}}', 422, "force-needs-debug", "force", "debug to true"),
    "force that is no object": (
        b'{"scene": "home", "debug": true, "force": ["rank"]}', 400, "wrong-type", "force", "an object"),
    "force of a number": (
        b'{"scene": "home", "debug": true, "force": {"recall": "a@1/b", "rank": 1}}',
        400, "wrong-type", "force.rank",
        'force.rank: expected the name of a bucket or "default", a string of 1 to 256 bytes, got an integer. '
        "Names are strings"),
    "force of a blank": (
        b'{"scene": "home", "debug": true, "force": {"rank": ""}}', 422, "out-of-range", "force.rank",
        'force.rank: expected the name of a bucket or "default", a string of 1 to 256 bytes'),
    "force of a layer without a name": (
        b'{"scene": "home", "debug": true, "force": {"": "a@1/b"}}', 422, "out-of-range", "force",
        "force: expected names of 1 to 256 bytes"),
    "2**64 as user": (
        b'{"scene": "home", "user_id": %d}' % HUGE, 400, "wrong-type", "user_id",
        "got a number with a fraction or an exponent, or beyond 64 bits. Send ids as strings"),
    "why_not without debug": (
        b'{"scene": "home", "why_not": ["1"]}', 422, "why-not-needs-debug", "why_not", "debug to true"),
    "cursor": (b'{"scene": "home", "cursor": "abc"}', 400, "wrong-type", "cursor", "no paging"),
    "unknown scene": (b'{"scene": "hame"}', 404, "unknown-scene", "scene", 'Did you mean "home"'),
    "context not an object": (b'{"scene": "home", "context": []}', 400, "wrong-type", "context", "an object"),
    "null attribute": (b'{"scene": "home", "context": {"hour": null}}', 400, "wrong-type", "context.hour", "got null"),
    "undeclared attribute": (
        b'{"scene": "home", "context": {"regoin": "n"}}', 422, "undeclared-context", "context.regoin", "region: str"),
    "hour as text": (b'{"scene": "home", "context": {"hour": "9"}}', 422, "wrong-context-type", "context.hour", "int"),
    "hour as bool": (b'{"scene": "home", "context": {"hour": true}}', 422, "wrong-context-type", "context.hour", ""),
    "unknown class": (b'{"scene": "home", "priority": "urgent"}', 422, "out-of-range", "priority", '"prefetch"'),
    "class as number": (b'{"scene": "home", "priority": 1}', 400, "wrong-type", "priority", "got an integer"),
    "hour as float": (b'{"scene": "home", "context": {"hour": 9.0}}', 422, "wrong-context-type", "context.hour", ""),
    "member as int": (b'{"scene": "home", "context": {"member": 1}}', 422, "wrong-context-type", "context.member", ""),
    "not a version": (
        b'{"scene": "home", "context": {"app_version": "new"}}',
        422, "wrong-context-type", "context.app_version", "3.2.0"),
    "long attribute": (
        json.dumps({"scene": "home", "context": {"region": WIDE_ID}}).encode(),
        422, "wrong-context-type", "context.region", "256 bytes"),
}  # fmt: skip


def check(reply: Reply, status: int, kind: str) -> dict[str, object]:
    """The problem document, checked for what all of them promise."""
    assert reply.status == status, reply
    assert reply.headers["content-type"] == "application/problem+json"
    problem = reply.json()
    assert problem["type"] == f"urn:recserve:problem:{kind}"
    assert problem["status"] == status
    assert problem["request_id"] == reply.headers["x-request-id"]
    return dict(problem)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_bad_input_is_a_problem_that_names_the_field_or_the_byte(service: Service, case: tuple) -> None:
    body, status, kind, where, words = case
    problem = check(service.post("/recommend", body), status, kind)
    assert problem["byte" if isinstance(where, int) else "field"] == where
    assert words in problem["detail"]
    assert len(str(problem["detail"])) < 500


@pytest.mark.parametrize(
    "value",
    [LONG_ID, f"{WIDE_ID}", "s3cret-" * 100],
)
def test_a_value_is_never_repeated(service: Service, value: str) -> None:
    for name in ("user_id", "scene", "request_id"):
        reply = service.post("/recommend", {"scene": "home", name: value})
        assert reply.status in (404, 422)
        assert value.encode() not in reply.body


def test_a_long_unknown_name_is_cut(service: Service) -> None:
    problem = check(service.post("/recommend", {"scene": "home", "n" * 100_000: 1}), 400, "unknown-field")
    assert len(str(problem["field"])) == 65


@pytest.mark.parametrize(
    ("headers", "field"),
    [
        ({}, "content-type"),
        ({"content-type": "text/plain"}, "content-type"),
        ({"content-type": "application/x-www-form-urlencoded"}, "content-type"),
        ({"content-type": "application/json; charset=latin-1"}, "content-type"),
        ({"content-type": "application/json", "content-encoding": "gzip"}, "content-encoding"),
    ],
)
def test_another_content_type_is_415(service: Service, headers: dict[str, str], field: str) -> None:
    problem = check(service.ask("POST", "/recommend", b'{"scene": "home"}', headers), 415, "unsupported-media-type")
    assert problem["field"] == field


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", 'Application/JSON;charset="UTF-8"'])
def test_utf8_may_be_said(service: Service, kind: str) -> None:
    assert service.ask("POST", "/recommend", b'{"scene": "home"}', {"content-type": kind}).status == 200


@pytest.mark.parametrize("size", [(1 << 20) + 1, 3 << 20, 9 << 20])
def test_too_long_a_body_is_413_by_its_declared_length(service: Service, size: int) -> None:
    head = f"POST /recommend HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {size}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", service.port), timeout=10) as sock:
        sock.sendall(head.encode())
        assert sock.recv(4096).startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize("size", [(1 << 20) + 1, 9 << 20])
def test_too_long_a_body_is_413_by_its_chunks(service: Service, size: int) -> None:
    head = (
        b"POST /recommend HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", service.port), timeout=10) as sock:
        sock.sendall(head + b"%x\r\n" % size + b" " * size + b"\r\n0\r\n\r\n")
        assert sock.recv(4096).startswith(b"HTTP/1.1 413 ")


def test_a_body_of_exactly_the_limit_is_read(service: Service) -> None:
    assert service.post("/recommend", b'{"scene": "home"}'.ljust(1 << 20)).status == 200


EVENT = {"user_id": "1607", "item_id": "9", "event": "click", "ts": 1764410400.5}
EVENTS = {
    "none": ([], 422, "out-of-range", "events"),
    "1,001": ([EVENT] * 1001, 422, "out-of-range", "events"),
    "milliseconds": ([{**EVENT, "ts": 1764410400500}], 422, "out-of-range", "events[0].ts"),
    "negative": ([EVENT, {**EVENT, "ts": -1}], 422, "out-of-range", "events[1].ts"),
    "text": ([{**EVENT, "ts": "2026-01-01"}], 400, "wrong-type", "events[0].ts"),
    "integer item": ([{**EVENT, "item_id": 9}], 400, "wrong-type", "events[0].item_id"),
    "wide item": ([EVENT, {**EVENT, "item_id": WIDE_ID}], 422, "out-of-range", "events[1].item_id"),
    "no user": ([{k: v for k, v in EVENT.items() if k != "user_id"}], 400, "missing-field", "events[0].user_id"),
    "misspelt": ([{**EVENT, "itemid": "9"}], 400, "unknown-field", "events[0].itemid"),
    "not an object": ([EVENT, 3], 400, "wrong-type", "events[1]"),
    "undeclared": ([EVENT, {**EVENT, "event": "sneeze"}], 422, "undeclared-event", "events[1].event"),
}


@pytest.mark.parametrize("case", EVENTS.values(), ids=EVENTS.keys())
def test_a_bad_event_is_named_and_nothing_is_recorded(service: Service, case: tuple) -> None:
    events, status, kind, field = case
    problem = check(service.post("/events", {"events": events}), status, kind)
    assert problem["field"] == field
    assert service.engine.events == []
