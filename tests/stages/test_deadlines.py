"""Deadlines: what doesn't fit isn't started, what runs too long is given up, and what was given up counts and ends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from stages.abandoned import Abandoned
from stages.guard import Outcome
from stages.runtime.release import LoadedRelease
from stages.scene import SceneConfig, StepConfig
from stages.types import Answer, Candidates, View
from stages.usual import PROBE
from tests.stages.fakes import fake, hits, waiting
from tests.stages.small import Engine, item
from tests.stages.test_pool import Costly
from tests.stages.virtual import loop_time, run_virtual


class Clock:
    """A clock that a fake step moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def engine(loaded: LoadedRelease, clock: Clock) -> Engine:
    return Engine(loaded, clock=clock)


def ranked(run: Callable[[View, Candidates], Any], budget: float = 1.0, **common: Any) -> SceneConfig:
    return SceneConfig(
        "home", budget, (fake("recall", lambda _: hits(1, 2, 3), "found"),), rank=fake("rank", run, "model", **common)
    )


def backwards(view: View, batch: Candidates) -> Any:
    return batch.rows.astype(np.float32)


def asked(engine: Engine, scene: SceneConfig, **request: Any) -> Answer:
    return engine.run(scene, user_id=None, **request)[0]


def test_a_step_whose_usual_time_does_not_fit_is_not_started(engine: Engine) -> None:
    plan = ranked(backwards, budget=0.1)
    engine.pipeline.usual.saw("rank.model", 0.004)
    assert asked(engine, plan).degraded == []
    for _ in range(50):
        engine.pipeline.usual.saw("rank.model", 0.2)
    answer = asked(engine, plan)
    assert answer.degraded == [("rank.model", "deadline")]
    assert answer.ids == [item(1), item(2), item(3)]


def test_a_step_that_became_quick_again_is_found_out(engine: Engine) -> None:
    plan = ranked(backwards, budget=0.1)
    for _ in range(10):
        engine.pipeline.usual.saw("rank.model", 0.12)
    degraded = [bool(asked(engine, plan).degraded) for _ in range(6 * PROBE)]
    assert degraded[0]
    assert not any(degraded[-PROBE:])


def test_the_time_that_a_stage_leaves_serves_the_next(engine: Engine, clock: Clock) -> None:
    for _ in range(50):
        engine.pipeline.usual.saw("rank.model", 0.5)

    def slow(view: View) -> Any:
        clock.now += taken
        return hits(1, 2, 3)

    plan = replace(ranked(backwards), recall=(fake("recall", slow, "found"),))
    taken = 0.3
    assert asked(engine, plan).degraded == []
    taken = 0.5
    assert asked(engine, plan).degraded == [("rank.model", "deadline")]


def test_a_cap_is_a_cap_for_a_step_that_computes(engine: Engine) -> None:
    plan = ranked(backwards, cap=0.01)
    for _ in range(50):
        engine.pipeline.usual.saw("rank.model", 0.05)
    assert asked(engine, plan).degraded == [("rank.model", "timeout")]


def test_a_tenth_of_the_time_is_held_back_for_the_fill(engine: Engine, clock: Clock) -> None:
    def slow(view: View) -> Any:
        clock.now += 0.95
        return hits(1, 2, 3)

    plan = replace(ranked(backwards), recall=(fake("recall", slow, "found"),))
    assert asked(engine, plan).degraded == [("rank.model", "deadline")]


def test_without_time_for_the_store_the_user_is_not_read_and_the_reason_is_the_deadline(engine: Engine) -> None:
    plan = replace(ranked(backwards), budget=-1.0)
    answer, _ = engine.run(plan, user_id="u1")
    assert ("features.user", "deadline") in answer.degraded


# What hangs on the pool: real threads, held by an event.


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def hanging(gate: threading.Event) -> StepConfig:
    def run(view: View, batch: Candidates) -> Any:
        gate.wait(30)
        return backwards(view, batch)

    scorer = type("Hanging", (Costly,), {"score": lambda self, view, batch: run(view, batch)})
    return StepConfig("rank", "rank.costly", scorer, {"cost_ms": 50.0})


def pooled(gate: threading.Event, budget: float) -> SceneConfig:
    return SceneConfig("home", budget, (fake("recall", lambda _: hits(1, 2, 3), "found"),), rank=hanging(gate))


def test_a_job_that_hangs_is_given_up_at_the_deadline_and_changes_nothing_when_it_ends(
    loaded: LoadedRelease, gate: threading.Event
) -> None:
    engine = Engine(loaded)
    scene = pooled(gate, 0.2)
    for _ in range(60):
        engine.pipeline.usual.saw("rank.costly", 0.01)

    async def run() -> None:
        answer, outcome = await engine.ask(scene, user_id=None)
        before = repr((answer, outcome))
        assert answer.degraded == [("rank.costly", "timeout")]
        assert answer.ids == [item(1), item(2), item(3)]
        abandoned = engine.pipeline.abandoned
        assert (len(abandoned), abandoned.jobs) == (1, 1)
        assert abandoned.longest >= 0.0
        # the pool's only thread is held: nothing queues behind it, nothing waits for it
        other, _ = await engine.ask(scene, user_id=None)
        assert other.degraded == [("rank.costly", "timeout")]
        assert abandoned.jobs == 1
        gate.set()
        while abandoned:  # noqa: ASYNC110 - a thread's end can only be asked for
            await asyncio.sleep(0.001)
        assert repr((answer, outcome)) == before
        again, _ = await engine.ask(scene, user_id=None)
        assert again.ids == [item(3), item(2), item(1)]

    asyncio.run(run())


def test_a_job_that_did_not_start_is_cancelled_and_not_counted() -> None:
    async def run() -> None:
        gate, abandoned, ran = threading.Event(), Abandoned(), []
        with ThreadPoolExecutor(1) as pool:
            first, second = pool.submit(gate.wait, 30), pool.submit(ran.append, 1)
            abandoned.job(second)
            abandoned.job(first)
            assert len(abandoned) == 1
            gate.set()
        await asyncio.sleep(0)
        assert (len(abandoned), ran) == (0, [])

    asyncio.run(run())


def test_a_cancelled_channel_counts_until_it_has_ended(loaded: LoadedRelease) -> None:
    engine = Engine(loaded, clock=loop_time)

    async def stubborn(view: View) -> Any:
        try:
            await asyncio.sleep(5)
        except asyncio.CancelledError:
            await asyncio.sleep(2)
            raise ValueError("nobody hears this") from None

    async def run() -> tuple[Answer, Outcome]:
        scene = SceneConfig("home", 1.0, (waiting("slow", stubborn, cap=0.1),))
        answer = await engine.ask(scene, user_id=None)
        assert len(engine.pipeline.abandoned) == 1
        await asyncio.sleep(3)
        assert len(engine.pipeline.abandoned) == 0
        return answer

    assert run_virtual(run())[0].degraded == [("recall.slow", "timeout")]
