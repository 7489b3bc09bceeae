"""`recserve why`: against a stub, and against what the funnel itself explains."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from app.encode import AnswerEncoder
from tests.cli.stub import ANSWER, JSON, Stub, answering, command, refusing
from tests.stages.small import Engine, home, item, load, write_release


def explained(**found: Any) -> Mapping[str, Any]:
    """The answer, with one item explained."""
    said = {"id": "7", "step": None, "reason": "", "rank": None, "cut": None, **found}
    return {**ANSWER, "trace": {**ANSWER["trace"], "why_not": [said]}}


def test_the_step_the_reason_the_rank_and_the_cut_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    document = explained(step="pre_rank.dot", reason="it ranked below what the step keeps", rank=712, cut=600)
    with Stub(answering(document)) as stub:
        assert command("why", "--user", "1607", "--item", "7", "--url", stub.url) == 0
    assert capsys.readouterr().out.splitlines()[:5] == [
        "7 is not in the list of 2 for user 1607 in home.",
        "step      pre_rank.dot",
        "reason    it ranked below what the step keeps",
        "rank      712",
        "cut       600",
    ]
    assert stub.asked == [{"scene": "home", "user_id": "1607", "size": 20, "debug": True, "why_not": ["7"]}]


def test_an_item_that_is_listed_is_shown_with_its_place_and_scores(capsys: pytest.CaptureFixture[str]) -> None:
    document = explained(id="1044078", reason="it is in the list", rank=1)
    with Stub(answering(document)) as stub:
        assert command("why", "--user", "1607", "--item", "1044078", "--url", stub.url) == 0
    assert capsys.readouterr().out.splitlines() == [
        "1044078 is number 1 of the list of 2 for user 1607 in home.",
        "",
        "#  id       title        price   score  reasons",
        "1  1044078  Ground beef   2.50  0.8123  vector, i2i",
        "",
        "after           score",
        "recall.vector    1.25",
        "rank.model     0.8123",
    ]


def test_json_holds_the_explanation_and_what_it_is_about(capsys: pytest.CaptureFixture[str]) -> None:
    document = explained(step="filters.seen", reason="the filter dropped it")
    with Stub(answering(document)) as stub:
        assert command("why", "--item", "7", "--json", "--size", "5", "--url", stub.url) == 0
    assert json.loads(capsys.readouterr().out) == {
        "id": "7",
        "step": "filters.seen",
        "reason": "the filter dropped it",
        "rank": None,
        "cut": None,
        "listed": False,
        "user_id": None,
        "size": 5,
        "scene": "home",
        "config": "9f2c01ab34de",
        "release": "2026-11-29T10-00-00",
        "degraded": [{"step": "recall.i2i", "reason": "store_timeout"}],
    }


def test_a_refusal_is_its_title_and_detail(capsys: pytest.CaptureFixture[str]) -> None:
    with Stub(refusing("debug-forbidden", 403, "Debug output is not allowed", "debug: a token is needed")) as stub:
        assert command("why", "--user", "u", "--item", "7", "--url", stub.url) == 1
    assert capsys.readouterr().err == "Debug output is not allowed: debug: a token is needed\n"


def test_the_item_is_required(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command("why", "--user", "1607")
    assert "--item" in capsys.readouterr().err


@pytest.fixture(scope="module")
def funnel(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    engine = Engine(load(write_release(tmp_path_factory.mktemp("releases"))))
    engine.did("u1", item(9))
    return engine


def real(engine: Engine, body: Mapping[str, Any]) -> tuple[int, str, bytes]:
    """The funnel's own answer to the body, encoded as the service encodes it."""
    answer, _ = engine.run(
        home(), user_id=body["user_id"], size=body["size"], debug=body["debug"], why_not=tuple(body.get("why_not", ()))
    )
    return 200, JSON, AnswerEncoder().encode(answer)


@pytest.mark.parametrize(
    ("wanted", "step"), [(item(9), "filters.seen"), ("nope", "item_table"), (item(10), ""), (item(399), "")]
)
def test_what_the_funnel_explains_can_be_shown(
    funnel: Engine, capsys: pytest.CaptureFixture[str], wanted: str, step: str
) -> None:
    with Stub(lambda body: real(funnel, body)) as stub:
        assert command("why", "--user", "u1", "--item", wanted, "--url", stub.url) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"{wanted} is not in the list of 20 for user u1 in home.\nstep      {step}")
    assert "\nreason    " in out


def test_an_item_that_the_funnel_lists_is_found_in_its_list(funnel: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    with Stub(lambda body: real(funnel, body)) as stub:
        assert command("recommend", "u1", "--size", "3", "--json", "--url", stub.url) == 0
        third = json.loads(capsys.readouterr().out)["items"][2]["id"]
        assert command("why", "--user", "u1", "--item", third, "--size", "3", "--url", stub.url) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"{third} is number 3 of the list of 3 for user u1 in home.\n\n#  id")
    assert "re_rank.spread" in out


def test_the_funnels_steps_are_shown(funnel: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    with Stub(lambda body: real(funnel, body)) as stub:
        assert command("recommend", "u1", "--url", stub.url) == 0
    out = capsys.readouterr().out
    for step in ("features.user", "recall.vector", "merge", "filters.seen", "pre_rank.dot", "re_rank.mmr", "all steps"):
        assert f"\n{step} " in out


def test_an_item_id_of_any_unicode_is_asked_as_it_is() -> None:
    with Stub(answering(explained(id="用户💰", step="item_table", reason="the release doesn't know this id"))) as stub:
        assert command("why", "--user", "ü", "--item", "用户💰", "--url", stub.url) == 0
    assert (stub.asked[0]["user_id"], stub.asked[0]["why_not"]) == ("ü", ["用户💰"])
