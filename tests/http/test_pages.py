"""The service's own routes, the pages, and the operator's listener."""

import base64
import hashlib
import re

import pytest

from app.operator_routes import redacted
from tests.http.service import Service


def test_ready_says_what_it_waits_for(service: Service) -> None:
    assert service.ask("GET", "/readyz").json() == {"status": "ready"}
    service.engine.ready = False
    service.engine.waiting_for = ["loading release 7"]
    try:
        reply = service.ask("GET", "/readyz")
        refused = service.recommend()
        version = service.ask("GET", "/version").json()
    finally:
        service.engine.ready = True
    assert (reply.status, reply.json()["reasons"]) == (503, ["loading release 7"])
    assert (refused.status, refused.headers["retry-after"]) == (503, "1")
    assert version == {"name": "recserve", "version": "0.1.0", "ready": False}


def test_version_says_what_serves(service: Service) -> None:
    version = service.ask("GET", "/version").json()
    assert version["config"] == "9f2c01ab34de"
    assert version["scenes"] == ["ahead", "discover", "home"]
    assert version["context"]["app_version"] == "semver"


def test_openapi_is_generated_from_the_structs(service: Service) -> None:
    document = service.ask("GET", "/openapi.json").json()
    assert set(document["paths"]) == {"/recommend", "/events", "/healthz", "/readyz", "/version"}
    request = document["components"]["schemas"]["RecommendRequest"]
    assert request["required"] == ["scene"]
    assert request["additionalProperties"] is False
    assert (request["properties"]["size"]["minimum"], request["properties"]["size"]["maximum"]) == (1, 500)
    assert request["properties"]["priority"]["default"] is None
    for path in ("/recommend", "/events"):
        post = document["paths"][path]["post"]
        assert {"401", "408", "413", "422", "429", "431", "503"} <= set(post["responses"])
        schemes = {name for choice in post["security"] for name in choice}
        assert schemes == set(document["components"]["securitySchemes"])
    (deadline,) = document["paths"]["/recommend"]["post"]["parameters"]
    assert (deadline["name"], deadline["schema"]["maximum"]) == ("x-request-deadline-ms", 60000)
    references = set(re.findall(r'"#/components/schemas/(\w+)"', service.ask("GET", "/openapi.json").body.decode()))
    assert references <= set(document["components"]["schemas"])


@pytest.mark.parametrize("path", ["/", "/docs"])
def test_a_page_is_self_contained_and_allows_only_its_own_script(service: Service, path: str) -> None:
    reply = service.ask("GET", path)
    html = reply.body.decode()
    assert not re.findall(r'(?:src|href)="(?:https?:)?//', html)
    assert "innerHTML" not in html
    assert " style=" not in html
    (script,) = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = reply.headers["content-security-policy"]
    assert f"script-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy


def test_the_operator_listener_shows_no_secret(service: Service) -> None:
    for path in ("/admin/status", "/admin/config"):
        reply = service.ask("GET", path, operator=True)
        assert reply.status == 200
        assert b"hunter2" not in reply.body
    assert service.ask("GET", "/admin/config", operator=True).json()["service"]["key"] == "u:{id}"


def test_redaction_leaves_what_is_no_secret() -> None:
    config = {"url": "redis://h:1/0?password=p&db=2", "api_key": "k", "token": "", "keys": [{"key": "u:{id}"}], "n": 3}
    assert redacted(config) == {
        "url": "redis://h:1/0?password=***&db=2",
        "api_key": "***",
        "token": "",
        "keys": [{"key": "u:{id}"}],
        "n": 3,
    }


@pytest.mark.parametrize(
    "url", ["redis:/u:{}@h:1", "redis:u:{}@h", "//u:{}@h", "u:{}@h:1", "redis://u:{}@x@h", "REDIS://:{}@h"]
)
def test_redaction_knows_a_password_in_a_url_that_is_none(url: str) -> None:
    text = f"the store {url.format('hunter2')} is down"
    assert redacted({"a": [text]})["a"][0].endswith("***@h is down") or "***@h:1" in redacted(text)
    assert "hunter2" not in redacted(text)


def test_reload_answers_with_the_errors(service: Service) -> None:
    assert service.ask("POST", "/admin/reload", operator=True).json() == {"status": "reloaded"}
    service.operator.errors = ["scenes/home.yaml:3 recall: nope", "store: redis://u:hunter2@h"]
    try:
        reply = service.ask("POST", "/admin/reload", operator=True)
    finally:
        service.operator.errors = []
    assert (reply.status, reply.json()["type"]) == (422, "urn:recserve:problem:reload-refused")
    assert reply.json()["errors"] == ["scenes/home.yaml:3 recall: nope", "store: redis://***@h"]


def test_reload_is_not_for_pages_of_other_sites(service: Service) -> None:
    reply = service.ask("POST", "/admin/reload", headers={"sec-fetch-site": "cross-site"}, operator=True)
    assert (reply.status, reply.json()["type"]) == (403, "urn:recserve:problem:cross-site")
    assert service.ask("GET", "/admin/reload", operator=True).headers["allow"] == "POST"


@pytest.mark.parametrize("origin", ["http://evil.example", "http://127.0.0.1:3000", "https://127.0.0.1:{port}", "null"])
def test_a_post_from_another_origin_is_refused(service: Service, origin: str) -> None:
    headers = {"origin": origin.format(port=service.operator_port)}
    reply = service.ask("POST", "/admin/reload", headers=headers, operator=True)
    assert (reply.status, reply.json()["type"]) == (403, "urn:recserve:problem:cross-site")


def test_a_post_from_the_listener_s_own_origin_is_taken(service: Service) -> None:
    headers = {"origin": f"http://127.0.0.1:{service.operator_port}", "sec-fetch-site": "same-origin"}
    assert service.ask("POST", "/admin/reload", headers=headers, operator=True).status == 200


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example:8001", "10.0.0.1", "0.0.0.0", "[::2]:1", "["])
def test_the_operator_listener_answers_for_no_other_host(service: Service, host: str) -> None:
    for method, path in (("GET", "/admin/config"), ("GET", "/metrics"), ("POST", "/admin/reload")):
        reply = service.ask(method, path, headers={"host": host, "origin": f"http://{host}"}, operator=True)
        assert (reply.status, reply.json()["type"]) == (421, "urn:recserve:problem:misdirected")
        assert reply.json()["request_id"] == reply.headers["x-request-id"]


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:9001", "localhost.", "127.0.0.1", "127.8.8.8:1", "[::1]:8001"]
)
def test_the_operator_listener_has_every_name_of_loopback(service: Service, host: str) -> None:
    assert service.ask("GET", "/admin/config", headers={"host": host}, operator=True).status == 200
