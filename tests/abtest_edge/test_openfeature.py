import asyncio
import doctest
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from openfeature import api
from openfeature.client import OpenFeatureClient
from openfeature.evaluation_context import EvaluationContext
from openfeature.exception import ErrorCode
from openfeature.flag_evaluation import FlagEvaluationDetails, Reason

import abtest.openfeature
from abtest import Assignment, ExposureLog
from abtest.openfeature import ExperimentsProvider
from tests.abtest.documents import KNOB, NOW, compiled, document, layer
from tests.abtest_edge.logs import for_everybody, rows

FRESH = "re_rank.fresh"
METHOD = "re_rank.method"
COUNT = "recall.vector_k"
Seen = list[tuple[Assignment, frozenset[str], str, str, float, str]]


def everyone(**changes: Any) -> dict[str, Any]:
    return document(exp_mmr_3=for_everybody(**changes))


@pytest.fixture(autouse=True)
def no_provider_stays() -> Iterator[None]:
    yield
    api.shutdown()
    api.clear_providers()


def client(source: dict[str, Any], **settings: Any) -> OpenFeatureClient:
    experiments = compiled(source)
    api.set_provider(ExperimentsProvider(lambda: (experiments, "c0ffee"), lambda: NOW, **settings), domain="test")
    return api.get_client("test")


def user(key: str | None = "u1", **attributes: Any) -> EvaluationContext:
    return EvaluationContext(key, attributes)


def test_a_flag_has_the_value_variant_and_reason_of_the_assignment() -> None:
    flags = client(everyone())
    experiments = compiled(everyone())
    for number in range(50):
        assignment = experiments.assign("home", {"user_id": number}, {}, NOW)
        details = flags.get_float_details(KNOB, 0.1, user(str(number)))
        decision = assignment.decisions[1]
        assert (details.value, details.variant) == (assignment.params[KNOB], assignment.buckets["re_rank"])
        assert (details.reason, details.error_code) == (Reason.SPLIT, None)
        assert details.flag_metadata == {
            "config": "c0ffee",
            "scene": "home",
            "layer": "re_rank",
            "reason": "hash",
            "experiment": "exp_mmr",
            "version": 3,
            "layer_slot": decision.slot,
            "bucket_slot": decision.bucket_slot,
        }


@pytest.mark.parametrize(
    ("changes", "context", "reason", "ours"),
    [
        ({"whitelist": {"diverse": ["u1"]}}, user(), Reason.TARGETING_MATCH, "whitelist"),
        ({"status": "paused"}, user(), Reason.DISABLED, "paused"),
        ({"status": "draft"}, user(), Reason.DEFAULT, "not_started"),
        ({"slots": []}, user(), Reason.DEFAULT, "unallocated"),
        ({"when": "context.hour > 3"}, user(hour=2), Reason.DEFAULT, "condition"),
        ({"when": "context.hour > 3"}, user(hour=4), Reason.SPLIT, "hash"),
        ({}, user(None), Reason.DEFAULT, "no_unit"),
        ({}, user(None, device_id="u1"), Reason.DEFAULT, "no_unit"),
        ({}, user(None, user_id="u1"), Reason.SPLIT, "hash"),
        ({}, user(None, user_id=True), Reason.DEFAULT, "no_unit"),
        ({}, None, Reason.DEFAULT, "no_unit"),
    ],
)
def test_reasons_are_those_of_the_specification_beside_ours(
    changes: dict[str, Any], context: EvaluationContext | None, reason: Reason, ours: str
) -> None:
    details = client(everyone(**changes)).get_float_details(KNOB, 0.1, context)
    assert (details.reason, details.flag_metadata["reason"]) == (reason, ours)
    enrolled = reason in (Reason.SPLIT, Reason.TARGETING_MATCH)
    assert details.variant == (details.variant if enrolled else None)
    assert details.value == (details.value if enrolled else 0.9)


def test_the_holdout_gets_the_declared_default() -> None:
    source = everyone()
    source["scenes"]["home"]["holdout"] = {"slots": 10000, "unit": "user_id"}
    details = client(source).get_float_details(KNOB, 0.1, user())
    assert (details.value, details.reason, details.variant) == (0.9, Reason.DEFAULT, None)
    assert details.flag_metadata["reason"] == "holdout"


def test_a_launch_is_a_rule_that_experiments_override() -> None:
    source = everyone(slots=[[0, 5000]])
    layer(source)["launches"] = {"fresh@1": {"when": "context.hour > 3", "set": {KNOB: 0.25, METHOD: "dpp"}}}
    flags = client(source)
    for hour, method, reason in ((9, "dpp", Reason.TARGETING_MATCH), (1, "mmr", Reason.DEFAULT)):
        details = flags.get_string_details(METHOD, "?", user(hour=hour))
        assert (details.value, details.reason, details.variant) == (method, reason, None)
    found = {(d.reason, d.variant is None, d.value == 0.25) for d in knobs(flags)}
    assert found == {(Reason.SPLIT, False, False), (Reason.TARGETING_MATCH, True, True)}


def knobs(flags: OpenFeatureClient) -> list[FlagEvaluationDetails[float]]:
    return [flags.get_float_details(KNOB, 0.1, user(str(number), hour=9)) for number in range(60)]


def test_a_flag_that_the_experiment_of_its_layer_does_not_set_is_no_part_of_it() -> None:
    seen: Seen = []
    details = client(everyone(), exposed=lambda *told: seen.append(told)).get_string_details(METHOD, "?", user())
    assert (details.value, details.reason, details.variant, seen) == ("mmr", Reason.DEFAULT, None, [])


