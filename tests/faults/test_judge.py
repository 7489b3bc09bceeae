"""Windows and recovery of made-up series, whose figures are known."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.faults.errors import Late, Unsteady
from app.faults.judge import document, errors, plain, recovery, window
from app.faults.scenario import Verdict
from tests.faults.series import STARTED, every, run

BUDGET = 0.12
DUE = every(0.1, 10.0)


def spoilt(**where: dict[float, float]) -> dict[str, list[float]]:
    """Columns with other values at some moments."""
    usual = {"latency": 0.01, "outcome": 200, "level": 0, "degraded": 0, "empty": 0, "late": 0}
    return {name: [moments.get(at, usual[name]) for at in DUE] for name, moments in where.items()}


def test_a_window_counts_what_was_meant_for_it_and_tells_kinds_of_failure_apart() -> None:
    columns = spoilt(
        outcome={1.0: 500, 1.1: 503, 1.2: 429, 1.3: -1, 1.4: -2, 5.0: 500},
        degraded={1.5: 1},
        level={1.6: 2},
        empty={1.7: 1},
        latency={1.8: 0.5},
    )
    part = window(run(DUE, **columns), STARTED + 1.0, STARTED + 2.0)
    shown = document(part)
    assert (shown["n"], shown["shed"], shown["errors"], shown["empty"]) == (10, 2, 3, 1)
    assert shown["availability"] == 0.5
    assert shown["full"] == 0.6
    assert shown["p50"] == pytest.approx(10, rel=1e-3)
    assert shown["p99"] == shown["p999"] == pytest.approx(500, rel=1e-3)
    assert errors(part) == 3


def test_a_window_without_an_answer_has_no_times() -> None:
    shown = document(window(run(DUE, outcome=[503] * len(DUE)), STARTED, STARTED + 1))
    assert (shown["availability"], shown["p50"], shown["p99"]) == (0.0, None, None)


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        ({}, 0.0),
        ({"degraded": {2.0: 1}}, 0.0),  # before it was healed
        ({"degraded": {5.3: 1}}, 0.3),
        ({"level": {5.0: 1, 5.9: 3}}, 0.9),
        ({"outcome": {6.8: 503}}, 0.0),  # a whole good second came before
        ({"outcome": {5.5: -1}, "latency": {6.4: 0.13}}, 1.4),
        ({"latency": {5.2: 0.12}}, 0.0),  # within the budget is in time
    ],
)
def test_recovery_is_the_begin_of_the_first_second_in_which_all_is_well(spoil: dict, expected: float) -> None:
    took = recovery(run(DUE, **spoilt(**spoil)), STARTED + 5.0, BUDGET)
    assert took == pytest.approx(expected, abs=1e-6)


def test_recovery_that_is_not_seen_to_last_a_second_is_none() -> None:
    assert recovery(run(DUE, **spoilt(degraded=dict.fromkeys(every(0.5, 10.0), 1))), STARTED + 5.0, BUDGET) is None
    assert recovery(run(DUE, **spoilt(degraded={9.5: 1})), STARTED + 9.0, BUDGET) is None
    assert recovery(run(DUE), STARTED + 11.0, BUDGET) is None


def test_a_gap_without_requests_is_no_recovery() -> None:
    due = [*every(0.1, 5.0), 8.0, 8.1, 8.2]
    assert recovery(run(due, degraded=[0] * 50 + [1, 1, 1]), STARTED + 5.0, BUDGET) is None


@settings(max_examples=60, deadline=None)
@given(st.lists(st.booleans(), min_size=1, max_size=100), st.integers(0, 99))
def test_the_second_after_recovery_is_well_and_no_earlier_one_behind_a_bad_answer_is(bad: list[bool], at: int) -> None:
    due = every(0.1, 10.0)[: len(bad)]
    healed = at / 10
    took = recovery(run(due, degraded=[int(one) for one in bad]), STARTED + healed, BUDGET)

    def well(begin: float) -> bool:
        inside = [not one for moment, one in zip(due, bad, strict=True) if begin <= moment < begin + 1.0 - 1e-6]
        return bool(inside) and all(inside) and due[-1] >= begin + 1.0 - 1e-6

    begins = [healed] + [moment + 1e-6 for moment, one in zip(due, bad, strict=True) if one and moment >= healed]
    expected = next((begin - healed for begin in begins if well(begin)), None)
    assert took == (None if expected is None else pytest.approx(expected, abs=1e-5))


def test_a_window_in_which_the_generator_was_late_is_not_judged() -> None:
    verdict = Verdict()
    late = dict.fromkeys(DUE[:5], 0.02)
    result = run(DUE, **spoilt(late=late))
    with pytest.raises(Late, match=r"fault: .* 20\.0 ms late"):
        verdict.window("fault", window(result, STARTED, STARTED + 1.0))
    verdict.window("after", window(result, STARTED + 5.0, STARTED + 6.0))
    assert list(verdict.figures) == ["after"]


@pytest.mark.parametrize("spoil", [{"outcome": {1.0: 503}}, {"outcome": {1.0: -1}}, {"latency": {1.0: 0.2}}])
def test_a_service_that_is_not_well_before_the_fault_is_not_judged(spoil: dict) -> None:
    with pytest.raises(Unsteady):
        Verdict().steady(window(run(DUE, **spoilt(**spoil)), STARTED, STARTED + 2.0), BUDGET)


def test_degraded_answers_before_the_fault_are_figures_and_no_reason_to_discard() -> None:
    result = run(DUE, **spoilt(degraded={1.0: 1}))
    assert Verdict().steady(window(result, STARTED, STARTED + 2.0), BUDGET).full_share == 0.95


def test_a_broken_requirement_is_kept_in_words() -> None:
    verdict = Verdict()
    verdict.must(True, "this holds")
    assert verdict.holds
    verdict.must(False, "3 of 4 did")
    assert (verdict.holds, verdict.broken) == (False, ["3 of 4 did"])


def test_figures_are_what_json_can_have() -> None:
    assert plain(math.nan) is None
    assert plain(0.123456789) == 0.1235
    assert plain({"a": 1}) == {"a": 1}
