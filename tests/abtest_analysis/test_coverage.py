"""What intervals promise, over thousands of simulated experiments at once; seeded, so never flaky."""

import numpy as np
import pytest

from abtest.analysis import anytime
from abtest.analysis.effect import Bounds, effect
from abtest.analysis.moments import Moments

RUNS = 2_000
UNITS = 400
LIFT = 0.1


def _arm(rng: np.random.Generator, rate: float) -> np.ndarray:
    """Return tables f64[RUNS, UNITS, 4]: orders, sessions, and both before the experiment."""
    taste = rng.gamma(2.0, 0.5, (RUNS, UNITS))
    table = np.empty((RUNS, UNITS, 4))
    for column, chance in ((0, rate), (2, 0.2)):
        table[..., column + 1] = 1 + rng.poisson(2 * taste)
        table[..., column] = rng.binomial(table[..., column + 1].astype(int), np.minimum(chance * taste, 0.9))
    return table


def _share(bounds: Bounds, truth: float) -> float:
    return float(((bounds.low <= truth) & (truth <= bounds.high)).mean())


@pytest.fixture(scope="module")
def arms() -> tuple[np.ndarray, np.ndarray, float, float]:
    """Return both arms' tables and their true values, from one population of many units."""
    rng = np.random.default_rng(21)
    control, treatment = _arm(rng, 0.2), _arm(rng, 0.2 * (1 + LIFT))
    truths = [float(arm[..., 0].sum() / arm[..., 1].sum()) for arm in (control, treatment)]
    return control, treatment, truths[0], truths[1]


@pytest.mark.parametrize("cuped", [False, True])
def test_intervals_cover_the_truth_in_94_to_96_percent(
    arms: tuple[np.ndarray, np.ndarray, float, float], cuped: bool
) -> None:
    control, treatment, before, after = arms
    if not cuped:
        control, treatment = (np.concatenate([arm[..., :2], np.ones_like(arm[..., 2:])], -1) for arm in arms[:2])
    found = effect(Moments.of(control), Moments.of(treatment))
    assert 0.94 <= _share(found.difference_bounds, after - before) <= 0.96
    assert 0.94 <= _share(found.lift_bounds, after / before - 1) <= 0.96


@pytest.mark.parametrize("arms", [2, 3])
@pytest.mark.parametrize("doubled", [False, True])
def test_a_lift_covers_where_the_past_tells_nearly_everything(arms: int, doubled: bool) -> None:
    # Corrected by a covariate of correlation 0.95, both arms move with its centre; a lift of 100% doesn't cancel it.
    rng = np.random.default_rng(26)
    found = []
    for arm in range(arms):
        before = rng.normal(0, 0.5, (RUNS, UNITS))
        now = 1 + 0.95 * before + np.sqrt(1 - 0.95**2) * rng.normal(0, 0.5, (RUNS, UNITS))
        table = np.ones((RUNS, UNITS, 4))
        table[..., 0] = now * (1 + arm) if doubled else now + arm
        table[..., 2] = 1 + before
        found.append(Moments.of(table))
    everyone = found[0] + found[1]
    for more in found[2:]:
        everyone = everyone + more
    for arm in range(1, arms):
        one = effect(found[0], found[arm], everyone=everyone)
        assert 0.94 <= _share(one.difference_bounds, arm) <= 0.96
        assert 0.94 <= _share(one.lift_bounds, arm) <= 0.96


def test_a_binary_metric_covers_too() -> None:
    rng = np.random.default_rng(22)
    arms = []
    for rate in (0.1, 0.12):
        table = np.ones((RUNS, 1_500, 4))
        table[..., 0] = rng.random((RUNS, 1_500)) < rate
        arms.append(Moments.of(table))
    found = effect(*arms)
    assert 0.94 <= _share(found.difference_bounds, 0.02) <= 0.96
    assert 0.94 <= _share(found.lift_bounds, 0.2) <= 0.96


def test_anytime_intervals_cover_at_every_peek_where_fixed_ones_do_not() -> None:
    rng = np.random.default_rng(23)
    ever = {"fixed": np.zeros(RUNS, bool), "anytime": np.zeros(RUNS, bool), "lift": np.zeros(RUNS, bool)}
    arms: list[Moments] = []
    least = np.ones(RUNS)
    for peek in range(30):
        fresh = []
        for _ in range(2):
            table = np.ones((RUNS, 100, 4))
            table[..., 0] = rng.exponential(1.0, (RUNS, 100))
            fresh.append(Moments.of(table))
        arms = [old + new for old, new in zip(arms, fresh, strict=True)] if peek else fresh
        found = effect(*arms, tuned_for=3_000)
        for name, bounds in (
            ("fixed", found.difference_bounds),
            ("anytime", found.anytime_difference_bounds),
            ("lift", found.anytime_lift_bounds),
        ):
            ever[name] |= (bounds.low > 0) | (bounds.high < 0)
        least = np.minimum(least, found.anytime_p)
    assert ever["fixed"].mean() > 0.2
    assert ever["anytime"].mean() < 0.05
    assert ever["lift"].mean() < 0.05
    assert (least < 0.05).tolist() == ever["anytime"].tolist()


def test_an_anytime_interval_is_tightest_at_the_size_that_it_was_tuned_for() -> None:
    sizes = np.array([1_000.0, 5_000.0, 10_000.0, 20_000.0, 100_000.0])
    reach = [float(anytime.critical(10_000, 0.05, tuned_for)) for tuned_for in sizes]
    assert min(reach) == reach[2]
    assert 2.9 < reach[2] < 3.1


def test_moments_of_parts_add_up_to_those_of_the_whole() -> None:
    table = np.random.default_rng(24).normal(size=(7, 90, 4)) + 3
    whole, parts = Moments.of(table), Moments.of(table[:, :25]) + Moments.of(table[:, 25:])
    assert parts.count == pytest.approx(whole.count)
    assert parts.mean == pytest.approx(whole.mean)
    assert parts.cov == pytest.approx(whole.cov)
