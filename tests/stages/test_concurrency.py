"""A hundred thousand requests with random delays, failures, levels and cancellations: an answer stays as it is."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import multiprocessing
import pickle
import random
import zlib
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from features.errors import StoreTimeout
from stages.guard import REASONS, Outcome
from stages.runtime.release import LoadedRelease
from stages.scene import LadderConfig, Param, SceneConfig, StepConfig
from stages.types import Answer, Hits, Quality, View
from tests.stages.fakes import fake, hits, waiting
from tests.stages.small import Engine, live_stock, load, step
from tests.stages.virtual import loop_time, run_virtual

REQUESTS, AT_ONCE, BUDGET = 100_000, 1_000, 0.1
SIZE = 5
PROCESSES = 2
PARAMS = {"a.reads": (), "b.reads": (), "price": 99.0, "relevance": 0.5}


@dataclass
class World:
    """Fakes that draw their fate from the request's id; `ran` remembers which component answered which request."""

    ran: set[tuple[str, str]] = field(default_factory=set)

    def chance(self, view: View, name: str) -> random.Random:
        return random.Random(zlib.crc32(f"{view.request.request_id}/{name}".encode()))

    def channel(self, name: str, *rows: int) -> StepConfig:
        async def run(view: View) -> Hits:
            fate = self.chance(view, name)
            try:
                await asyncio.sleep(fate.uniform(0, 0.12))
            except asyncio.CancelledError:
                if fate.random() < 0.5:
                    raise
                await asyncio.sleep(fate.uniform(0, 0.5))  # works on although nobody waits any more
            if fate.random() < 0.1:
                raise StoreTimeout("late")
            self.ran.add((view.request.request_id, f"recall.{name}"))
            return hits(*rows)

        made = waiting(name, run, cap=0.08)
        return StepConfig(
            made.role, made.name, made.component, {**made.settings, "reads": Param(f"{name}.reads")}, 0.08
        )

    def keep(self, view: View, batch: Any) -> Any:
        if self.chance(view, "filter").random() < 0.1:
            raise StoreTimeout("late")
        return batch.rows % 3 != 0

    def scene(self) -> SceneConfig:
        cheap = step("filter", "filters.cheap", "expression", {"condition": "item.price < $price"})
        mmr = {"similarity": "item.embedding", "relevance": Param("relevance")}
        return SceneConfig(
            "home",
            BUDGET,
            (
                self.channel("a", *range(1, 12)),
                self.channel("b", *range(8, 20)),
                fake("recall", lambda _: hits(7), "c"),
            ),
            filters=(fake("filter", self.keep, on_fail="open"), cheap),
            rank=fake("rank", lambda view, batch: batch.rows.astype(np.float32), "model"),
            re_rank=(step("re_rank", "re_rank.mmr", "mmr", mmr),),
            returned=("title", "live_stock"),
            fallback="popular",
            ladder=LadderConfig(least=8, skip=("recall.a",)),
        )


STEP_OF = {"a.reads": "recall.a", "b.reads": "recall.b", "price": "filters.cheap", "relevance": "re_rank.mmr"}


def sealed_half(answer: Answer, outcome: Outcome) -> bytes:
    fields = {name: getattr(answer, name) for name in Answer.__dataclass_fields__}
    records = [(r.name, r.seconds, r.n_in, r.n_out, r.reason, r.queued, r.missing) for r in outcome.records]
    half = (fields, records, list(outcome.degraded), sorted(outcome.reads), outcome.bugs, outcome.sealed)
    return hashlib.sha256(pickle.dumps(half)).digest()


