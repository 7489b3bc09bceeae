import importlib.util
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.csv
import pytest
import tea_tasting
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import table as arrow_table
from scipy import optimize, stats

from abtest.analysis import NO_DIFFERENCE, TOO_LITTLE, WORSE, Metric, compare
from abtest.analysis.effect import effect
from abtest.analysis.moments import Moments
from abtest.analysis.multiple import adjusted
from tests.abtest_analysis.data import codes, floats, ratio, sessions

BUCKETS = ("control", "variant")


@pytest.mark.parametrize("cuped", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_ratio_metrics_agree_with_tea_tasting(seed: int, cuped: bool) -> None:
    rng = np.random.default_rng(seed)
    bucket, columns = sessions(rng, 400 + 3_000 * seed, lift=0.1 * seed)
    before = ("orders_before", "sessions_before") if cuped else (None, None)
    other = tea_tasting.RatioOfMeans("orders", "sessions", *before)
    _agrees(bucket, columns, ratio(columns, cuped=cuped), other)


@pytest.mark.parametrize("cuped", [False, True])
def test_means_per_unit_agree_with_tea_tasting(cuped: bool) -> None:
    bucket, columns = sessions(np.random.default_rng(11), 5_000, lift=0.2)
    metric = Metric("orders", columns["orders"], covariate=columns["orders_before"] if cuped else None)
    _agrees(bucket, columns, metric, tea_tasting.Mean("orders", "orders_before" if cuped else None))


def _agrees(bucket: np.ndarray, columns: dict[str, np.ndarray], metric: Metric, other: object) -> None:
    """Compare with tea-tasting all but the lift's interval, which it makes on the logarithmic scale, beside its p.

    Ours is Fieller's: compared with a search for its ends (`_fieller`).
    """
    data = arrow_table({"variant": bucket, **columns})
    theirs = tea_tasting.Experiment(metric=other).analyze(data)["metric"]  # type: ignore[arg-type]  # either metric
    ours = compare(bucket, BUCKETS, [metric], "control").comparisons[0]
    pairs = [
        (ours.control.value, theirs.control),
        (ours.treatment.value, theirs.treatment),
        (ours.difference, theirs.effect_size),
        (ours.difference_interval.low, theirs.effect_size_ci_lower),
        (ours.difference_interval.high, theirs.effect_size_ci_upper),
        (ours.lift, theirs.rel_effect_size),
        (ours.p, theirs.pvalue),
        (ours.statistic, theirs.statistic),
    ]
    half = theirs.effect_size_ci_upper - theirs.effect_size
    low, high = _fieller(bucket, metric, half * theirs.statistic / theirs.effect_size)
    pairs += [(ours.lift_interval.low, low), (ours.lift_interval.high, high)]
    for mine, his in pairs:
        assert mine == pytest.approx(his, rel=1e-6, abs=1e-6)
    assert ours.p == pytest.approx(theirs.pvalue, rel=1e-6)


def _fieller(bucket: np.ndarray, metric: Metric, reach: float) -> tuple[float, float]:
    """Return the lifts where |treatment - (1 + lift) control| is `reach` standard errors, found by search.

    From each unit's own contribution to a ratio instead of moments and gradients.
    """
    ones = np.ones(len(metric))
    y, d, x, b = (
        ones * column
        for column in (
            metric.numerator,
            1.0 if metric.denominator is None else metric.denominator,
            0.0 if metric.covariate is None else metric.covariate,
            1.0 if metric.covariate_denominator is None else metric.covariate_denominator,
        )
    )

    def parts(top: np.ndarray, bottom: np.ndarray) -> np.ndarray:
        return (top - bottom * (top.sum() / bottom.sum())) / bottom.mean()

    before = parts(x, b)
    theta = np.cov(parts(y, d), before)[0, 1] / before.var(ddof=1) if before.any() else 0.0
    values, errors, shared = [], [], []
    for code in (0, 1):
        rows = bucket == code
        away = x[rows].sum() / b[rows].sum() - x.sum() / b.sum()
        values.append(y[rows].sum() / d[rows].sum() - theta * away)
        own = parts(y[rows], d[rows]) - theta * parts(x[rows], b[rows])
        errors.append(own.var(ddof=1) / rows.sum())
        shared.append(theta * np.cov(own, before[rows])[0, 1] / len(metric))
    centre = theta**2 * before.var(ddof=1) / len(metric)

    def beyond(lift: float) -> float:
        ratio = 1 + lift
        variance = errors[1] + 2 * shared[1] + centre + ratio**2 * (errors[0] + 2 * shared[0] + centre)
        variance -= 2 * ratio * (shared[0] + shared[1] + centre)
        return float((values[1] - ratio * values[0]) ** 2 - reach**2 * variance)

    lift = values[1] / values[0] - 1
    low, high = (optimize.brentq(beyond, lift, end, xtol=1e-12) for end in (lift - 3, lift + 3))
    return low, high


def test_a_lift_interval_holds_zero_exactly_where_p_does_not_reject() -> None:
    rng = np.random.default_rng(17)
    arms = []
    for lift in (0.0, 1.0):
        table = np.ones((3_000, 60, 4))
        table[..., 0] = rng.lognormal(0, 1.2, (3_000, 60)) * (1 + lift)
        table[..., 2] = table[..., 0] ** 0.5 + rng.random((3_000, 60))
        arms.append(Moments.of(table))
    found = effect(*arms, tuned_for=120)
    for bounds, p in ((found.lift_bounds, found.p), (found.anytime_lift_bounds, found.anytime_p)):
        known = np.isfinite(bounds.low)
        assert known.mean() > 0.2
        assert (known & (p < 0.05)).any()
        outside = (bounds.low > 0) | (bounds.high < 0)
        assert outside[known].tolist() == (p < 0.05)[known].tolist()


@pytest.mark.parametrize("mean", [-2.0, 0.0, 0.05])
def test_a_control_that_is_not_clearly_above_zero_has_no_lift(mean: float) -> None:
    rng = np.random.default_rng(18)
    bucket = np.repeat([0, 1], 400)
    values = rng.normal(np.where(bucket == 0, mean, mean - 1), 1.0)
    found = compare(bucket, BUCKETS, [Metric("profit", values)], "control").comparisons[0]
    assert found.verdict == WORSE
    data = found.as_json()
    assert data["lift"] is None
    assert data["lift_interval"] == data["anytime_lift_interval"] == {"low": None, "high": None}


def test_an_anytime_lift_wants_a_control_further_above_zero_than_a_fixed_one() -> None:
    bucket = np.repeat([0, 1], 400)
    values = np.tile([-0.85, 1.15], 400)  # three standard errors
    found = compare(bucket, BUCKETS, [Metric("profit", values)], "control").comparisons[0]
    assert np.isfinite([found.lift, found.lift_interval.low, found.lift_interval.high]).all()
    assert np.isnan([found.anytime_lift_interval.low, found.anytime_lift_interval.high]).all()


def test_a_treatment_of_zeros_has_a_lift_and_no_interval_of_it() -> None:
    values = np.concatenate([np.arange(200) % 5 == 0, np.zeros(200)]).astype(np.float64)
    found = compare(np.repeat([0, 1], 200), BUCKETS, [Metric("buyers", values)], "control").comparisons[0]
    assert found.lift == -1
    assert np.isnan(found.lift_interval.low)


def test_the_control_has_one_corrected_value_beside_every_arm() -> None:
    rng = np.random.default_rng(20)
    bucket = rng.integers(0, 3, 3_000)
    before = rng.normal(5, 2, 3_000)
    values = before * (1 + 0.2 * bucket) + rng.normal(0, 1, 3_000)
    values[bucket == 2] += rng.normal(0, 4, int((bucket == 2).sum()))
    metric = Metric("m", values, covariate=before)
    first, second = compare(bucket, ("a", "b", "c"), [metric], "a").comparisons
    assert first.control == second.control
    assert first.variance_reduction is not None
    assert second.variance_reduction is not None
    assert first.variance_reduction > second.variance_reduction + 0.2


def test_where_nothing_varies_no_share_of_the_variance_was_removed() -> None:
    bucket = np.arange(40) % 2
    constant = Metric("m", np.ones(40), covariate=np.arange(40.0))
    found = compare(bucket, BUCKETS, [constant], "control").comparisons[0]
    assert found.variance_reduction is None
    assert found.as_json()["variance_reduction"] is None


def test_a_ratio_without_any_history_is_compared_as_it_is() -> None:
    bucket, columns = sessions(np.random.default_rng(25), 2_000, lift=0.2)
    nothing = np.zeros(2_000)
    plain = Metric("m", columns["orders"], columns["sessions"])
    corrected = Metric("m", columns["orders"], columns["sessions"], nothing, nothing)
    first, second = compare(bucket, BUCKETS, [plain, corrected], "control").comparisons
    assert first == second


def test_cuped_removes_variance_and_keeps_the_effect() -> None:
    bucket, columns = sessions(np.random.default_rng(12), 20_000, lift=0.1)
    plain, corrected = (
        compare(bucket, BUCKETS, [ratio(columns, cuped=cuped)], "control").comparisons[0] for cuped in (False, True)
    )
    assert plain.variance_reduction == 0
    assert corrected.variance_reduction is not None
    assert 0.1 < corrected.variance_reduction < 0.9
    assert corrected.difference_interval.low < plain.difference < corrected.difference_interval.high


def _zozotown() -> Iterator[tuple[np.ndarray, str]]:
    package = importlib.util.find_spec("obp")
    if package is None or not package.submodule_search_locations:
        pytest.skip("the obp package isn't installed")
    root = Path(package.submodule_search_locations[0]) / "dataset" / "obd"
    options = pyarrow.csv.ConvertOptions(include_columns=["click"])
    for policy in ("random", "bts"):
        for campaign in ("all", "men", "women"):
            file = root / policy / campaign / f"{campaign}.csv"
            yield pyarrow.csv.read_csv(file, convert_options=options)["click"].to_numpy(), policy


def test_the_policies_of_zozotown_do_not_differ_detectably() -> None:
    parts = list(_zozotown())
    clicks = np.concatenate([part for part, _ in parts]).astype(np.float64)
    bucket = np.concatenate([np.full(len(part), int(policy == "bts")) for part, policy in parts])
    assert [(clicks[bucket == code].sum(), (bucket == code).sum()) for code in (1, 0)] == [
        (157, 30_000),
        (130, 30_000),
    ]
    found = compare(bucket, ("random", "bts"), [Metric("clicks", clicks)], "random").comparisons[0]
    assert found.verdict == NO_DIFFERENCE == "no detectable difference"
    assert found.p == pytest.approx(0.11, abs=0.0005)
    assert found.lift_interval.low < 0 < found.lift_interval.high


def test_a_verdict_follows_the_goal_of_the_metric() -> None:
    bucket, columns = sessions(np.random.default_rng(13), 20_000, lift=0.3)
    for goal, word in [("increase", "better"), ("decrease", "worse"), ("none", "higher")]:
        metric = Metric("orders", columns["orders"], goal=goal)  # type: ignore[arg-type]  # a goal
        assert compare(bucket, BUCKETS, [metric], "control").comparisons[0].verdict == word
        turned = Metric("orders", -columns["orders"], goal=goal)  # type: ignore[arg-type]  # a goal
        opposite = {"better": "worse", "worse": "better", "higher": "lower"}[word]
        assert compare(bucket, BUCKETS, [turned], "control").comparisons[0].verdict == opposite


def test_verdicts_rest_on_p_values_adjusted_over_all_metrics_and_arms() -> None:
    rng = np.random.default_rng(14)
    bucket = rng.integers(0, 4, 8_000)
    metrics = [Metric(f"m{k}", rng.normal(0.035 * k * bucket, 1.0)) for k in range(3)]
    analysis = compare(bucket, ("a", "b", "c", "d"), metrics, "b")
    assert [(each.metric, each.treatment.bucket) for each in analysis.comparisons[:4]] == [
        ("m0", "a"),
        ("m0", "c"),
        ("m0", "d"),
        ("m1", "a"),
    ]
    expected = stats.false_discovery_control([each.p for each in analysis.comparisons])
    assert [each.adjusted_p for each in analysis.comparisons] == pytest.approx(expected)
    for each in analysis.comparisons:
        assert (each.verdict == NO_DIFFERENCE) == (each.adjusted_p >= 0.05)


def test_under_peeking_verdicts_rest_on_the_anytime_p() -> None:
    bucket, columns = sessions(np.random.default_rng(15), 6_000, lift=0.13)
    metric = Metric("orders", columns["orders"])
    once = compare(bucket, BUCKETS, [metric], "control").comparisons[0]
    peeking = compare(bucket, BUCKETS, [metric], "control", peeking=True).comparisons[0]
    assert once.adjusted_p == once.p < 0.05 < peeking.adjusted_p == peeking.anytime_p
    assert (once.verdict, peeking.verdict) == ("better", NO_DIFFERENCE)


@pytest.mark.parametrize(
    ("bucket", "values"),
    [
        (codes(0, 1, 1), floats(1, 2, 3)),  # one unit
        (codes(0, 0, 0), floats(1, 2, 3)),  # an empty arm
        (codes(0, 0, 1, 1), floats(1, 1, 2, 2)),  # no variance
        (codes(), floats()),
    ],
)
def test_too_little_data_is_said_and_no_number_is_made_up(bucket: np.ndarray, values: np.ndarray) -> None:
    for peeking in (False, True):
        metric = Metric("m", values)
        found = compare(bucket, BUCKETS, [metric], "control", peeking=peeking).comparisons[0]
        assert found.verdict == TOO_LITTLE
        assert np.isnan([found.p, found.anytime_p, found.adjusted_p]).all()


def test_a_control_at_zero_has_no_lift_interval() -> None:
    found = compare(codes(0, 0, 0, 1, 1, 1), BUCKETS, [Metric("m", floats(0, 0, 0, 3, 4, 3))], "control").comparisons[0]
    assert found.p < 0.05
    assert found.as_json()["lift"] is None
    assert np.isnan(found.lift_interval.low)


def test_an_unknown_control_is_refused() -> None:
    with pytest.raises(ValueError, match="x is none of the buckets: control, variant"):
        compare(codes(0, 1), BUCKETS, [], "x")


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40))
def test_adjusted_p_values_agree_with_scipy(p: list[float]) -> None:
    assert adjusted(floats(*p)) == pytest.approx(stats.false_discovery_control(p))


def test_an_undefined_p_stays_so_and_counts_as_no_test() -> None:
    assert adjusted(floats(0.01, np.nan, 0.04)) == pytest.approx(floats(0.02, np.nan, 0.04), nan_ok=True)
