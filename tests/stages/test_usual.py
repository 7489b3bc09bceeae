"""What steps usually take: learned from their runs, forgetting, robust to one stall, never stuck."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.usual import PROBE, Usual


@dataclass(frozen=True)
class Named:
    name: str
    cost_ms: float = 0.0


STEP = Named("rank.model", 3.0)


def test_before_its_first_run_a_step_takes_what_was_measured_at_load() -> None:
    assert Usual().of(STEP) == pytest.approx(0.003)
    assert Usual().of(Named("filters.seen")) == 0.0


def test_one_stall_hardly_counts_and_a_step_that_stays_slow_is_known_for_it() -> None:
    usual = Usual()
    for _ in range(20):
        usual.saw("rank.model", 0.001)
    usual.saw("rank.model", 10.0)
    assert usual.of(STEP) < 0.003
    for _ in range(30):
        usual.saw("rank.model", 0.2)
    assert usual.of(STEP) > 0.1


def test_a_step_that_does_not_fit_is_probed_now_and_then() -> None:
    usual = Usual()
    usual.saw("rank.model", 0.2)
    fits = [usual.fits(STEP, 0.1) for _ in range(4 * PROBE)]
    assert sum(fits) == 4
    assert usual.fits(STEP, 0.3)


@given(st.lists(st.floats(1e-6, 10.0), min_size=1, max_size=50))
def test_it_stays_between_the_shortest_and_the_longest_run(seconds: list[float]) -> None:
    usual = Usual()
    for one in seconds:
        usual.saw("rank.model", one)
    assert min(seconds) * 0.999 <= usual.of(STEP) <= max(seconds) * 1.001


def test_a_step_that_hung_once_counts_as_slow_for_a_while_however_quick_it_is_otherwise() -> None:
    now = 0.0
    usual = Usual(lambda: now)
    for _ in range(50):
        usual.saw("rank.model", 0.001)
    assert not usual.slow(STEP)
    usual.saw("rank.model", 2.0)
    for _ in range(50):
        usual.saw("rank.model", 0.001)
    assert usual.slow(STEP)
    now = 11.0
    assert not usual.slow(STEP)


def test_a_step_that_is_always_slow_is() -> None:
    usual = Usual()
    for _ in range(50):
        usual.saw("rank.model", 0.02)
    assert usual.slow(STEP)
