from collections.abc import Callable
from typing import Any

import pytest

from abtest import Experiments
from tests.abtest.documents import KNOB, NOW, SCENES, arms, compiled, document, experiment, layer

EXP = ("scenes", "home", "layers", "re_rank", "experiments", "exp@1")
FIX = "Give the change a new version (@2), or set the status to ended."


def refusals(old: dict[str, Any], new: dict[str, Any]) -> list[tuple[tuple[str | int, ...], str]]:
    return [(problem.path, problem.message) for problem in compiled(new).refuses(compiled(old))]


def changed(**changes: Any) -> list[tuple[tuple[str | int, ...], str]]:
    return refusals(document(exp_1=experiment()), document(exp_1=experiment(**changes)))


def test_nothing_changed_is_fine() -> None:
    assert changed() == []


def test_slots_may_grow_into_free_ones() -> None:
    assert changed(slots=[[0, 3000], [9000, 10000]]) == []
    assert changed(slots=[[1000, 2500], [0, 1000]]) == []


def test_slots_may_not_shrink_and_the_message_counts() -> None:
    new = document(exp_1=experiment(slots=[[500, 2000]]), other_3=experiment(slots=[[0, 300]]))
    assert refusals(document(exp_1=experiment()), new) == [
        (
            (*EXP, "slots"),
            "exp@1 is running and its slots shrank: 500 of 10,000 layer slots would move users, 300 from exp@1 "
            f"to other@3, 200 from exp@1 to the defaults. {FIX} To shrink on purpose, write `freed` with the time: "
            '{"...": [[0, 500]]}.',
        )
    ]


def test_weights_are_frozen_and_the_message_says_from_where_to_where() -> None:
    old = document(exp_1=experiment(buckets=arms({"a": 3000, "b": 3000, "c": 4000}, "a")))
    new = document(exp_1=experiment(buckets=arms({"a": 4000, "b": 3000, "c": 3000}, "a")))
    assert refusals(old, new) == [
        (
            (*EXP, "buckets"),
            "exp@1 is running and its weights changed: 2000 of 10,000 bucket slots would move users, "
            f"1000 from b to a, 1000 from c to b. {FIX}",
        )
    ]


def test_a_bucket_taken_out_moves_its_users() -> None:
    old = document(exp_1=experiment(buckets=arms({"a": 5000, "b": 5000}, "a")))
    new = document(exp_1=experiment(buckets=arms({"a": 10000}, "a")))
    ((path, message),) = refusals(old, new)
    assert path == (*EXP, "buckets")
    assert message.endswith(f"5000 of 10,000 bucket slots would move users, 5000 from b to a. {FIX}")


def test_what_a_bucket_sets_and_the_control_are_frozen() -> None:
    buckets = {
        "control": {"weight": 5000, "set": {KNOB: 0.9}},
        "diverse": {"weight": 5000, "control": True, "set": {KNOB: 0.6}},
    }
    found = changed(buckets=buckets)
    assert [path for path, _ in found] == [
        (*EXP, "buckets", "control", "control"),
        (*EXP, "buckets", "diverse", "set"),
        (*EXP, "buckets", "diverse", "control"),
    ]
    assert found[1][1] == (
        "exp@1 is running and what diverse sets changed: 5000 of 10,000 bucket slots would move users, 5000 from "
        "diverse {'re_rank.relevance': 0.7} to diverse {'re_rank.relevance': 0.6}. " + FIX
    )


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("salt", "s2", "its salt changed from 'home/re_rank/exp/1' to 's2': 10000 of 10,000 bucket slots"),
        ("when", "context.hour > 3", "its condition changed from none to 'context.hour > 3': 2000 of 10,000"),
    ],
)
def test_salt_and_condition_are_frozen(field: str, value: str, said: str) -> None:
    ((path, message),) = changed(**{field: value})
    assert path == (*EXP, field)
    assert message.startswith(f"exp@1 is running and {said}")
    assert message.endswith("from any of control, diverse to any other or to the defaults. " + FIX)


