"""Every role under every policy and every kind of failure: what the answer holds, and what it says about it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from features.errors import StoreTimeout
from stages.errors import StepFailed
from stages.guard import POLICIES, REASONS
from stages.scene import SceneConfig
from tests.stages.fakes import fake, hits, waiting
from tests.stages.small import Engine, item

ROWS = list(range(1, 31))
Run = Callable[..., Any]


def raising(error: Exception) -> Run:
    def run(*_: Any) -> Any:
        raise error

    return run


def of_length(extra: int, value: Any) -> Run:
    return lambda view, batch: np.full(len(batch) + extra, value)


def repeated(view: Any, batch: Any) -> Any:
    return np.zeros(len(batch), np.intp)


COMMON: dict[str, tuple[Run, str]] = {
    "a bug": (raising(ZeroDivisionError("boom")), "error"),
    "the store": (raising(StoreTimeout("late")), "store_timeout"),
    "nothing": (lambda *_: None, "invalid_output"),
}
FAILURES: dict[str, dict[str, tuple[Run, str]]] = {
    "recall": {
        **COMMON,
        "wrong length": (lambda view: replace(hits(1, 2), scores=np.ones(3, np.float32)), "invalid_output"),
        "a row that is not there": (lambda view: hits(1, 400), "invalid_output"),
    },
    "filter": {
        **COMMON,
        "wrong length": (of_length(1, True), "invalid_output"),
        "NaN": (of_length(0, np.nan), "invalid_output"),
    },
    "pre_rank": {
        **COMMON,
        "wrong length": (of_length(-1, 1.0), "invalid_output"),
        "NaN": (of_length(0, np.nan), "invalid_output"),
    },
    "rank": {
        **COMMON,
        "wrong length": (of_length(1, 1.0), "invalid_output"),
        "NaN": (of_length(0, np.nan), "invalid_output"),
    },
    "re_rank": {
        **COMMON,
        "a position twice": (repeated, "invalid_output"),
        "a position that is not there": (of_length(0, 10**6), "invalid_output"),
        "NaN": (of_length(0, np.nan), "invalid_output"),
    },
}
CASES = [(role, policy, kind) for role in FAILURES for policy in POLICIES[role] for kind in FAILURES[role]]


def scene_with(role: str, run: Run, policy: str | None) -> SceneConfig:
    """A channel that finds ROWS, and one step of `role` under test."""
    scene = SceneConfig("home", 5.0, (fake("recall", lambda view: hits(*ROWS), "good"),))
    step = fake(role, run, on_fail=policy)
    match role:
        case "recall":
            return replace(scene, recall=(*scene.recall, step))
        case "filter":
            return replace(scene, filters=(step,))
        case "re_rank":
            return replace(scene, re_rank=(step,))
        case _:
            return replace(scene, **{role: step})


@pytest.mark.parametrize(("role", "policy", "kind"), CASES)
def test_a_failing_step_is_answered_by_its_policy(
    engine: Engine, caplog: pytest.LogCaptureFixture, role: str, policy: str, kind: str
) -> None:
    run, reason = FAILURES[role][kind]
    scene = scene_with(role, run, policy)
    name = "filters.fake" if role == "filter" else f"{role}.fake"
    with caplog.at_level(logging.INFO, "recserve.stages"):
        if policy == "fail":
            with pytest.raises(StepFailed) as failed:
                engine.run(scene, user_id=None)
            assert (failed.value.step, failed.value.reason) == (name, reason)
        else:
            answer, outcome = engine.run(scene, user_id=None)
            wanted = [] if policy == "closed" else [item(row) for row in ROWS[:20]]
            assert answer.ids == wanted
            assert answer.degraded == [(name, reason)]
            assert outcome.bugs == (reason != "store_timeout")
            assert [r.reason for r in outcome.records if r.name == name] == [reason]
    assert reason in REASONS
    logged = [record.exc_info is not None for record in caplog.records]
    assert logged == ([] if reason == "store_timeout" else [True])


@pytest.mark.parametrize("role", FAILURES)
def test_the_first_policy_of_a_role_is_its_default(engine: Engine, role: str) -> None:
    run, reason = FAILURES[role]["the store"]
    given, named = (engine.run(scene_with(role, run, policy), user_id=None)[0] for policy in (None, POLICIES[role][0]))
    assert (given.ids, given.degraded) == (named.ids, named.degraded)
    assert given.degraded[0][1] == reason


@pytest.mark.parametrize("policy", POLICIES["recall"])
def test_a_channel_that_waits_fails_like_one_that_does_not(engine: Engine, policy: str) -> None:
    async def run(view: Any) -> Any:
        raise StoreTimeout("late")

    good = fake("recall", lambda view: hits(*ROWS), "good")
    scene = SceneConfig("home", 5.0, (good, waiting("slow", run, on_fail=policy)))
    if policy == "fail":
        with pytest.raises(StepFailed, match=r"recall\.slow: store_timeout"):
            engine.run(scene, user_id=None)
    else:
        answer, _ = engine.run(scene, user_id=None)
        assert answer.degraded == [("recall.slow", "store_timeout")]
        assert len(answer.ids) == 20


def test_a_step_that_fails_still_keeps_no_more_than_it_may(engine: Engine) -> None:
    scene = scene_with("rank", raising(StoreTimeout("late")), "keep_order")
    assert scene.rank is not None
    answer, _ = engine.run(replace(scene, rank=replace(scene.rank, keep=5)), user_id=None)
    assert answer.ids == [item(row) for row in ROWS[:5]]


def test_an_extension_that_breaks_everywhere_still_gets_the_fallback_list(engine: Engine) -> None:
    boom = raising(RuntimeError("boom"))
    scene = SceneConfig(
        "home",
        5.0,
        (fake("recall", boom),),
        filters=(fake("filter", boom, on_fail="open"),),
        pre_rank=fake("pre_rank", boom),
        rank=fake("rank", boom),
        re_rank=(fake("re_rank", boom),),
        fallback="popular",
    )
    answer, outcome = engine.run(scene, user_id=None)
    assert answer.ids == [item(row) for row in range(20)]
    # nothing was recalled, so ordering steps had nothing to do
    assert answer.degraded == [("recall.fake", "error"), ("filters.fake", "error")]
    assert outcome.bugs == 2


def test_a_closed_filter_that_fails_lets_nothing_of_the_fallback_pass(engine: Engine) -> None:
    scene = replace(scene_with("filter", raising(StoreTimeout("late")), "closed"), fallback="popular")
    answer, _ = engine.run(scene, user_id=None)
    assert answer.ids == []
    assert answer.short == "catalogue_exhausted"