def check(world: World, answer: Answer, outcome: Outcome, level: int) -> None:
    """Every step ran or is named with its policy's effect; only steps that ran count as read."""
    request, degraded = answer.request_id, dict(answer.degraded)
    assert set(degraded.values()) <= set(REASONS)
    assert answer.level == level
    assert (level < 2) or degraded["recall.a"] == "level"
    assert (level == 5) == (degraded.get("recall.b") == "level")
    for name in ("a", "b"):
        recalled = any(name in channels for channels in answer.channels)
        if f"recall.{name}" in degraded:
            assert not recalled
        else:
            assert (request, f"recall.{name}") in world.ran
    # a re-ranker that was handed nothing did not run either
    idle = {r.name for r in outcome.records if r.name.startswith("re_rank") and not r.n_in}
    assert outcome.reads == {p for p, name in STEP_OF.items() if name not in degraded.keys() | idle}
    assert outcome.sealed
    assert outcome.bugs == 0
    assert len(answer.ids) == len(set(answer.ids)) == SIZE
    assert all(len(column) == SIZE for column in answer.fields.values())
    assert np.isfinite(answer.scores).all()


class Played(NamedTuple):
    """What became of a process's part of the requests."""

    answered: int
    whole: int
    reasons: Counter[str]
    logged: int


class Counting(logging.Handler):
    count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.count += 1


def play(root: Path, first: int, count: int) -> Played:
    """Ask `count` requests over the release at `root`, checking each, in this process."""
    world = World()
    engine = Engine(load(root), live=(live_stock(),), clock=loop_time)
    plan = engine.plan(world.scene(), {name: [value] for name, value in PARAMS.items()})
    draw = random.Random(first)

    async def slow(commands: Any) -> None:
        await asyncio.sleep(draw.choice([0.0, 0.001, 0.01, 0.2]))

    engine.store.before = slow
    done: list[tuple[Answer, Outcome, bytes]] = []
    reasons: Counter[str] = Counter()
    answered = whole = 0

    async def one(number: int) -> None:
        await asyncio.sleep(draw.uniform(0, 1))
        level = draw.choice((0, 0, 0, 0, 1, 2, 3, 4, 5))
        answer, outcome = await engine.ask(
            plan,
            params=PARAMS,
            quality=Quality(level, draw.random()),
            request_id=f"q{number}",
            user_id=f"u{number % 50}",
            size=SIZE,
        )
        check(world, answer, outcome, level)
        done.append((answer, outcome, sealed_half(answer, outcome)))

    async def everything() -> int:
        nonlocal answered, whole
        for start in range(first, first + count, AT_ONCE):
            tasks = [asyncio.create_task(one(start + at)) for at in range(AT_ONCE)]
            for task in draw.sample(tasks, AT_ONCE // 10):
                asyncio.get_running_loop().call_later(draw.uniform(0, 1.1), task.cancel)
            ended = await asyncio.gather(*tasks, return_exceptions=True)
            wrong = [e for e in ended if e is not None and not isinstance(e, asyncio.CancelledError)]
            if wrong:
                raise wrong[0]
            await asyncio.sleep(10)
            assert len(engine.pipeline.abandoned) == 0
            assert all(sealed_half(answer, outcome) == before for answer, outcome, before in done)
            reasons.update(reason for answer, _, _ in done for _, reason in answer.degraded)
            answered, whole = answered + len(done), whole + sum(not answer.degraded for answer, _, _ in done)
            done.clear()
            world.ran.clear()
        return len(asyncio.all_tasks())

    handler = Counting(logging.WARNING)
    logging.getLogger("recserve").addHandler(handler)
    assert run_virtual(everything()) == 1
    return Played(answered, whole, reasons, handler.count)


@pytest.mark.long
def test_the_sealed_half_never_changes_and_only_steps_that_ran_are_read(loaded: LoadedRelease) -> None:
    with ProcessPoolExecutor(PROCESSES, multiprocessing.get_context("spawn")) as pool:
        share = REQUESTS // PROCESSES
        parts = [pool.submit(play, loaded.manifest.root, at * share, share) for at in range(PROCESSES)]
        played = [part.result() for part in parts]
    assert REQUESTS * 0.85 < sum(part.answered for part in played) < REQUESTS
    assert sum(part.whole for part in played) > 0.05 * REQUESTS
    assert {"timeout", "store_timeout", "level"} <= set().union(*(part.reasons for part in played))
    assert sum(part.logged for part in played) == 0
