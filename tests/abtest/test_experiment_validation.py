"""Experiments: each rule with its exact path and message."""

from datetime import datetime
from typing import Any

import pytest

from tests.abtest.documents import KNOB, arms, compiled, document, experiment, layer, only, problems_of

RE_RANK = ("scenes", "home", "layers", "re_rank")
EXP = (*RE_RANK, "experiments", "exp@1")


def of(**changes: Any) -> tuple[tuple[str | int, ...], str]:
    """The one problem of an experiment with changes, its path relative to the experiment."""
    path, message = only(problems_of(document(exp_1=experiment(**changes))))
    assert path[: len(EXP)] == EXP
    return path[len(EXP) :], message


def weights(*parts: Any) -> dict[str, Any]:
    return {"buckets": arms(dict(zip("abcd", parts, strict=False)), control="a")}


RULES: list[tuple[dict[str, Any], tuple[str | int, ...], str]] = [
    (
        {"slot": [[0, 10]]},
        ("slot",),
        "the experiment exp@1 has no key 'slot'. Did you mean 'slots'?",
    ),
    (
        {"owner": None},
        (),
        "the experiment exp@1 lacks 'owner'. Expected owner, status, slots, buckets.",
    ),
    (
        {"owner": "  "},
        ("owner",),
        "the owner of exp@1 is the text '  '. Expected text that isn't empty.",
    ),
    (
        {"status": "runing"},
        ("status",),
        "the status of exp@1 is the text 'runing'. Did you mean 'running'?",
    ),
    ({"status": True}, ("status",), "the status of exp@1 is the boolean true. Expected one of draft, ended, "),
    (
        {"slots": [[2000, 0]]},
        ("slots", 0),
        "the slot range [2000, 0) of exp@1 is inverted. Expected [from, to) with from below to.",
    ),
    (
        {"slots": [[0, 10], [20, 20]]},
        ("slots", 1),
        "the slot range [20, 20) of exp@1 is empty. Expected [from, to) with from below to.",
    ),
    (
        {"slots": [[0, 10001]]},
        ("slots", 0, 1),
        "a slot of exp@1 is 10001, out of range. Expected an integer from 0 to 10000.",
    ),
    (
        {"slots": [[False, 10]]},
        ("slots", 0, 0),
        "a slot of exp@1 is the boolean false. Expected an integer from 0 to 10000.",
    ),
    ({"slots": [[1]]}, ("slots", 0), "a slot range of exp@1 has 1 ends. Expected [from, to)."),
    ({"slots": [5]}, ("slots", 0), "a slot range of exp@1 is the integer 5. Expected a list."),
    ({"slots": "0-10"}, ("slots",), "the slots of exp@1 is the text '0-10'. Expected a list."),
    (
        {"slots": [[0, 20], [10, 30]]},
        ("slots",),
        "slots [10, 30) of exp@1 overlap [0, 20) of exp@1 in 10 slots. Free in this layer: [30, 10000).",
    ),
    (weights(5000, 4999), ("buckets",), "the weights of exp@1 sum to 9999. Expected 10000."),
    (weights(3333, 3333, 3333), ("buckets",), "the weights of exp@1 sum to 9999. Expected 10000."),
    (
        weights(0.33 * 3, 9999),
        ("buckets", "a", "weight"),
        "the weight of a, out of 10000, is the number 0.99. Expected an integer from 0 to 10000.",
    ),
    (
        weights(True, 9999),
        ("buckets", "a", "weight"),
        "the weight of a, out of 10000, is the boolean true. Expected an integer from 0 to 10000.",
    ),
    (
        weights(-1, 10000),
        ("buckets", "a", "weight"),
        "the weight of a, out of 10000, is -1, out of range. Expected an integer from 0 to 10000.",
    ),
    (
        {"buckets": arms({"a": 5000, "b": 5000}, control="none")},
        ("buckets",),
        "exp@1 has no bucket as control. Expected exactly one bucket with `control: true`.",
    ),
    (
        {"buckets": {name: {"weight": 5000, "control": True, "set": {KNOB: 0.5}} for name in "ab"}},
        ("buckets",),
        "exp@1 has a and b as control. Expected exactly one bucket with `control: true`.",
    ),
    (
        {"buckets": arms({"a": 10000}, control="a") | {"b": {"weight": 0}}},
        ("buckets", "b"),
        "the bucket b doesn't set re_rank.relevance. Expected the same keys in every bucket: re_rank.relevance.",
    ),
    (
        {"buckets": {"a": {"weight": 10000, "control": True}}},
        ("buckets",),
        "exp@1 sets no parameter, so that nobody could be exposed to it. Expected at least one; buckets that "
        "are to behave alike set the same value.",
    ),
    (
        {"buckets": {"a": {"weight": 10000, "control": True, "set": {KNOB: "0.5"}}}},
        ("buckets", "a", "set", KNOB),
        "re_rank.relevance is the text '0.5'. Expected a number from 0.0 to 1.0.",
    ),
    (
        {"buckets": {"a": {"weight": 10000, "control": True, "set": {KNOB: True}}}},
        ("buckets", "a", "set", KNOB),
        "re_rank.relevance is the boolean true. Expected a number from 0.0 to 1.0.",
    ),
    (
        {"buckets": {"a": {"weight": 10000, "control": True, "set": {KNOB: 1.5}}}},
        ("buckets", "a", "set", KNOB),
        "re_rank.relevance is the number 1.5. Expected a number from 0.0 to 1.0.",
    ),
    (
        {"buckets": {"a": {"weight": 10000, "control": True, "set": {"re_rank.method": "map"}}}},
        ("buckets", "a", "set", "re_rank.method"),
        "re_rank.method is the text 'map'. Expected one of 'mmr', 'dpp'.",
    ),
    (
        {"buckets": {"a": {"weight": 10000, "control": True, "set": {"re_rank.fresh": 1}}}},
        ("buckets", "a", "set", "re_rank.fresh"),
        "re_rank.fresh is the integer 1. Expected true or false.",
    ),
    (
        {"buckets": {"a": {"weight": 10000, "control": True, "set": {"re_rank.relevence": 0.5}}}},
        ("buckets", "a", "set", "re_rank.relevence"),
        "the parameter 're_rank.relevence' isn't declared. Did you mean 're_rank.relevance'?",
    ),
    (
        {"buckets": {"a": {"weight": 10000, "control": True, "set": {"recall.vector_k": 200}}}},
        ("buckets", "a", "set", "recall.vector_k"),
        "recall.vector_k belongs to the layer home/recall. home/re_rank can't set it; a parameter has one layer.",
    ),
    (
        {"whitelist": {"control": ["u1", 7], "diverse": ["7"]}},
        ("whitelist", "diverse", 0),
        "'7' is in the whitelists of control and diverse. Expected one bucket for each unit.",
    ),
    (
        {"whitelist": {"divers": ["u1"]}},
        ("whitelist", "divers"),
        "there is no bucket 'divers'. Did you mean 'diverse'?",
    ),
    (
        {"whitelist": {"diverse": [1.5]}},
        ("whitelist", "diverse", 0),
        "the number 1.5 is no unit. Expected text or an integer, at most 256 bytes.",
    ),
    (
        {"start": "2026-03-01T09:00:00"},
        ("start",),
        "the start of exp@1 has no time zone. Expected one, such as 2026-03-01T09:00:00+00:00.",
    ),
    (
        {"start": "0001-01-01T00:00:00+23:00"},
        ("start",),
        "the start of exp@1 is out of range. Expected a year from 1970 to 9998.",
    ),
    (
        {"end": "9999-12-31T23:00:00-23:00"},
        ("end",),
        "the end of exp@1 is out of range. Expected a year from 1970 to 9998.",
    ),
    (
        {"start": datetime(2026, 3, 1)},
        ("start",),
        "the start of exp@1 has no time zone. Expected one, such as 2026-03-01T00:00:00+00:00.",
    ),
    (
        {"end": "soon"},
        ("end",),
        "the end of exp@1 is the text 'soon'. Expected a time such as 2026-03-01T09:00:00+08:00.",
    ),
    (
        {"start": "2026-03-01T09:00:00+08:00", "end": "2026-03-01T01:00:00Z"},
        ("end",),
        "the end of exp@1 isn't after its start. Expected a later time.",
    ),
    (
        {"when": "context.hour > 3 and context.regoin == 'north'"},
        ("when",),
        "column 22: context.regoin is not known here. Did you mean context.region?",
    ),
    ({"when": "context.hour"}, ("when",), "the condition is a number. Expected a comparison, or a bool."),
    ({"when": True}, ("when",), "a condition is the boolean true. Expected text that isn't empty."),
    ({"salt": 5}, ("salt",), "the salt of exp@1 is the integer 5. Expected text that isn't empty."),
    ({"salt": "\ud800"}, ("salt",), "the salt of exp@1 holds a lone surrogate. Expected valid Unicode."),
    (
        {"salt": "home/recall/1"},
        ("salt",),
        "the salt 'home/recall/1' is already that of scenes.home.layers.recall. Expected a salt of its own; "
        "without the key there is a default.",
    ),
]


