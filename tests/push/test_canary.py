"""The judge: quiet when nothing differs, loud when something does, silent when it can't tell."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.push.canary import CHANCE, LEAST, RISE, Counts, chance, worse
from app.push.trial import LOOKS

RUNS = 2_000


def trials(rng: np.random.Generator, answers: int, share: float, rate: float, rate_there: float) -> float:
    """Share of pushes that are rolled back, looked at as often as a trial looks."""
    stopped = 0
    here, there = round(answers * share / LOOKS), round(answers * (1 - share) / LOOKS)
    failed = rng.binomial(here, rate, (RUNS, LOOKS)).cumsum(1)
    failed_there = rng.binomial(there, rate_there, (RUNS, LOOKS)).cumsum(1)
    for run in range(RUNS):
        stopped += any(
            worse(
                Counts(here * (look + 1), int(failed[run, look])),
                Counts(there * (look + 1), int(failed_there[run, look])),
                last=look == LOOKS - 1,
            )
            is not None
            for look in range(LOOKS)
        )
    return stopped / RUNS


@pytest.mark.parametrize("rate", [0.0, 0.001, 0.01, 0.05, 0.3, 0.95])
@pytest.mark.parametrize(("answers", "share"), [(200, 0.25), (1_000, 0.25), (2_000, 0.5), (20_000, 0.1)])
def test_no_difference_stops_less_than_one_push_in_a_hundred(answers: int, share: float, rate: float) -> None:
    assert trials(np.random.default_rng(7), answers, share, rate, rate) < 0.01


@pytest.mark.parametrize("answers", [1_000, 2_000])
def test_five_percent_against_one_in_a_thousand_is_found_at_five_hundred_answers(answers: int) -> None:
    assert trials(np.random.default_rng(7), answers, 500 / answers, 0.05, 0.001) > 0.99


def test_a_service_that_fails_always_is_found_at_once() -> None:
    said = worse(Counts(LEAST, LEAST), Counts(LEAST), last=False)
    assert said == "100.0% of 50 answers failed with it, 0.0% of 50 without it."


def test_degraded_answers_count_like_errors() -> None:
    said = worse(Counts(500, 0, 100), Counts(1_500, 0, 15))
    assert said == "20.0% of 500 answers were degraded with it, 1.0% of 1,500 without it."


def test_empty_answers_count_like_errors() -> None:
    said = worse(Counts(500, 0, 0, 500), Counts(1_500, 0, 0, 15))
    assert said == "100.0% of 500 answers were empty with it, 1.0% of 1,500 without it."


def test_too_few_answers_tell_nothing() -> None:
    assert worse(Counts(LEAST - 1, LEAST - 1), Counts(1_000)) is None
    assert worse(Counts(1_000, 1_000), Counts(LEAST - 1)) is None


def test_a_small_rise_stops_nothing_however_sure_it_is() -> None:
    assert chance(1_900, 100_000, 100, 100_000) < CHANCE
    assert worse(Counts(100_000, 1_900), Counts(100_000, 100)) is None
    assert RISE == 0.02


def test_fewer_errors_stop_nothing() -> None:
    assert worse(Counts(500, 5), Counts(500, 100)) is None


@given(st.integers(1, 60), st.integers(1, 60), st.data())
def test_the_chance_is_the_hypergeometric_tail(here: int, there: int, data: st.DataObject) -> None:
    bad, bad_there = data.draw(st.integers(0, here)), data.draw(st.integers(0, there))
    marked = bad + bad_there
    ways = sum(comb(marked, k) * comb(here + there - marked, here - k) for k in range(bad, min(here, marked) + 1))
    assert chance(bad, here, bad_there, there) == pytest.approx(ways / comb(here + there, here), rel=1e-6)


counts = st.builds(Counts, st.integers(0, 500), st.integers(0, 600), st.integers(0, 600), st.integers(0, 600))


@given(counts, counts, counts, counts)
def test_whatever_was_counted_can_be_judged(a: Counts, b: Counts, c: Counts, d: Counts) -> None:
    """Failures may outnumber requests: a request counts when it begins, and fails later."""
    said = worse(a.since(b), c.since(d))
    assert said is None or " with it, " in said


def test_counting_that_started_again_counts_from_zero() -> None:
    assert Counts(10, 1, 2, 4).since(Counts(4, 1, 0, 1)) == Counts(6, 0, 2, 3)
    assert Counts(10, 1, 2).since(Counts(400, 1, 0)) == Counts(10, 1, 2)
    assert Counts(1, 2, 3, 4).plus(Counts(10, 20, 30, 40)) == Counts(11, 22, 33, 44)
