import math

import numpy as np
import pytest
import tea_tasting
from pyarrow import table as arrow_table

from abtest.analysis import Baseline, Design, Metric, baseline, binary, detectable, power, sample_size
from abtest.analysis.effect import effect
from abtest.analysis.moments import Moments
from tests.abtest_analysis.data import ratio, sessions


def test_the_sample_size_of_a_binary_metric_is_the_textbook_one() -> None:
    # (1.95996 + 0.84162)^2 * (0.1 * 0.9 + 0.12 * 0.88) / 0.02^2 = 3838.1
    size = sample_size(binary(0.1), 0.2)
    assert (size.control, size.treatment) == (3839, 3839)
    assert size.difference == pytest.approx(0.02)


@pytest.mark.parametrize("design", [Design(), Design(alpha=0.01, power=0.9, ratio=0.25), Design(comparisons=6)])
def test_planned_power_is_what_a_binary_metric_reaches(design: Design) -> None:
    size = sample_size(binary(0.05), 0.25, design)
    rng = np.random.default_rng(31)
    arms = [_binary_moments(rng.binomial(n, p, 40_000), n) for n, p in ((size.control, 0.05), (size.treatment, 0.0625))]
    share = float((effect(*arms).p < design.alpha / design.comparisons).mean())
    assert share == pytest.approx(design.power, abs=0.012)


def _binary_moments(hits: np.ndarray, units: int) -> Moments:
    mean = np.ones((len(hits), 4))
    mean[:, 0] = hits / units
    cov = np.zeros((len(hits), 4, 4))
    cov[:, 0, 0] = mean[:, 0] * (1 - mean[:, 0]) * units / (units - 1)
    mean[:, 2] = 0
    return Moments(np.full(len(hits), float(units)), mean, cov)


@pytest.mark.parametrize("cuped", [False, True])
def test_planned_power_is_what_a_ratio_metric_reaches(cuped: bool) -> None:
    _, columns = sessions(np.random.default_rng(32), 200_000)
    known = baseline(ratio(columns, cuped=cuped))
    # Many experiments drawn from one big population, where the treatment only adds a constant per session.
    size = sample_size(known, 0.2)
    rng = np.random.default_rng(33)
    table = ratio(columns, cuped=cuped).table()
    lifted = table.copy()
    lifted[:, 0] += size.difference * table[:, 1]
    arms = [Moments.of(part[rng.integers(0, len(part), (1_000, size.control))]) for part in (table, lifted)]
    assert float((effect(*arms).p < 0.05).mean()) == pytest.approx(0.8, abs=0.035)


def test_a_ratio_metrics_size_agrees_with_tea_tasting() -> None:
    _, columns = sessions(np.random.default_rng(34), 20_000)
    for cuped, before in ((False, (None, None)), (True, ("orders_before", "sessions_before"))):
        other = tea_tasting.RatioOfMeans("orders", "sessions", *before, rel_effect_size=0.05, use_t=False)
        theirs = other.solve_power(arrow_table(columns), "n_obs")[0]
        ours = sample_size(baseline(ratio(columns, cuped=cuped)), 0.05)
        assert ours.control + ours.treatment == pytest.approx(theirs.n_obs, abs=2)


@pytest.mark.parametrize("known", [binary(0.03), Baseline(2.0, 9.0), Baseline(-2.0, 9.0)])
@pytest.mark.parametrize("design", [Design(), Design(ratio=3.0, comparisons=4), Design(anytime=True)])
def test_size_effect_and_power_are_three_views_of_one_formula(known: Baseline, design: Design) -> None:
    size = sample_size(known, 0.1, design)
    direction = 1 if known.mean > 0 else -1
    assert detectable(known, size.control, design, direction).lift == pytest.approx(0.1, rel=0.01)
    assert power(known, 0.1, size.control, design) == pytest.approx(design.power, abs=0.005)
    assert power(known, -0.1, size.control, design) >= design.power - 0.005


def test_a_fall_of_a_rate_is_easier_to_see_than_a_rise() -> None:
    rise, fall = (detectable(binary(0.02), 5_000, direction=direction) for direction in (1, -1))  # type: ignore[arg-type]  # 1 or -1
    assert -rise.difference < fall.difference < 0 < rise.difference


