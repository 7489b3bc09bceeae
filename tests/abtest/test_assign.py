from datetime import UTC, datetime
from typing import Any

import pytest

from abtest import SLOTS, Decision, Experiments, slot
from tests.abtest.documents import KNOB, NOW, arms, compiled, document, experiment, layer

EVERYONE = [[0, SLOTS]]


def decided(experiments: Experiments, unit: Any = "u1", now: float = NOW, **context: Any) -> Decision:
    return experiments.assign("home", {"user_id": unit}, context, now).decisions[1]


def with_holdout(base: dict[str, Any], slots: int, unit: str = "user_id") -> dict[str, Any]:
    base["scenes"]["home"]["holdout"] = {"slots": slots, "unit": unit}
    return base


def test_an_enrolled_user_gets_the_bucket_and_its_values() -> None:
    experiments = compiled(document(exp_mmr_1=experiment(slots=EVERYONE)))
    assignment = experiments.assign("home", {"user_id": "u1"}, {}, NOW)
    name = "control" if (slot("home/re_rank/exp_mmr/1", "u1") or 0) < 5000 else "diverse"
    assert assignment.buckets == {"recall": "default:unallocated", "re_rank": f"exp_mmr@1/{name}"}
    assert assignment.params == {
        "recall.vector_k": 500,
        KNOB: {"control": 0.9, "diverse": 0.7}[name],
        "re_rank.method": "mmr",
        "re_rank.fresh": False,
    }
    decision = assignment.decisions[1]
    assert (decision.reason, decision.unit, decision.label) == ("hash", "u1", f"exp_mmr@1/{name}")
    assert decision.slot == slot("home/re_rank/1", "u1")
    assert decision.bucket_slot == slot("home/re_rank/exp_mmr/1", "u1")


def test_an_assignment_can_not_be_changed() -> None:
    experiments = compiled(document(exp_1=experiment(slots=EVERYONE)))
    assignment = experiments.assign("home", {"user_id": "u1"}, {}, NOW)
    with pytest.raises(TypeError):
        assignment.params[KNOB] = 0.0  # type: ignore[index]  # the point of the test
    with pytest.raises(AttributeError):
        assignment.buckets = {}  # type: ignore[misc]  # the point of the test
    assignment.buckets["re_rank"] = "mine"
    assert experiments.assign("home", {"user_id": "u1"}, {}, NOW).buckets["re_rank"] != "mine"


def test_buckets_accumulate_in_the_order_of_their_names() -> None:
    buckets = arms({"z": 1000, "a": 9000}, control="z")
    experiments = compiled(document(exp_1=experiment(slots=EVERYONE, buckets=buckets)))
    for user in range(500):
        decision = decided(experiments, user)
        assert decision.bucket is not None
        assert decision.bucket_slot is not None
        assert decision.bucket.name == ("a" if decision.bucket_slot < 9000 else "z")


def test_hundreds_of_buckets_are_served_as_well() -> None:
    weights = {f"b{number:03}": 20 for number in range(500)}
    experiments = compiled(document(exp_1=experiment(slots=EVERYONE, buckets=arms(weights, control="b000"))))
    for user in range(100):
        decision = decided(experiments, user)
        assert decision.bucket is not None
        assert decision.bucket_slot is not None
        assert decision.bucket.name == f"b{decision.bucket_slot // 20:03}"


@pytest.mark.parametrize("unit", [None, "", True, 1.0, "x" * 257, "\ud800"])
def test_what_is_no_unit_gets_the_default(unit: Any) -> None:
    experiments = compiled(with_holdout(document(exp_1=experiment(slots=EVERYONE)), SLOTS))
    units = {"user_id": unit, "device_id": "d1", "session_id": "s1", "request_id": "r1"}
    assignment = experiments.assign("home", units, {}, NOW)
    assert assignment.buckets == {"recall": "default:no_unit", "re_rank": "default:no_unit"}
    assert assignment.params[KNOB] == 0.9
    assert experiments.assign("home", {}, {}, NOW).buckets["re_rank"] == "default:no_unit"


