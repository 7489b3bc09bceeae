from typing import Any

import pytest

from abtest import SLOTS
from tests.abtest.documents import KNOB, NOW, compiled, document, experiment, layer, only, problems_of

LAUNCHES = ("scenes", "home", "layers", "re_rank", "launches")


def launched(experiments: dict[str, Any] | None = None, **launches: Any) -> dict[str, Any]:
    base = document(**(experiments or {}))
    layer(base)["launches"] = {f"{name}@1": entry for name, entry in launches.items()}
    return base


def test_a_launch_moves_the_default_of_all_but_the_held_out() -> None:
    base = launched(new={"set": {KNOB: 0.8, "re_rank.method": "dpp"}, "description": "better", "owner": "ranking"})
    base["scenes"]["home"]["holdout"] = {"slots": 5000, "unit": "user_id"}
    experiments = compiled(base)
    values = {"holdout": (0.9, "mmr"), "unallocated": (0.8, "dpp")}
    seen = set()
    for user in range(100):
        assignment = experiments.assign("home", {"user_id": user}, {}, NOW)
        reason = assignment.decisions[1].reason
        seen.add(reason)
        assert (assignment.params[KNOB], assignment.params["re_rank.method"]) == values[reason]
    assert seen == set(values)
    assert experiments.assign("home", {}, {}, NOW).params[KNOB] == 0.8


def test_an_experiment_overrides_a_launch() -> None:
    base = launched({"exp_1": experiment(slots=[[0, SLOTS]])}, new={"set": {KNOB: 0.8, "re_rank.fresh": True}})
    experiments = compiled(base)
    for user in range(50):
        assignment = experiments.assign("home", {"user_id": user}, {}, NOW)
        bucket = assignment.decisions[1].bucket
        assert bucket is not None
        assert assignment.params[KNOB] == bucket.values[KNOB]
        assert assignment.params["re_rank.fresh"] is True


def test_a_launch_has_a_condition_and_a_period() -> None:
    entry = {
        "set": {KNOB: 0.8},
        "when": "context.hour in [8, 9]",
        "start": "2026-03-01T00:00:00Z",
        "end": "2026-03-02T00:00:00Z",
    }
    experiments = compiled(launched(new=entry))
    begins = 1_772_323_200.0
    for now, hour, value in (
        (begins - 1, 8, 0.9),
        (begins, 8, 0.8),
        (begins, 10, 0.9),
        (begins + 86_399, 9, 0.8),
        (begins + 86_400, 9, 0.9),
    ):
        assert experiments.assign("home", {"user_id": 1}, {"hour": hour}, now).params[KNOB] == value
    assert experiments.assign("home", {"user_id": 1}, {}, begins).params[KNOB] == 0.9


def test_what_a_launch_sets_is_among_the_values_of_a_parameter() -> None:
    experiments = compiled(launched({"exp_1": experiment()}, new={"set": {KNOB: 0.8}}))
    assert experiments.values_of(KNOB) == (0.9, 0.8, 0.7)


RULES: list[tuple[dict[str, Any], tuple[str | int, ...], str]] = [
    (
        {"a": {"set": {KNOB: 0.8}}, "b": {"set": {KNOB: 0.8}}},
        ("b@1", "set", KNOB),
        "re_rank.relevance is set by the launches a@1 and b@1. Expected one launch for each parameter.",
    ),
    ({"a": {}}, ("a@1",), "the launch a@1 lacks 'set'. Expected set."),
    ({"a": {"set": {}}}, ("a@1", "set"), "the launch a@1 sets nothing. Expected at least one parameter."),
    (
        {"a": {"set": {KNOB: 2}}},
        ("a@1", "set", KNOB),
        "re_rank.relevance is the integer 2. Expected a number from 0.0 to 1.0.",
    ),
    (
        {"a": {"set": {"recall.vector_k": 200}}},
        ("a@1", "set", "recall.vector_k"),
        "recall.vector_k belongs to the layer home/recall. home/re_rank can't set it; a parameter has one layer.",
    ),
    (
        {"a": {"set": {KNOB: 0.8}, "whn": "true"}},
        ("a@1", "whn"),
        "the launch a@1 has no key 'whn'. Did you mean 'when'?",
    ),
    (
        {"a": {"set": {KNOB: 0.8}, "end": "2026-03-02"}},
        ("a@1", "end"),
        "the end of a@1 has no time zone. Expected one, such as 2026-03-02T00:00:00+00:00.",
    ),
]


@pytest.mark.parametrize(("launches", "path", "message"), RULES)
def test_a_faulty_launch_is_refused(launches: dict[str, Any], path: tuple[str | int, ...], message: str) -> None:
    assert only(problems_of(launched(**launches))) == ((*LAUNCHES, *path), message)


def test_a_launch_is_called_name_at_version() -> None:
    base = document()
    layer(base)["launches"] = {"new": {"set": {KNOB: 0.8}}}
    assert only(problems_of(base)) == (
        (*LAUNCHES, "new"),
        "a launch can't be called 'new'. Expected name@version with a whole version, such as exp_mmr@1.",
    )