@pytest.mark.parametrize(("changes", "path", "message"), RULES)
def test_a_faulty_experiment_is_refused(changes: dict[str, Any], path: tuple[str | int, ...], message: str) -> None:
    found_path, found_message = of(**changes)
    assert found_path == path
    assert found_message.startswith(message) if message.endswith(", ") else found_message == message


def test_experiments_of_a_layer_may_not_overlap() -> None:
    found = problems_of(document(a_1=experiment(), b_1=experiment(slots=[[1500, 2500], [5000, 10000]])))
    assert only(found) == (
        (*RE_RANK, "experiments", "b@1", "slots"),
        "slots [1500, 2500) of b@1 overlap [0, 2000) of a@1 in 500 slots. Free in this layer: [2500, 5000).",
    )


def test_an_ended_experiment_frees_its_slots_and_its_testers() -> None:
    testers = {"whitelist": {"diverse": ["u1"]}}
    compiled(document(a_1=experiment(status="ended", **testers), b_1=experiment(**testers)))


def test_a_user_is_in_one_whitelist_of_a_layer() -> None:
    testers = {"whitelist": {"diverse": ["u1"]}}
    found = problems_of(document(a_1=experiment(**testers), b_1=experiment(slots=[[5000, 6000]], **testers)))
    assert only(found) == (
        (*RE_RANK, "experiments", "b@1", "whitelist", "diverse"),
        "'u1' is in the whitelists of a@1 and b@1. Expected one experiment of a layer for each unit.",
    )


@pytest.mark.parametrize("name", ["exp", "exp@", "exp@0", "exp@01", "exp@1.5", "@1", "a/b@1", "a:b@1", "exp@1@2"])
def test_an_experiment_is_called_name_at_version(name: str) -> None:
    base = document()
    layer(base)["experiments"][name] = experiment()
    assert only(problems_of(base)) == (
        (*RE_RANK, "experiments", name),
        f"an experiment can't be called {name!r}. Expected name@version with a whole version, such as exp_mmr@1.",
    )