def test_a_layer_hashes_its_own_unit() -> None:
    base = document(exp_1=experiment(slots=EVERYONE))
    layer(base)["unit"] = "session_id"
    decision = compiled(base).assign("home", {"user_id": "u1", "session_id": 7}, {}, NOW).decisions[1]
    assert (decision.unit, decision.slot) == ("7", slot("home/re_rank/1", "7"))


def test_emoji_and_nul_in_ids_are_units() -> None:
    experiments = compiled(document(exp_1=experiment(slots=EVERYONE)))
    for unit in ("💰", "a\0b", "\0", "用户💰"):
        decision = decided(experiments, unit)
        assert (decision.reason, decision.unit) == ("hash", unit)


def test_the_held_out_get_defaults_in_every_layer() -> None:
    testers = {"diverse": list(range(2000))}
    base = with_holdout(document(exp_1=experiment(slots=EVERYONE, whitelist=testers)), 200)
    experiments = compiled(base)
    held = 0
    for user in range(2000):
        assignment = experiments.assign("home", {"user_id": user}, {}, NOW)
        found = slot("home/holdout/1", user)
        assert found is not None
        if found < 200:
            held += 1
            assert set(assignment.buckets.values()) == {"default:holdout"}
            assert assignment.params == experiments.scenes["home"].defaults
        else:
            assert assignment.buckets["re_rank"] == "exp@1/diverse"
    assert 20 < held < 60


def test_a_holdout_by_another_unit_leaves_those_without_it_alone() -> None:
    base = with_holdout(document(exp_1=experiment(slots=EVERYONE)), SLOTS, unit="device_id")
    experiments = compiled(base)
    assert decided(experiments).reason == "hash"
    assert experiments.assign("home", {"user_id": "u", "device_id": 1}, {}, NOW).decisions[1].reason == "holdout"


@pytest.mark.parametrize(
    ("status", "by_slot", "by_list"),
    [
        ("running", "hash", "whitelist"),
        ("draft", "not_started", "whitelist"),
        ("paused", "paused", "paused"),
        ("ended", "ended", "ended"),
    ],
)
def test_status_decides_and_a_whitelist_beats_slots_but_not_a_pause(status: str, by_slot: str, by_list: str) -> None:
    base = document(exp_1=experiment(slots=EVERYONE, status=status, whitelist={"diverse": [42]}))
    experiments = compiled(base)
    assert decided(experiments, "u1").reason == by_slot
    decision = decided(experiments, "42")
    assert decision.reason == by_list
    assert (decision.label == "exp@1/diverse") == (by_list == "whitelist")


def test_a_whitelist_needs_neither_slot_nor_condition_and_carries_both_slots() -> None:
    entry = experiment(slots=[], when="context.hour == 3", whitelist={"diverse": ["u42"]})
    decision = decided(compiled(document(exp_1=entry)), "u42")
    assert decision.label == "exp@1/diverse"
    assert decision.slot == slot("home/re_rank/1", "u42")
    assert decision.bucket_slot == slot("home/re_rank/exp/1", "u42")


def test_start_is_included_and_end_is_not() -> None:
    entry = experiment(
        slots=EVERYONE,
        start="2026-03-01T09:00:00+08:00",
        end=datetime(2026, 3, 2, tzinfo=UTC),
        whitelist={"diverse": ["u42"]},
    )
    experiments = compiled(document(exp_1=entry))
    start = datetime(2026, 3, 1, 1, tzinfo=UTC).timestamp()
    end = datetime(2026, 3, 2, tzinfo=UTC).timestamp()
    found = [decided(experiments, now=now).reason for now in (start - 0.001, start, end - 0.001, end)]
    assert found == ["not_started", "hash", "hash", "ended"]
    assert [decided(experiments, "u42", now=now).reason for now in (start - 1, end)] == ["whitelist", "ended"]


