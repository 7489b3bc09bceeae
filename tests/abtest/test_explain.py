import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from abtest import SLOTS, Experiments, hashing
from tests.abtest.documents import (
    KNOB,
    NOW,
    compiled,
    document,
    experiment,
    k_experiment,
    layer,
    with_domains,
)


def everything() -> dict[str, Any]:
    """Holdout, domains, launches, a condition, slices, a whitelist, all in one."""
    base = document(
        exp_1=experiment(slots=[[0, 5000]], when="context.hour in [8, 9]", whitelist={"diverse": ["1", "2"]}),
        old_1=experiment(slots=[[5000, 6000]], status="paused", buckets=experiment()["buckets"]),
        alone_1=experiment(domain="alone", slots=[[0, 6000]], end="2027-01-01T00:00:00Z"),
    )
    base["scenes"]["home"]["holdout"] = {"slots": 1000, "unit": "user_id"}
    layer(base)["launches"] = {"new@1": {"set": {"re_rank.method": "dpp"}}, "eve@1": {
        "set": {"re_rank.fresh": True}, "when": "context.hour > 17"}}  # fmt: skip
    layer(base, "recall")["experiments"] = {"k@1": k_experiment(slots=[[0, 5000]], slices={"every": "1h"})}
    return with_domains(base)


EXPERIMENTS: Experiments = compiled(everything())


@settings(max_examples=150, deadline=None)
@given(
    st.integers(0, 400) | st.none() | st.text(max_size=3),
    st.sampled_from([{}, {"hour": 8}, {"hour": 20}]),
    st.sampled_from([NOW, NOW + 3600, NOW + 400 * 86_400]),
    st.sampled_from([{}, {}, {"re_rank": "alone@1/control"}, {"recall": "default"}]),
)
def test_the_explanation_is_of_what_is_assigned(
    user: int | str | None, context: dict[str, Any], now: float, forced: dict[str, str]
) -> None:
    units = {"user_id": user}
    assignment = EXPERIMENTS.assign("home", units, context, now, forced)
    why = EXPERIMENTS.explain("home", units, context, now, forced)
    assert [(each.layer, each.label, each.reason, each.forced) for each in why.layers] == [
        (each.layer.name, each.label, each.reason, each.forced) for each in assignment.decisions
    ]
    assert {each.name: each.value for each in why.params} == assignment.params
    for each, decision in zip(why.layers, assignment.decisions, strict=True):
        if decision.forced:
            continue
        if decision.slot is not None and each.place is not None:
            assert each.place.slot == decision.slot
        if decision.bucket_slot is not None and each.split is not None:
            assert (each.split.slot, each.split.unit) == (decision.bucket_slot, decision.unit)
        for hashed in (each.place, each.split):
            if hashed is not None:
                assert hashed.hash == hashing.murmur3_32(f"{hashed.salt}:{hashed.unit}".encode(), 0)
                assert hashed.slot == hashed.hash * SLOTS >> 32
    assert json.loads(json.dumps(why.as_json()))["scene"] == "home"


def why(user: object, **context: Any) -> Any:
    return EXPERIMENTS.explain("home", {"user_id": user}, context, NOW).as_json()  # type: ignore[dict-item]  # as above


def first(reason: str, **context: Any) -> Any:
    """The explanation of the first user whose re_rank was decided so."""
    found = (why(user, **context) for user in range(2000))
    return next(each for each in found if each["layers"][1]["reason"] == reason)


def test_a_condition_that_does_not_hold_is_shown() -> None:
    layer = first("condition", hour=12)["layers"][1]
    assert (layer["experiment"], layer["when"], layer["meets"]) == ("exp@1", "context.hour in [8, 9]", False)
    assert layer["holder"] == "exp@1"
    assert layer["split"]["salt"] == "home/re_rank/exp/1"
    assert layer["bucket"] is None


def test_values_name_their_source() -> None:
    found = first("hash", hour=20)
    sources = {each["name"]: (each["source"], each["by"]) for each in found["params"]}
    assert sources["re_rank.method"] == ("launch", "new@1")
    assert sources["re_rank.fresh"] == ("launch", "eve@1")
    assert sources[KNOB] == ("experiment", found["layers"][1]["label"])
    held = first("holdout", hour=20)
    assert {each["source"] for each in held["params"]} == {"default"}
    assert held["holdout"]["held"]
    assert held["holdout"]["hashed"]["slot"] < 1000


def test_the_domain_is_shown() -> None:
    found = first("hash", hour=12)
    assert found["domain"]["name"] == "alone"
    assert found["domain"]["exclusive"]
    assert found["layers"][1]["place"]["salt"] == "home/domains/alone/1"
    assert found["layers"][0]["reason"] == "other_domain"
    tester = why("1")
    assert (tester["domain"]["name"], tester["domain"]["whitelisted"]) == ("shared", True)
    assert tester["layers"][1]["reason"] == "whitelist"


def test_a_time_slice_is_shown_as_the_unit() -> None:
    found = (why(user) for user in range(2000))
    layer = next(each["layers"][0] for each in found if each["layers"][0]["reason"] == "hash")
    assert layer["unit_type"] == layer["split"]["unit_type"] == "slice"
    assert layer["split"]["unit"] == str(int(NOW // 3600))


def test_no_unit_has_no_hashes() -> None:
    found = why(None)
    assert found["holdout"] == {"hashed": None, "slots": 1000, "held": False}
    assert found["domain"]["hashed"] is None
    assert [(each["reason"], each["place"], each["split"]) for each in found["layers"]] == [("no_unit", None, None)] * 2
