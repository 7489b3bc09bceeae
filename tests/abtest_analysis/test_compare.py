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
from scipy import stats

from abtest.analysis import NO_DIFFERENCE, TOO_LITTLE, Metric, compare
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
        (ours.lift_interval.low, theirs.rel_effect_size_ci_lower),
        (ours.lift_interval.high, theirs.rel_effect_size_ci_upper),
        (ours.p, theirs.pvalue),
        (ours.statistic, theirs.statistic),
    ]
    for mine, his in pairs:
        assert mine == pytest.approx(his, rel=1e-6, abs=1e-6)
    assert ours.p == pytest.approx(theirs.pvalue, rel=1e-6)


def test_cuped_removes_variance_and_keeps_the_effect() -> None:
    bucket, columns = sessions(np.random.default_rng(12), 20_000, lift=0.1)
    plain, corrected = (
        compare(bucket, BUCKETS, [ratio(columns, cuped=cuped)], "control").comparisons[0] for cuped in (False, True)
    )
    assert plain.variance_reduction == 0
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
