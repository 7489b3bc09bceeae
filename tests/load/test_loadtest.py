from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from app.cli import main
from app.cli.loadtest import verdict
from tests.load.server import Behaviour, Exchange, Server, document, good, http

VERSION = json.dumps({"name": "recserve", "example_users": ["u1", "u2"]}).encode()


def service(asked: list[dict[str, object]], answer: Behaviour = good) -> Behaviour:
    def behave(exchange: Exchange) -> None:
        if exchange.path == "/version":
            exchange.answer(http(VERSION))
            return
        asked.append(json.loads(exchange.body))
        answer(exchange)

    return behave


def test_a_rate_is_reported_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[dict[str, object]] = []
    with Server(service(asked)) as server:
        status = main(["loadtest", server.url, "--rate", "100", "--seconds", "1", "--priority", "prefetch"])
    said = capsys.readouterr()
    sent = len(asked) - 1
    assert status == ("generator was late" in said.err)
    assert f"{sent} requests (200: {sent}); levels (0: {sent}); 0 empty lists" in said.out
    assert f"served by r1, configuration 9f2c01ab34de: {sent}" in said.out
    assert "p99.9 ms" in said.out
    assert {body.get("user_id") for body in asked[1:]} == {"u1", "u2"}
    assert {body["priority"] for body in asked} == {"prefetch"}


def test_json_is_one_object_and_users_come_from_a_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    users = tmp_path / "ids.txt"
    users.write_text("a\r\n\nb c\n", encoding="utf-8")
    asked: list[dict[str, object]] = []
    with Server(service(asked)) as server:
        words = ["--rate", "80", "--seconds", "0.5", "--users", str(users), "--budget", "500", "--json"]
        status = main(["loadtest", str(server.address[1]), *words])
    said = json.loads(capsys.readouterr().out)
    assert said["valid"] is (status == 0)
    assert (said["scene"], said["budget_ms"]) == ("home", 500.0)
    assert said["sent"] == said["served"] == len(asked) - 1
    assert {body.get("user_id") for body in asked[1:]} == {"a", "b c"}


def test_no_answer_is_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    def first_only(exchange: Exchange) -> None:
        if len(asked) == 1:
            exchange.answer(http(document()))
        else:
            exchange.reset()

    asked: list[dict[str, object]] = []
    with Server(service(asked, first_only)) as server:
        assert main(["loadtest", server.url, "--rate", "50", "--seconds", "0.3", "--json"]) == 1
    said = capsys.readouterr()
    assert "No answer came." in said.err
    assert json.loads(said.out)["outcomes"].keys() == {"reset"}


def test_refusals_alone_are_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    def first_only(exchange: Exchange) -> None:
        exchange.answer(http(document()) if len(asked) == 1 else http(status=429))

    asked: list[dict[str, object]] = []
    with Server(service(asked, first_only)) as server:
        assert main(["loadtest", server.url, "--rate", "50", "--seconds", "0.3", "--json"]) == 1
    said = capsys.readouterr()
    assert "No request was served" in said.err
    assert json.loads(said.out)["valid"] is False


def test_a_file_of_users_that_is_no_text_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    users = tmp_path / "ids.txt"
    users.write_bytes(b"u1\n\xff\n")
    with Server(service([])) as server:
        assert main(["loadtest", server.url, "--users", str(users)]) == 1
    assert f"{users}: byte 3 isn't UTF-8" in capsys.readouterr().err


@pytest.mark.parametrize("seed", ["-1", "x", "1.5", ""])
def test_a_seed_is_a_number_from_0(capsys: pytest.CaptureFixture[str], seed: str) -> None:
    with pytest.raises(SystemExit):
        main(["loadtest", "--seed", seed])
    assert "expected an integer from 0" in capsys.readouterr().err


@pytest.mark.parametrize("variable", ["RECSERVE_KEY", "RECSERVE_TOKEN"])
@pytest.mark.parametrize("value", ["s3cret\ns3cret", "s3cret\x7f", "s3crét"])
def test_a_key_that_no_header_can_carry_is_told_and_not_repeated(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    asked: list[dict[str, object]] = []
    with Server(service(asked)) as server:
        for words in (["loadtest", server.url], ["recommend", "u1", "--url", server.url]):
            assert main(words) == 1
            said = capsys.readouterr()
            assert f"{variable} has a character that a header can't carry" in said.err
            assert "s3cr" not in said.err + said.out
    assert not asked


def test_a_late_generator_is_a_failure_that_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert verdict(False, 10, 10) == 0
    assert verdict(True, 10, 10) == 1
    assert "generator was late" in capsys.readouterr().err


def test_another_machine_is_refused_unless_insisted_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["loadtest", "http://192.0.2.1:8000"]) == 1
    assert "--anywhere" in capsys.readouterr().err


@pytest.mark.parametrize("where", ["https://127.0.0.1:8000", "ftp://x", "http://127.0.0.1:8000/recommend", "http://["])
def test_what_is_no_address_is_refused(where: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["loadtest", where]) == 1
    assert "expected a port, or an address" in capsys.readouterr().err


def test_nothing_listening_and_a_wrong_scene_are_told_before_any_load(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    assert main(["loadtest", str(port)]) == 1
    assert "Is the service started?" in capsys.readouterr().err
    problem = json.dumps({"type": "urn:recserve:problem:unknown-scene", "title": "No", "detail": "scene: x"}).encode()
    refusal = http(problem, 404).replace(b"application/json", b"application/problem+json")
    asked: list[dict[str, object]] = []
    with Server(service(asked, lambda exchange: exchange.answer(refusal))) as server:
        assert main(["loadtest", server.url, "--scene", "x"]) == 1
    assert "scene: x" in capsys.readouterr().err
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("option", "value"), [("--rate", "0"), ("--seconds", "x"), ("--capacity", "1,8000"), ("--rate", "1e9")]
)
def test_numbers_out_of_range_are_named(option: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["loadtest", option, value])
    assert "expected a number above 0" in capsys.readouterr().err