def test_the_targeting_key_is_the_unit_that_it_was_said_to_be_and_attributes_go_before_it() -> None:
    source = everyone()
    layer(source)["unit"] = "device_id"
    flags = client(source, targeting="device_id")
    slots = [
        flags.get_float_details(KNOB, 0.1, context).flag_metadata["layer_slot"]
        for context in (user("d1"), user(None, device_id="d1"), user("other", device_id="d1"))
    ]
    assert len(set(slots)) == 1
    with pytest.raises(ValueError, match="not 'email'"):
        client(source, targeting="email")


def test_each_type_is_read_by_its_own_call_and_an_integer_as_a_float_too() -> None:
    flags = client(everyone())
    assert flags.get_boolean_value(FRESH, True, user()) is False
    assert flags.get_string_value(METHOD, "?", user()) == "mmr"
    assert flags.get_integer_value(COUNT, 1, user()) == 500
    number = flags.get_float_value(COUNT, 1.0, user())
    assert (number, type(number)) == (500.0, float)
    values = flags.get_object_value("home/re_rank", {}, user())
    assert values == {KNOB: flags.get_float_value(KNOB, 0.1, user()), METHOD: "mmr", FRESH: False}


@pytest.mark.parametrize(
    ("ask", "default", "message"),
    [
        (lambda flags: flags.get_boolean_details(COUNT, True, user()), True, "recall.vector_k is int, not bool"),
        (lambda flags: flags.get_integer_details(FRESH, 7, user()), 7, "re_rank.fresh is bool, not int"),
        (lambda flags: flags.get_float_details(FRESH, 0.5, user()), 0.5, "re_rank.fresh is bool, not float"),
        (lambda flags: flags.get_integer_details(KNOB, 7, user()), 7, "re_rank.relevance is float, not int"),
        (lambda flags: flags.get_string_details(KNOB, "x", user()), "x", "re_rank.relevance is float, not str"),
        (lambda flags: flags.get_object_details(KNOB, {}, user()), {}, "re_rank.relevance is float, not object"),
        (lambda flags: flags.get_string_details("home/re_rank", "x", user()), "x", "home/re_rank is object"),
    ],
)
def test_another_type_is_a_mismatch_and_gives_the_callers_default(
    ask: Callable[[OpenFeatureClient], Any], default: object, message: str
) -> None:
    seen: Seen = []
    details = ask(client(everyone(), exposed=lambda *told: seen.append(told)))
    assert (details.error_code, details.reason) == (ErrorCode.TYPE_MISMATCH, Reason.ERROR)
    assert (details.value, details.error_message, seen) == (default, message, [])


@pytest.mark.parametrize("key", ["re_rank.relevence", "home/rerank", "home", ""])
def test_an_undeclared_flag_is_not_found(key: str) -> None:
    flags = client(everyone())
    for details in (flags.get_float_details(key, 0.3, user()), flags.get_object_details(key, {"a": 1}, user())):
        assert (details.error_code, details.reason) == (ErrorCode.FLAG_NOT_FOUND, Reason.ERROR)
        assert details.error_message == f"there is no parameter {key!r}"
    assert flags.get_float_value(key, 0.3, user()) == 0.3


def test_exposures_go_to_the_log_with_the_request_and_only_for_the_enrolled(tmp_path: Path) -> None:
    log = ExposureLog(tmp_path / "exposures.w0.jsonl", 100, lambda: NOW)
    source = everyone(when="context.hour > 3")
    flags = client(source, exposed=log.record)
    details = flags.get_float_details(KNOB, 0.1, user("u7", request_id="r1", hour=9))
    flags.get_float_details(KNOB, 0.1, user("u8", request_id="r2", hour=1))
    flags.get_integer_details(COUNT, 1, user("u7", request_id="r3", hour=9))
    flags.get_object_details("home/re_rank", {}, user("u7", request_id="r4", hour=9))
    log.close()
    found = rows(tmp_path, "jsonl")
    assert [(row["request_id"], row["unit"], row["time"], row["config"]) for row in found] == [
        ("r1", "u7", NOW, "c0ffee"),
        ("r4", "u7", NOW, "c0ffee"),
    ]
    assert f"{found[0]['experiment']}@{found[0]['version']}/{found[0]['bucket']}" == details.variant


def test_a_reload_is_seen_by_the_next_evaluation() -> None:
    current = compiled(everyone(status="paused"))
    api.set_provider(ExperimentsProvider(lambda: (current, "c0ffee"), lambda: NOW), domain="test")
    flags = api.get_client("test")
    assert flags.get_float_details(KNOB, 0.1, user()).reason == Reason.DISABLED
    current = compiled(everyone())
    assert flags.get_float_details(KNOB, 0.1, user()).reason == Reason.SPLIT


def test_the_asynchronous_client_gets_the_same() -> None:
    flags = client(everyone())
    assert asyncio.run(flags.get_float_details_async(KNOB, 0.1, user())) == flags.get_float_details(KNOB, 0.1, user())


def test_the_example_of_the_module_holds() -> None:
    assert doctest.testmod(abtest.openfeature).failed == 0
    assert api.get_client("shop").get_metadata().domain == "shop"
    assert (
        ExperimentsProvider(lambda: (compiled(everyone()), "c0ffee"), lambda: NOW).get_metadata().name
        == "recserve abtest"
    )