@pytest.mark.parametrize(("field", "value"), [("unit", "device_id"), ("salt", "another")])
def test_unit_and_salt_of_the_layer_are_frozen_while_something_runs_in_it(field: str, value: str) -> None:
    old, new = document(exp_1=experiment()), document(exp_1=experiment())
    layer(new)[field] = value
    ((path, message),) = refusals(old, new)
    assert path == (*EXP[:4], field)
    assert f"the {field} of its layer changed from" in message
    assert "2000 of 10,000 layer slots would move users" in message
    layer(old)["experiments"].clear()
    assert refusals(old, new) == []


def test_an_experiment_may_not_run_on_in_another_layer() -> None:
    old, new = document(exp_1=experiment()), document(exp_1=experiment())
    for base, name in ((old, "re_rank"), (new, "second")):
        base["scenes"]["home"]["layers"]["second"] = {"unit": "user_id", "experiments": {}}
        base["params"][KNOB]["layer"] = f"home/{name}"
    layer(new, "second")["experiments"]["exp@1"] = layer(new)["experiments"].pop("exp@1")
    ((path, message),) = refusals(old, new)
    assert path == ("scenes", "home", "layers", "second", "experiments", "exp@1")
    assert "moved from the layer re_rank to second: 2000 of 10,000 layer slots would move users" in message


@pytest.mark.parametrize("before", ["running", "paused", "ended"])
def test_what_has_begun_is_no_draft_again(before: str) -> None:
    """Else it could be changed on the way: running, draft, running."""
    old, new = (document(exp_1=experiment(status=status)) for status in (before, "draft"))
    ((path, message),) = refusals(old, new)
    assert path == (*EXP, "status")
    states = {"running": "is running", "paused": "is paused", "ended": "has ended"}
    ways = "ended" if before == "ended" else "paused, or to ended"
    assert message == (
        f"exp@1 {states[before]} and became a draft, which may be changed. Set the status to {ways}; a new version "
        "may be a draft."
    )


def test_what_hasnt_started_may_change_once_the_time_is_known() -> None:
    start = {"start": "2027-01-01T00:00:00Z"}
    began = compiled(document(exp_1=experiment(**start)))
    for changes in (OTHER, {"status": "draft"}):
        changed_one = compiled(document(exp_1=experiment(**(start | changes))))
        assert changed_one.refuses(began, NOW) == []
        assert changed_one.refuses(began, NOW + 365 * 86_400) != []
        assert changed_one.refuses(began) != []


@pytest.mark.parametrize(
    ("text", "same"),
    [("context.hour  >3", True), ("(context.hour > 3)", False), ("context.hour > 3.0", False)],
)
def test_how_a_condition_is_laid_out_doesnt_matter(text: str, same: bool) -> None:
    old, new = (document(exp_1=experiment(when=when)) for when in ("context.hour > 3", text))
    assert (refusals(old, new) == []) is same


def test_what_stands_in_for_an_attribute_that_isnt_sent_is_frozen() -> None:
    """Changing a default moves everybody whose requests don't send it."""
    base = document(exp_1=experiment(when="context.region == 'north' and context.hour > 3"))
    before, after, unread = (
        Experiments.compile(base, {"region": "str", "hour": "int", "paid": "bool"}, SCENES, defaults)[0]
        for defaults in ({"region": "north"}, {"region": "south"}, {"region": "north", "paid": True})
    )
    assert before is not None
    assert after is not None
    assert unread is not None
    (problem,) = after.refuses(before)
    assert problem.path == (*EXP, "when")
    assert "the default of what its condition reads changed (region): 2000 of 10,000 layer slots" in problem.message
    assert unread.refuses(before) == []


def test_a_holdout_of_nobody_may_change_its_unit() -> None:
    old, new = document(exp_1=experiment()), document(exp_1=experiment())
    old["scenes"]["home"]["holdout"] = {"slots": 0, "unit": "user_id"}
    new["scenes"]["home"]["holdout"] = {"slots": 0, "unit": "device_id"}
    assert refusals(old, new) == []
    new["scenes"]["home"]["holdout"]["slots"] = 10
    ((_, message),) = refusals(old, new)
    assert "the holdout grew while experiments run: 10 of 10,000 slots" in message


OTHER: dict[str, Any] = {"slots": [[100, 200]], "salt": "x", "when": "context.hour > 3"}


