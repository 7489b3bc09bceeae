"""The ladder against a simulated queue: it settles under a steady load and comes back when the load is gone."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.ladder import Ladder
from stages.types import FULL, Quality
from tests.http.queueing import Queue

BUDGET = 0.12
SERVICE = 0.004
# What a request costs on each level, of what it costs at full quality.
COSTS = (1.0, 0.5, 0.45, 0.35, 0.25, 0.05)


class Laddered:
    """A server whose requests cost what the ladder lets them."""

    def __init__(self, seed: int) -> None:
        self.changes: list[tuple[float, int]] = []
        self.levels: Counter[int] = Counter()
        self.queue = Queue(service=SERVICE, seed=seed, cost=self._cost, done=self._done)
        self.ladder = Ladder(lambda: self.queue.now, lambda: self.queue.lag.wait)

    def _cost(self, _: float) -> float:
        quality = self.ladder.quality("home")
        if quality.level != (self.changes[-1][1] if self.changes else 0):
            self.changes.append((self.queue.now, quality.level))
        self.levels[quality.level] += 1
        share = 0.5 + 0.5 * quality.share if quality.level < 2 else COSTS[quality.level]
        return SERVICE * share

    def _done(self, seconds: float) -> None:
        self.ladder.saw("home", seconds, BUDGET)

    def changes_after(self, seconds: float) -> int:
        return sum(at > seconds for at, _ in self.changes)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("load", [0.3, 1.2, 2.0, 3.0, 6.0])
def test_under_a_steady_load_the_level_settles(seed: int, load: float) -> None:
    simulated = Laddered(seed)
    simulated.queue.run({"interactive": load}, 40.0)
    # Another level is tried now and then, and given up at once: a climb and a fall every eight seconds.
    assert simulated.changes_after(20.0) <= 14
    (usual, _), (next_to_it, _) = [*simulated.levels.most_common(2), (0, 0)][:2]
    settled = simulated.levels[usual] + simulated.levels[next_to_it]
    assert abs(usual - next_to_it) <= 1
    assert settled >= 0.8 * sum(simulated.levels.values())
    shed = sum(simulated.queue.admission.shed.values())
    assert shed <= 0.05 * simulated.queue.result.offered["interactive"]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("load", [2.0, 3.0, 10.0])
def test_it_is_back_at_full_quality_within_five_seconds_of_calm(seed: int, load: float) -> None:
    simulated = Laddered(seed)
    simulated.queue.run(lambda now: {"interactive": load if now < 10.0 else 0.2}, 15.0)
    assert max(level for _, level in simulated.changes) >= 3
    assert simulated.ladder.quality("home") == FULL
    before = len(simulated.changes)
    simulated.queue.run({"interactive": 0.2}, 5.0)
    assert len(simulated.changes) == before


def test_quality_falls_within_a_second_of_a_full_queue() -> None:
    now, wait = [0.0], [0.05]
    ladder = Ladder(lambda: now[0], lambda: wait[0])
    levels = []
    for _ in range(100):
        now[0] += 0.01
        levels.append(ladder.quality("home"))
    assert levels[-1] == Quality(5, 0.0)
    assert [quality.level for quality in levels] == sorted(quality.level for quality in levels)
    shares = [quality.share for quality in levels if quality.level == 1]
    assert shares == sorted(shares, reverse=True)
    assert len(set(shares)) > 5


def test_one_late_turn_of_the_loop_costs_no_quality() -> None:
    now, wait = [0.0], [0.0]
    ladder = Ladder(lambda: now[0], lambda: wait[0])
    for turn in range(100):
        now[0] += 1.0
        wait[0] = 0.2 if turn == 50 else 0.0
        assert ladder.quality("home") == FULL


def test_answers_near_their_budget_cost_their_own_scene_quality_only() -> None:
    now = [0.0]
    ladder = Ladder(lambda: now[0], lambda: 0.0)
    for _ in range(300):
        now[0] += 0.01
        ladder.quality("home")
        ladder.quality("discover")
        ladder.saw("home", 0.119, BUDGET)
        ladder.saw("discover", 0.02, BUDGET)
    assert ladder.levels()["home"] > 0
    assert ladder.levels()["discover"] == 0
    for _ in range(500):
        now[0] += 0.01
        ladder.quality("home")
        ladder.saw("home", 0.02, BUDGET)
    assert ladder.quality("home") == FULL


@given(
    st.lists(st.tuples(st.floats(0, 2), st.floats(0, 1, allow_nan=False), st.floats(0, 1), st.booleans()), max_size=60)
)
def test_quality_is_always_a_level_and_a_share(steps: list[tuple[float, float, float, bool]]) -> None:
    now, wait = [0.0], [0.0]
    ladder = Ladder(lambda: now[0], lambda: wait[0])
    before = 0
    for seconds, waited, took, answered in steps:
        now[0], wait[0] = now[0] + seconds, waited
        quality = ladder.quality("home")
        assert 0 <= quality.level <= 5
        assert 0.0 <= quality.share <= 1.0
        assert quality.level >= before - 1  # a climb is one level at a time
        before = quality.level
        if answered:
            ladder.saw("home", took, BUDGET)