@pytest.mark.parametrize(
    ("when", "context", "enters"),
    [
        ("context.app_version >= '3.0'", {"app_version": "3.10.0"}, True),
        ("context.app_version >= '3.9'", {"app_version": "3.10.0"}, True),
        ("context.app_version >= '3.0'", {"app_version": "2.9"}, False),
        ("context.app_version >= '3.0'", {"app_version": "newest"}, False),
        ("context.app_version >= '3.0'", {}, False),
        ("context.app_version >= '3.0'", {"app_version": 4}, False),
        ("context.region in ['north', 'south']", {"region": "south"}, True),
        ("context.region in ['north', 'south']", {"region": None}, False),
        ("context.region == 'north'", {"region": "\ud800"}, False),
        ("context.hour >= 9 and context.hour < 18", {"hour": 9}, True),
        ("context.hour >= 9 and context.hour < 18", {"hour": True}, False),
        ("context.hour >= 9", {"hour": 2**70}, True),
        ("context.share > 0.5", {"share": 1}, True),
        ("context.share > 0.5", {"share": float("nan")}, False),
        ("context.share > 0.5", {"share": 10**400}, False),
        ("context.paid", {"paid": True}, True),
        ("context.paid", {"paid": 1}, False),
        ("context.paid", {}, False),
        ("missing(context.region)", {}, True),
    ],
)
def test_conditions_over_the_context(when: str, context: dict[str, Any], enters: bool) -> None:
    experiments = compiled(document(exp_1=experiment(slots=EVERYONE, when=when)))
    assert decided(experiments, **context).reason == ("hash" if enters else "condition")


@pytest.mark.parametrize(
    ("when", "now", "enters"),
    [
        ("time.hour >= 17 and time.hour < 22", "2026-12-05T16:59:59+00:00", False),
        ("time.hour >= 17 and time.hour < 22", "2026-12-05T17:00:00+00:00", True),
        ("time.hour >= 17 and time.hour < 22", "2026-12-05T21:59:59+00:00", True),
        ("time.hour >= 17 and time.hour < 22", "2026-12-05T22:00:00+00:00", False),
        ("time.hour == 16", "2026-12-05T17:30:00+01:00", True),
        ("time.weekday in [5, 6]", "2026-12-04T23:59:59+00:00", False),
        ("time.weekday in [5, 6]", "2026-12-05T00:00:00+00:00", True),
        ("time.weekday == 6 and context.region == 'north'", "2026-12-06T12:00:00+00:00", True),
        ("time.weekday == 0 and time.hour == 0", "1970-01-05T00:30:00+00:00", True),
    ],
)
def test_conditions_over_the_time_of_day(when: str, now: str, enters: bool) -> None:
    experiments = compiled(document(exp_1=experiment(slots=EVERYONE, when=when)))
    at = datetime.fromisoformat(now).timestamp()
    assignment = experiments.assign("home", {"user_id": "u"}, {"region": "north"}, at)
    [decision] = [one for one in assignment.decisions if one.layer.name == "re_rank"]
    assert decision.reason == ("hash" if enters else "condition")


def test_values_of_names_all_that_a_step_could_be_asked_for() -> None:
    one = experiment(buckets=arms({"a": 5000, "b": 5000}, "a"))
    two = experiment(status="draft", slots=[[5000, 6000]], buckets=arms({"c": 4000, "d": 3000, "e": 3000}, "c"))
    experiments = compiled(document(exp_1=one, exp_2=two))
    assert experiments.values_of(KNOB) == (0.9, 0.0, 0.5, 0.333, 0.667)
    assert experiments.values_of("recall.vector_k") == (500,)
    assert experiments.params[KNOB].type == "float"
    assert {type(value) for value in experiments.values_of(KNOB)} == {float}
    with pytest.raises(KeyError):
        experiments.values_of("unknown")


def test_an_unknown_scene_is_the_callers_mistake() -> None:
    with pytest.raises(KeyError):
        compiled(document()).assign("nowhere", {}, {}, NOW)
