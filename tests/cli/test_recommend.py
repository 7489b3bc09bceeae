"""`recserve recommend` against a stub service on a real socket."""

from __future__ import annotations

import json
import socket

import pytest

from app.cli.client import Unreachable, recommend
from app.cli.table import shortened, table, width
from tests.cli.stub import ANSWER, JSON, Stub, answering, command, refusing


def test_the_list_is_an_aligned_table_with_titles_prices_and_reasons(capsys: pytest.CaptureFixture[str]) -> None:
    with Stub(answering(ANSWER)) as stub:
        assert command("recommend", "1607", "--size", "3", "--url", stub.url) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("home for user 1607: 2 items in ")
    assert lines[0].endswith(" ms, release 2026-11-29T10-00-00, configuration 9f2c01ab34de")
    assert lines[2:5] == [
        "#  id       title        price   score  reasons",
        "1  1044078  Ground beef   2.50  0.8123  vector, i2i",
        "2  9        豆腐 [31m 2            0.5  fallback",
    ]
    assert lines[6:9] == [
        "buckets   re_rank exp_mmr@1/control",
        "degraded  recall.i2i (store_timeout)",
        "short     catalogue_exhausted: 2 of 3 items",
    ]
    assert stub.asked == [{"scene": "home", "user_id": "1607", "size": 3, "debug": True}]
    assert stub.paths == ["/recommend"]


def test_the_funnel_shows_counts_milliseconds_and_what_degraded(capsys: pytest.CaptureFixture[str]) -> None:
    with Stub(answering(ANSWER)) as stub:
        command("recommend", "1607", "--url", stub.url + "/")
    assert capsys.readouterr().out.splitlines()[10:] == [
        "step            in  out    ms  queued ms  degraded",
        "features.user         3  0.40",
        "recall.i2i            0  0.10             store_timeout",
        "merge          500  412  0.25",
        "rank.model     300  300  3.00       0.20",
        "all steps                3.75",
    ]


def test_json_is_the_services_answer(capsys: pytest.CaptureFixture[str]) -> None:
    with Stub(answering(ANSWER)) as stub:
        assert command("recommend", "--scene", "discover", "--json", "--url", stub.url) == 0
    assert json.loads(capsys.readouterr().out) == ANSWER
    assert (stub.asked[0]["user_id"], stub.asked[0]["scene"]) == (None, "discover")


def test_an_empty_list_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    with Stub(answering({**ANSWER, "items": [], "degraded": [], "buckets": {}})) as stub:
        assert command("recommend", "--url", stub.url) == 0
    out = capsys.readouterr().out
    assert "The list is empty." in out
    assert "buckets   no layers\ndegraded  nothing\n" in out


def test_a_service_that_does_not_run_is_one_line_that_says_how_to_start_it(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    assert command("recommend", "1607", "--url", url) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith(f"{url}: nothing listens there. Start the service with `make serve`")


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_a_problem_document_is_its_title_and_detail(capsys: pytest.CaptureFixture[str], flags: tuple[str, ...]) -> None:
    with Stub(refusing("unknown-scene", 404, "The scene is not configured", "scene: not configured.")) as stub:
        assert command("recommend", "1607", "--scene", "hom", "--url", stub.url, *flags) == 1
    out, err = capsys.readouterr()
    assert err == "The scene is not configured: scene: not configured.\n"
    assert (json.loads(out)["status"] if flags else out) == (404 if flags else "")


def test_without_the_right_to_debug_the_list_comes_without_the_funnel(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    forbidden = refusing("debug-forbidden", 403, "Debug output is not allowed", "debug: a token is needed")
    plain = answering({name: value for name, value in ANSWER.items() if name != "trace"})
    monkeypatch.setenv("RECSERVE_TOKEN", "s3cret")
    with Stub(lambda body: forbidden(body) if body["debug"] else plain(body)) as stub:
        assert command("recommend", "1607", "--url", stub.url) == 0
    out = capsys.readouterr().out
    assert "Ground beef" in out
    assert out.endswith("funnel    hidden: debug output from here needs the service's token in RECSERVE_TOKEN\n")
    assert [headers["x-recserve-token"] for headers in stub.headers] == ["s3cret", "s3cret"]
    assert "s3cret" not in out


@pytest.mark.parametrize("content", [b"<html>", b"[]", b'{"items": 1}', b"[" * 100_000])
def test_another_server_at_the_address_is_told_from_recserve(content: bytes) -> None:
    status = 502 if b"items" in content else 200
    with (
        Stub(lambda body: (status, JSON, content)) as stub,
        pytest.raises(Unreachable, match=f"answered {status} with"),
    ):
        recommend(stub.url, {})


@pytest.mark.parametrize("url", ["", "localhost:8000", "ftp://a", "http://", "http://a:99999", "http://[::1"])
def test_what_is_no_address_is_refused_with_an_example(url: str) -> None:
    with pytest.raises(Unreachable, match="not an address"):
        recommend(url, {})


def test_a_service_that_does_not_answer_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(Unreachable, match="no answer within"):
            recommend(url, {}, seconds=0.05)


def test_a_host_that_does_not_exist_is_named() -> None:
    with pytest.raises(Unreachable, match=r"http://nowhere\.invalid: can't be asked"):
        recommend("http://nowhere.invalid", {})


def test_columns_stay_aligned_with_wide_and_combining_characters() -> None:
    lines = table(("t", "n"), [["豆腐", "1"], ["e\u0301", "10"]], right=frozenset((1,))).splitlines()
    assert lines == ["t      n", "豆腐   1", "e\u0301     10"]
    assert [width(line) for line in lines] == [8, 8, 8]


def test_a_long_title_is_cut_to_its_cells() -> None:
    assert shortened("abcdef", 6) == "abcdef"
    assert shortened("abcdefg", 6) == "abcde…"
    assert width(shortened("豆" * 9, 6)) <= 6


def test_a_column_that_is_empty_everywhere_is_left_out() -> None:
    assert table(("id", "price"), [["a", ""]]) == "id\na"
