"""Parameters, scenes and whole documents: each rule with its exact path and message."""

from typing import Any

import pytest

from tests.abtest.documents import arms, compiled, document, experiment, layer, only, problems_of

RE_RANK = ("scenes", "home", "layers", "re_rank")

PARAMS: list[tuple[Any, tuple[str, ...], str]] = [
    (
        {"int": [1, 2], "float": [1, 2], "default": 1, "layer": "home/recall"},
        (),
        "the parameter p has int and float. Expected exactly one of int, float, choice, bool.",
    ),
    (
        {"default": 1, "layer": "home/recall"},
        (),
        "the parameter p has no type. Expected exactly one of int, float, choice, bool.",
    ),
    (
        {"int": [1, 2], "layer": "home/recall"},
        (),
        "the parameter p lacks 'default'. Expected default, layer.",
    ),
    (
        {"int": [1, 2], "default": 3, "layer": "home/recall"},
        ("default",),
        "the default of p is the integer 3. Expected an integer from 1 to 2.",
    ),
    (
        {"int": [1, 2], "default": 1.0, "layer": "home/recall"},
        ("default",),
        "the default of p is the number 1.0. Expected an integer from 1 to 2.",
    ),
    (
        {"int": [1, 2], "default": True, "layer": "home/recall"},
        ("default",),
        "the default of p is the boolean true. Expected an integer from 1 to 2.",
    ),
    (
        {"float": [0, 1], "default": float("nan"), "layer": "home/recall"},
        ("default",),
        "the default of p is the number nan. Expected a number from 0.0 to 1.0.",
    ),
    (
        {"int": [2, 1], "default": 1, "layer": "home/recall"},
        ("int",),
        "the range of p isn't one. Expected [low, high], two integers in order.",
    ),
    (
        {"float": [0, float("inf")], "default": 1, "layer": "home/recall"},
        ("float",),
        "the range of p isn't one. Expected [low, high], two numbers in order.",
    ),
    (
        {"choice": ["a", 1], "default": 1, "layer": "home/recall"},
        ("choice",),
        "the choices of p don't make a type. Expected different values that are all text, all integers or all numbers.",
    ),
    (
        {"bool": False, "default": True, "layer": "home/recall"},
        ("bool",),
        "the type of p is the boolean false. Expected `bool: true`.",
    ),
    (
        {"int": [1, 2], "default": 1, "layer": "home/recal"},
        ("layer",),
        "there is no layer 'home/recal'. Did you mean 'home/recall'?",
    ),
    (
        {"int": [1, 2], "default": 1, "layer": ["home/recall", "home/re_rank"]},
        ("layer",),
        "the layer of p is a list. Expected one scene/layer.",
    ),
]


@pytest.mark.parametrize(("entry", "path", "message"), PARAMS)
def test_a_faulty_parameter_is_refused(entry: Any, path: tuple[str, ...], message: str) -> None:
    base = document()
    base["params"]["p"] = entry
    assert only(problems_of(base)) == (("params", "p", *path), message)


def test_scenes_layers_and_holdouts_are_checked() -> None:
    base = document()
    base["scenes"]["hone"] = {"layers": {}}
    base["scenes"]["discover"] = {"holdout": {"slots": 10001, "unit": "user"}}
    layer(base)["unit"] = "userid"
    layer(base)["slat"] = "x"
    base["version"] = True
    assert [(problem.path, problem.message) for problem in problems_of(base)] == [
        (("version",), "the version is the boolean true. Expected 1."),
        ((*RE_RANK, "slat"), "the layer re_rank has no key 'slat'. Did you mean 'salt'?"),
        ((*RE_RANK, "unit"), "the unit of re_rank is the text 'userid'. Did you mean 'user_id'?"),
        (("scenes", "hone"), "there is no scene 'hone'. Did you mean 'home'?"),
        (
            ("scenes", "discover", "holdout", "slots"),
            "the number of slots of the holdout of discover is 10001, out of range. "
            "Expected an integer from 0 to 10000.",
        ),
        (
            ("scenes", "discover", "holdout", "unit"),
            "the unit of the holdout of discover is the text 'user'. Did you mean 'user_id'?",
        ),
    ]


def test_a_layer_can_not_hash_like_the_holdout() -> None:
    base = document()
    base["scenes"]["home"]["holdout"] = {"slots": 100, "unit": "user_id"}
    base["scenes"]["home"]["layers"]["holdout"] = {"unit": "user_id", "experiments": {}}
    path, message = only(problems_of(base))
    assert path == ("scenes", "home", "layers", "holdout")
    assert message.startswith("the salt 'home/holdout/1' is already that of scenes.home.holdout.")


def test_all_problems_come_in_one_run() -> None:
    base = document(
        a_1=experiment(owner="", buckets=arms({"a": 1, "b": 2}, "a"), when="context.x == 1"),
        b_1=experiment(status="on", start="2026-01-01"),
    )
    base["params"]["p"] = {"int": [1, 2], "default": 9, "layer": "nowhere/at_all"}
    places = {problem.path[-2:] for problem in problems_of(base)}
    assert places == {
        ("a@1", "owner"),
        ("a@1", "buckets"),
        ("a@1", "when"),
        ("b@1", "status"),
        ("b@1", "start"),
        ("b@1", "slots"),
        ("p", "layer"),
        ("p", "default"),
    }


@pytest.mark.parametrize("junk", [None, 1, "x", [], True, [["a"]], {1: 2}, {"a": {"b": None}}])
def test_whatever_stands_in_the_document_is_reported_and_never_raises(junk: Any) -> None:
    assert problems_of(junk)
    for key in ("params", "scenes"):
        assert problems_of({key: junk}) or junk == []
    base = document(exp_1=experiment())
    base["scenes"]["home"] = junk
    assert problems_of(base)
    for name in ("slots", "buckets", "whitelist", "when", "start", "owner", "status", "salt", "description"):
        problems_of(document(exp_1=experiment(**{name: junk})))
    for name in ("weight", "control", "set"):
        buckets = arms({"a": 10000}, "a")
        buckets["a"][name] = junk
        problems_of(document(exp_1=experiment(buckets=buckets)))


@pytest.mark.parametrize("place", [("scenes",), ("scenes", "home", "layers"), ("scenes", "home", "layers", "re_rank")])
def test_a_key_that_is_no_unicode_text_is_reported(place: tuple[str, ...]) -> None:
    base = document(exp_1=experiment())
    inside: Any = base
    for key in place:
        inside = inside[key]
    inside["\ud800"] = next(iter(inside.values()))
    problems = problems_of(base)
    assert [(problem.path, problem.message) for problem in problems] == [
        (place, f"The key '\\ud800' of {NAMES[place]} holds a lone surrogate. Expected valid Unicode.")
    ]


NAMES = {
    ("scenes",): "scenes",
    ("scenes", "home", "layers"): "the layers of home",
    ("scenes", "home", "layers", "re_rank"): "the layer re_rank",
}


def test_an_empty_document_has_a_plan_for_every_scene() -> None:
    experiments = compiled({})
    assert set(experiments.scenes) == {"home", "discover"}
    assert experiments.assign("discover", {}, {}, 0.0).buckets == {}