@pytest.mark.parametrize(
    ("before", "after"),
    [("draft", "running"), ("draft", "ended"), ("draft", "draft"), ("running", "ended"), ("paused", "ended")],
)
def test_a_draft_and_what_ends_may_change(before: str, after: str) -> None:
    old = document(exp_1=experiment(status=before))
    assert refusals(old, document(exp_1=experiment(status=after, **OTHER))) == []


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("running", "paused", "exp@1 is running and"),
        ("paused", "running", "exp@1 is paused and"),
        ("ended", "running", "exp@1 has ended and"),
    ],
)
def test_a_pause_or_an_end_is_no_way_around_the_rule(before: str, after: str, said: str) -> None:
    old = document(exp_1=experiment(status=before))
    found = refusals(old, document(exp_1=experiment(status=after, **OTHER)))
    assert [path[6:] for path, _ in found] == [("salt",), ("when",), ("slots",)]
    assert all(message.startswith(said) for _, message in found)
    assert refusals(old, document(exp_1=experiment(status=after, slots=[[0, 2500]]))) == []


def test_a_start_may_be_put_off_only_before_it_has_come() -> None:
    soon, later = "2026-03-01T00:00:00Z", "2026-04-01T00:00:00Z"
    old, new = compiled(document(exp_1=experiment(start=soon))), compiled(document(exp_1=experiment(start=later)))
    begins = 1_772_323_200.0
    assert new.refuses(old, begins - 1) == []
    assert old.refuses(new, begins - 1) == []
    for now in (begins, None):
        (problem,) = new.refuses(old, now)
        assert problem.path == (*EXP, "start")
        assert problem.message == (
            "exp@1 is running and its start was put off: 2000 of 10,000 layer slots would move users, 2000 from their "
            f"buckets to the defaults. {FIX}"
        )
    assert new.refuses(old, begins + 90 * 86_400) == []  # both have begun


def test_time_slices_are_frozen() -> None:
    old, new = (document(exp_1=experiment(slices={"every": every})) for every in ("1h", "30m"))
    ((path, message),) = refusals(old, new)
    assert path == (*EXP, "slices")
    assert message.startswith("exp@1 is running and its time slices changed from 3600 s to 1800 s: 10000 of 10,000 ")
    assert refusals(document(exp_1=experiment()), new)[0][1].startswith(
        "exp@1 is running and its time slices changed from none to 1800 s:"
    )


def test_the_type_of_what_a_condition_reads_is_frozen() -> None:
    base = document(exp_1=experiment(when="context.region == '3'"))
    old, new = (Experiments.compile(base, {"region": kind}, SCENES)[0] for kind in ("semver", "str"))
    assert old is not None
    assert new is not None
    (problem,) = new.refuses(old)
    assert problem.path == (*EXP, "when")
    assert "an attribute that its condition reads changed its type: 2000 of 10,000" in problem.message


@pytest.mark.parametrize(
    "change",
    [
        lambda entry: entry.update(owner="another", description="new words", whitelist={"diverse": ["u42"]}),
        lambda entry: entry.update(end="2030-01-01T00:00:00Z"),
    ],
)
def test_owner_words_whitelist_and_end_are_free(change: Callable[[dict[str, Any]], None]) -> None:
    entry = experiment()
    change(entry)
    assert refusals(document(exp_1=experiment()), document(exp_1=entry)) == []


def test_a_new_version_and_a_removed_experiment_are_fine() -> None:
    new = document(exp_1=experiment(status="ended"), exp_2=experiment(slots=[[0, 500]]))
    assert refusals(document(exp_1=experiment()), new) == []
    assert refusals(document(exp_1=experiment()), document()) == []


def test_a_holdout_may_shrink_but_not_grow_while_experiments_run() -> None:
    def held(slots: int, unit: str = "user_id") -> dict[str, Any]:
        base = document(exp_1=experiment())
        base["scenes"]["home"]["holdout"] = {"slots": slots, "unit": unit}
        return base

    assert refusals(held(200), held(100)) == []
    assert refusals(held(200), document(exp_1=experiment())) == []
    where = ("scenes", "home", "holdout")
    assert refusals(held(100), held(300)) == [
        (
            (*where, "slots"),
            "the holdout grew while experiments run: 200 of 10,000 slots would move users from their buckets to "
            "the holdout. Expected at most 100.",
        )
    ]
    assert refusals(document(exp_1=experiment()), held(300))[0][0] == (*where, "slots")
    assert refusals(held(200), held(200, "device_id"))[0][0] == (*where, "unit")