def test_a_plan_for_peeking_needs_more_units() -> None:
    once, anytime = (sample_size(binary(0.1), 0.1, Design(anytime=flag)).control for flag in (False, True))
    assert 1.5 < anytime / once < 2.2


@pytest.mark.parametrize(("rate", "lift"), [(0.1, 0.05), (0.3, 0.3), (0.02, 0.5)])
@pytest.mark.parametrize("ratio", [1.0, 0.25])
def test_a_plan_for_peeking_keeps_its_promise_where_every_look_may_decide(
    rate: float, lift: float, ratio: float
) -> None:
    size = sample_size(binary(rate), lift, Design(anytime=True, ratio=ratio))
    rng = np.random.default_rng(35)
    runs, looks = 6_000, 8
    ends = [np.linspace(0, units, looks + 1).astype(int)[1:] for units in (size.control, size.treatment)]
    hits = [np.zeros(runs, np.int64), np.zeros(runs, np.int64)]
    ever = np.zeros(runs, bool)
    for look in range(looks):
        arms = []
        for arm, chance in enumerate((rate, rate * (1 + lift))):
            fresh = ends[arm][look] - (ends[arm][look - 1] if look else 0)
            hits[arm] += rng.binomial(fresh, chance, runs)
            arms.append(_binary_moments(hits[arm], int(ends[arm][look])))
        # The default tuning, as `recserve ab analyze --peek` has it.
        decided = effect(*arms).anytime_p < 0.05
        ever |= decided
    assert float(decided.mean()) == pytest.approx(0.8, abs=0.03)
    assert decided.mean() <= ever.mean() < 0.87


def test_a_plan_may_be_tuned_as_the_analysis_will_be() -> None:
    known = binary(0.1)
    usual = sample_size(known, 0.05, Design(anytime=True))
    tuned = sample_size(known, 0.05, Design(anytime=True, tuned_for=usual.control + usual.treatment))
    assert 0.7 < tuned.control / usual.control < 0.9


def test_a_rate_that_cannot_fall_far_enough_has_no_detectable_effect() -> None:
    assert math.isnan(detectable(binary(0.001), 100, direction=-1).lift)


def test_a_metric_of_zeros_and_ones_is_binary() -> None:
    assert baseline(Metric("m", np.array([0.0, 1.0, 0.0, 0.0]))) == binary(0.25)
    assert not baseline(Metric("m", np.array([0.0, 2.0]))).binary


@pytest.mark.parametrize("rate", [0.0, 1.0, -0.1, math.nan])
def test_an_impossible_rate_is_refused(rate: float) -> None:
    with pytest.raises(ValueError, match=r"baseline|binary"):
        binary(rate)


def test_impossible_plans_are_refused() -> None:
    with pytest.raises(ValueError, match="no number of units shows a lift of 0"):
        sample_size(binary(0.1), 0.0)
    with pytest.raises(ValueError, match=r"the lift takes a rate of 0\.6 to 1\.2"):
        sample_size(binary(0.6), 1.0)
    with pytest.raises(ValueError, match="alpha and power"):
        Design(alpha=1.0)
    with pytest.raises(ValueError, match="ratio"):
        Design(ratio=0.0)
    with pytest.raises(ValueError, match="needs units"):
        detectable(binary(0.1), 0)
    with pytest.raises(ValueError, match="no number of units shows a lift of 1e-200"):
        sample_size(binary(0.1), 1e-200)
    with pytest.raises(ValueError, match="tuned for"):
        Design(tuned_for=0)


@pytest.mark.parametrize(
    ("metric", "said"),
    [
        (Metric("buyers", np.ones(50)), "metric buyers can't be planned for: it doesn't vary between units"),
        (Metric("ctr", np.arange(9.0), np.arange(9.0) * 4), "metric ctr can't be planned for: it doesn't vary"),
        (Metric("buyers", np.zeros(50)), "metric buyers can't be planned for: its mean is 0"),
        (Metric("ctr", np.zeros(50), np.zeros(50)), "metric ctr can't be planned for: its mean is nan"),
    ],
)
def test_a_metric_that_cannot_be_planned_for_is_named(metric: Metric, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        baseline(metric)


def test_a_baseline_without_variance_is_refused() -> None:
    with pytest.raises(ValueError, match="a variance above 0"):
        Baseline(1.0, 0.0)
