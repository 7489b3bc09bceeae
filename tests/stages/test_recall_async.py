"""Channels that wait: side by side, each under its cap and the deadline; a late one has no effect."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from features.errors import StoreTimeout, StoreUnavailable
from stages.errors import StepFailed
from stages.guard import Outcome
from stages.runtime.release import LoadedRelease
from stages.scene import SceneConfig, StepConfig
from stages.types import Answer, Hits
from tests.stages.fakes import delayed, fake, hits, waiting
from tests.stages.small import Engine, item
from tests.stages.virtual import loop_time, run_virtual


@pytest.fixture
def shop(loaded: LoadedRelease) -> Engine:
    return Engine(loaded, clock=loop_time)


def scene(*channels: StepConfig, budget: float = 1.0) -> SceneConfig:
    return SceneConfig("home", budget, channels)


def asked(engine: Engine, plain: SceneConfig, user: str | None = None) -> tuple[Answer, Outcome, float]:
    """The answer, and the seconds that it took."""

    async def run() -> tuple[Answer, Outcome, float]:
        answer, outcome = await engine.ask(plain, user_id=user)
        return answer, outcome, loop_time()

    return run_virtual(run())


def items(*rows: int) -> set[str]:
    return {item(row) for row in rows}


def test_channels_wait_side_by_side(shop: Engine) -> None:
    answer, _, took = asked(shop, scene(delayed("a", 0.3, 1), delayed("b", 0.2, 2), delayed("c", 0.3, 3)))
    assert set(answer.ids) == items(1, 2, 3)
    assert took == pytest.approx(0.3)
    assert answer.degraded == []


def test_a_late_channel_is_named_and_the_others_stay(shop: Engine) -> None:
    slow = delayed("slow", 0.4, 1, cap=0.05)
    answer, outcome, took = asked(shop, scene(slow, delayed("fast", 0.02, 2)))
    assert set(answer.ids) == items(2)
    assert answer.degraded == [("recall.slow", "timeout")]
    assert took == pytest.approx(0.05)
    assert {r.name: round(r.seconds, 2) for r in outcome.records if r.reason} == {"recall.slow": 0.05}


def test_without_a_cap_half_of_what_is_left_ends_a_channel(shop: Engine) -> None:
    answer, _, took = asked(shop, scene(delayed("slow", 5.0, 1), delayed("fast", 0.1, 2), budget=1.0))
    assert set(answer.ids) == items(2)
    assert answer.degraded == [("recall.slow", "timeout")]
    assert took == pytest.approx(0.45)


def test_a_cap_longer_than_the_budget_does_not_stretch_it(shop: Engine) -> None:
    _, _, took = asked(shop, scene(delayed("slow", 5.0, 1, cap=3.0), budget=1.0))
    assert took == pytest.approx(0.9)


def test_a_late_channel_is_cancelled_and_has_no_effect_afterwards(shop: Engine) -> None:
    told: list[str] = []

    async def stubborn(view: Any) -> Hits:
        try:
            await asyncio.sleep(0.5)
        except asyncio.CancelledError:
            told.append("cancelled")
        await asyncio.sleep(0.5)
        told.append("finished all the same")
        return hits(1)

    async def run() -> tuple[Answer, Outcome, str]:
        plan = scene(waiting("slow", stubborn, cap=0.1), delayed("fast", 0.0, 2))
        answer, outcome = await shop.ask(plan, user_id=None)
        before = repr((answer, outcome))
        await asyncio.sleep(5)
        return answer, outcome, before

    answer, outcome, before = run_virtual(run())
    assert told == ["cancelled", "finished all the same"]
    assert repr((answer, outcome)) == before
    assert outcome.sealed


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError("boom"), "error"),
        (StoreTimeout("late"), "store_timeout"),
        (StoreUnavailable("down"), "store_unavailable"),
        (TimeoutError(), "timeout"),
        (asyncio.CancelledError(), "error"),
    ],
)
def test_a_failure_of_a_channel_is_named_and_the_others_stay(shop: Engine, error: BaseException, reason: str) -> None:
    async def run(view: Any) -> Hits:
        await asyncio.sleep(0.01)
        raise error

    answer, outcome, _ = asked(shop, scene(waiting("bad", run), delayed("good", 0.02, 2)))
    assert set(answer.ids) == items(2)
    assert answer.degraded == [("recall.bad", reason)]
    assert outcome.bugs == (reason == "error")


def test_what_a_channel_that_waits_returns_is_checked_too(shop: Engine) -> None:
    async def run(view: Any) -> Any:
        return [1, 2]

    answer, _, _ = asked(shop, scene(waiting("bad", run), delayed("good", 0.02, 2)))
    assert answer.degraded == [("recall.bad", "invalid_output")]


def test_a_channel_that_waits_has_asked_before_the_others_work_in_place(shop: Engine) -> None:
    order: list[str] = []

    async def remote(view: Any) -> Hits:
        order.append("asked")
        await asyncio.sleep(0.1)
        return hits(1)

    def local(view: Any) -> Hits:
        order.append("in place")
        return hits(2)

    answer, _, _ = asked(shop, scene(fake("recall", local, "local"), waiting("remote", remote)))
    assert order == ["asked", "in place"]
    assert set(answer.ids) == items(1, 2)


def test_a_request_that_fails_cancels_the_channels_that_still_wait(shop: Engine) -> None:
    ended: list[str] = []

    async def remote(view: Any) -> Hits:
        try:
            await asyncio.sleep(9)
        finally:
            ended.append("remote")
        return hits(1)

    def local(view: Any) -> Hits:
        raise ValueError("boom")

    async def run(last: StepConfig) -> None:
        with pytest.raises(StepFailed):
            await shop.ask(scene(waiting("remote", remote), last), user_id=None)
        await asyncio.sleep(0)
        assert len(asyncio.all_tasks()) == 1

    run_virtual(run(fake("recall", local, "local", on_fail="fail")))
    run_virtual(run(delayed("short", 1.0, 1, cap=0.1, on_fail="fail")))
    assert ended == ["remote", "remote"]


def test_a_cancelled_request_cancels_its_channels(shop: Engine) -> None:
    async def run() -> int:
        task = asyncio.create_task(shop.ask(scene(delayed("a", 9, 1), delayed("b", 9, 2), budget=99.0), user_id=None))
        await asyncio.sleep(0.5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0)
        return len(asyncio.all_tasks())

    assert run_virtual(run()) == 1


def test_a_channel_whose_column_could_not_be_read_does_not_start(shop: Engine) -> None:
    async def run(view: Any) -> Hits:
        raise AssertionError("it started")

    shop.outage = StoreUnavailable("down")
    channel = waiting("remote", run, reads=["user.recent_items"])
    answer, _, _ = asked(shop, scene(channel, delayed("good", 0.02, 2)), user="u1")
    assert ("recall.remote", "store_unavailable") in answer.degraded
    assert set(answer.ids) == items(2)


def test_past_the_deadline_no_channel_starts(shop: Engine) -> None:
    async def run(view: Any) -> Hits:
        raise AssertionError("it started")

    plan = replace(scene(waiting("remote", run), fake("recall", lambda view: hits(1), "local")), budget=-1.0)
    answer, outcome, _ = asked(shop, plan)
    assert answer.degraded == [("recall.remote", "deadline"), ("recall.local", "deadline")]
    assert outcome.bugs == 0


def test_a_slow_store_leaves_its_rest_of_the_time_to_the_channels(shop: Engine) -> None:
    async def slow(commands: Any) -> None:
        await asyncio.sleep(0.3)

    shop.store.before = slow
    answer, _, took = asked(shop, scene(delayed("a", 0.1, 1), delayed("b", 5.0, 2), budget=1.0), user="u1")
    assert set(answer.ids) == items(1)
    assert took == pytest.approx(0.3 + 0.5 * (0.9 - 0.3))


def test_the_store_gets_half_of_the_time_at_most(shop: Engine) -> None:
    async def bounded(commands: Any, *, timeout: float, atomic: bool = False) -> Any:
        asked.append(timeout)
        return await execute(commands, timeout=timeout, atomic=atomic)

    asked: list[float] = []
    execute = shop.store.execute
    shop.store.execute = bounded  # type: ignore[method-assign]  # the same call, noted
    run_virtual(shop.ask(scene(delayed("a", 0.1, 1), budget=1.0), user_id="u1"))
    assert asked == [pytest.approx(0.45)]
