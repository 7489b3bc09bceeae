from typing import Any

import pytest

from abtest import SLOTS, Experiments
from abtest.moves import moves
from tests.abtest.documents import (
    KNOB,
    NOW,
    arms,
    compiled,
    document,
    experiment,
    k_experiment,
    layer,
    with_domains,
)


def found(old: Any, new: Any) -> dict[tuple[str, str, str], float]:
    """Share by source, target and kind, for re_rank."""
    answer = moves(compiled(old), compiled(new))
    assert all(each.scene == "home" for each in answer.moves)
    return {
        (each.source, each.target, each.kind): round(each.share, 9) for each in answer.moves if each.layer == "re_rank"
    }


def test_nothing_moves_when_nothing_changed() -> None:
    base = with_domains(document(exp_1=experiment()))
    assert moves(compiled(base), compiled(base)).as_json() == {"moves": (), "refusals": (), "warnings": ()}


def test_growth_only_enters() -> None:
    assert found(document(exp_1=experiment()), document(exp_1=experiment(slots=[[0, 3000]]))) == {
        ("default", "exp@1/control", "enter"): 0.05,
        ("default", "exp@1/diverse", "enter"): 0.05,
    }


def test_a_pause_lets_all_leave_and_a_draft_has_nobody() -> None:
    left = {("exp@1/control", "default", "leave"): 0.1, ("exp@1/diverse", "default", "leave"): 0.1}
    assert found(document(exp_1=experiment()), document(exp_1=experiment(status="paused"))) == left
    assert found(document(exp_1=experiment()), document()) == left
    assert found(document(exp_1=experiment(status="draft")), document()) == {}


def test_starts_and_ends_are_looked_at_once_the_time_is_known() -> None:
    runs, over, to_come = (
        compiled(document(exp_1=experiment(**times)))
        for times in ({}, {"end": "2026-01-01T00:00:00Z"}, {"start": "2027-01-01T00:00:00Z"})
    )
    for late in (over, to_come):
        assert {each.kind for each in moves(runs, late, NOW).moves} == {"leave"}
        assert {each.kind for each in moves(late, runs, NOW).moves} == {"enter"}
        assert moves(runs, late).moves == ()
    assert moves(over, to_come, NOW).moves == ()


def test_weights_move_between_buckets_and_are_refused() -> None:
    old = document(exp_1=experiment(buckets=arms({"a": 3000, "b": 3000, "c": 4000}, "a")))
    new = document(exp_1=experiment(buckets=arms({"a": 4000, "b": 3000, "c": 3000}, "a")))
    assert found(old, new) == {
        ("exp@1/b", "exp@1/a", "move"): 0.02,
        ("exp@1/c", "exp@1/b", "move"): 0.02,
    }
    answer = moves(compiled(old), compiled(new))
    assert list(answer.refusals) == compiled(new).refuses(compiled(old))


def test_other_values_in_the_same_bucket_are_a_move() -> None:
    new = experiment()
    new["buckets"]["diverse"]["set"] = {KNOB: 0.6}
    assert found(document(exp_1=experiment()), document(exp_1=new)) == {
        ("exp@1/diverse", "exp@1/diverse", "values"): 0.1
    }


def test_another_salt_deals_everybody_anew() -> None:
    shares = found(document(exp_1=experiment()), document(exp_1=experiment(salt="x")))
    assert shares == {
        ("exp@1/control", "exp@1/diverse", "move"): 0.05,
        ("exp@1/diverse", "exp@1/control", "move"): 0.05,
    }
    new = document(exp_1=experiment())
    layer(new)["salt"] = "y"
    assert found(document(exp_1=experiment()), new) == {
        ("exp@1/control", "default", "leave"): 0.08,
        ("exp@1/diverse", "default", "leave"): 0.08,
        ("default", "exp@1/control", "enter"): 0.08,
        ("default", "exp@1/diverse", "enter"): 0.08,
    }


def test_a_larger_holdout_takes_from_all_buckets() -> None:
    old, new = document(exp_1=experiment()), document(exp_1=experiment())
    new["scenes"]["home"]["holdout"] = {"slots": 1000, "unit": "user_id"}
    assert found(old, new) == {
        ("exp@1/control", "default", "leave"): 0.01,
        ("exp@1/diverse", "default", "leave"): 0.01,
    }


def test_domains_take_their_share() -> None:
    old = document(exp_1=experiment(slots=[[0, SLOTS]]))
    alone = experiment(domain="alone", slots=[[0, 5000]])
    new = with_domains(document(exp_1=experiment(slots=[[0, SLOTS]]), alone_1=alone))
    shares = found(old, new)
    assert shares["exp@1/control", "alone@1/control", "move"] == 0.025
    assert shares["exp@1/control", "default", "leave"] == 0.05
    assert sum(shares.values()) == pytest.approx(0.2)


def empirical(old: Experiments, new: Experiments, units: int) -> float:
    """The share of users whose bucket or values in re_rank differ."""
    moved = 0
    for user in range(units):
        before, after = (each.assign("home", {"user_id": user}, {}, NOW) for each in (old, new))
        cells = [
            (each.decisions[1].label, each.params[KNOB]) if each.decisions[1].bucket else None
            for each in (before, after)
        ]
        moved += cells[0] != cells[1]
    return moved / units


def test_the_shares_are_those_of_real_assignments() -> None:
    buckets = arms({"a": 2000, "b": 8000}, "a")
    old = document(exp_1=experiment(slots=[[0, 5000]], buckets=buckets), two_1=experiment(slots=[[5000, 8000]]))
    new = with_domains(
        document(
            exp_1=experiment(slots=[[2000, 9000]], buckets=arms({"a": 5000, "b": 5000}, "a")),
            alone_1=experiment(domain="alone"),
        )
    )
    new["scenes"]["home"]["holdout"] = {"slots": 500, "unit": "user_id"}
    layer(new, "recall")["experiments"] = {"k@1": k_experiment(slots=[[0, 100]])}
    one, two = compiled(old), compiled(new)
    expected = sum(each.share for each in moves(one, two).moves if each.layer == "re_rank")
    assert empirical(one, two, 20_000) == pytest.approx(expected, abs=0.015)


def test_scenes_and_layers_that_come_or_go_are_counted() -> None:
    base = document(exp_1=experiment())
    without = document()
    del without["scenes"]["home"]["layers"]["re_rank"]
    without["params"] = {}
    assert [each.kind for each in moves(compiled(without), compiled(base)).moves] == ["enter", "enter"]
    assert [each.kind for each in moves(compiled(base), compiled(without)).moves] == ["leave", "leave"]
