import json

import numpy as np
import pytest
from scipy import stats

from abtest.analysis import Metric, check_aa, compare
from abtest.analysis.aa import NO_P, NOT_UNIFORM, TOO_FEW, TOO_MANY, exact_interval, split_p_values, uniformity
from tests.abtest_analysis.data import ratio, sessions


@pytest.mark.parametrize("cuped", [False, True])
def test_a_sound_metric_raises_false_alarms_as_often_as_it_says(cuped: bool) -> None:
    _, columns = sessions(np.random.default_rng(41), 3_000)
    report = check_aa(ratio(columns, cuped=cuped), np.random.default_rng(42), splits=2_000)
    assert report.sound
    assert report.low < 0.05 < report.high
    assert sum(report.histogram) == report.splits == 2_000


def test_one_huge_outlier_makes_a_metric_unsound() -> None:
    values = np.random.default_rng(43).normal(1, 1, 2_000)
    values[0] = 1e6
    report = check_aa(Metric("revenue", values), np.random.default_rng(44))
    assert report.failed == (TOO_FEW, NOT_UNIFORM)
    assert not report.sound
    assert report.as_json()["failed"] == ["too few false positives", "p-values not uniform"]


def test_a_metric_that_is_sound_in_halves_may_not_be_so_at_the_share_that_is_planned() -> None:
    metric = Metric("revenue", np.random.default_rng(5).lognormal(0, 2, 3_000))
    half, tenth = (check_aa(metric, np.random.default_rng(1), share=share) for share in (0.5, 0.1))
    assert half.sound
    assert (tenth.share, tenth.failed) == (0.1, (TOO_MANY,))


@pytest.mark.parametrize("buyers", [10, 30])
def test_a_rare_conversion_is_sound_though_its_p_values_come_in_steps(buyers: int) -> None:
    report = check_aa(_conversion(buyers), np.random.default_rng(2), 5_000)
    assert report.uniformity_p < 0.001
    assert report.discrete
    assert report.sound


def test_a_rare_conversion_is_not_sound_where_it_raises_too_many_false_alarms() -> None:
    report = check_aa(_conversion(50), np.random.default_rng(2), 5_000, share=0.1)
    assert report.discrete
    assert report.failed[0] == TOO_MANY


def test_a_conversion_of_one_unit_is_no_test() -> None:
    report = check_aa(_conversion(1), np.random.default_rng(2))
    assert not report.discrete
    assert report.failed == (TOO_FEW, NOT_UNIFORM)


def _conversion(buyers: int) -> Metric:
    values = np.zeros(3_000)
    values[:buyers] = 1
    return Metric("buyers", values)


def test_rows_that_are_not_the_units_are_found_by_splitting_whole_units() -> None:
    # Each of 300 users has 20 rows that agree; splits by user look at rows as if they were independent.
    rng = np.random.default_rng(45)
    user = rng.normal(0, 1, 300)
    p = []
    for _ in range(200):
        bucket = np.repeat(rng.integers(0, 2, 300), 20)
        metric = Metric("m", np.repeat(user, 20) + rng.normal(0, 0.5, 6_000))
        p.append(compare(bucket, ("a", "b"), [metric], "a").comparisons[0].p)
    assert np.mean(np.array(p) < 0.05) > 0.3


def test_splits_give_the_p_values_that_compare_gives() -> None:
    _, columns = sessions(np.random.default_rng(46), 500)
    metric = ratio(columns, cuped=True)
    found = split_p_values(metric, np.random.default_rng(47), 5, 0.3)
    bucket = (np.random.default_rng(47).random((5, 500), np.float32) < 0.3).astype(np.int64)
    expected = [compare(each, ("a", "b"), [metric], "a").comparisons[0].p for each in bucket]
    assert found == pytest.approx(expected, rel=1e-9)


def test_a_constant_metric_has_no_p_and_is_not_sound() -> None:
    report = check_aa(Metric("m", np.ones(100)), np.random.default_rng(48), splits=20)
    assert (report.undefined, report.failed, report.sound) == (20, (NO_P,), False)
    assert json.loads(json.dumps(report.as_json(), allow_nan=False))["uniformity_p"] is None


def test_the_exact_interval_agrees_with_scipy() -> None:
    for hits, trials in ((0, 20), (3, 20), (20, 20)):
        expected = stats.binomtest(hits, trials).proportion_ci(0.99, "exact")
        assert exact_interval(hits, trials, 0.99) == pytest.approx((expected.low, expected.high))


def test_uniformity_agrees_with_scipy() -> None:
    for power in (1.0, 1.05, 1.2):
        values = np.sort(np.random.default_rng(49).random(800) ** power)
        assert uniformity(values) == pytest.approx(stats.kstest(values, "uniform").pvalue, rel=0.05, abs=1e-4)


def test_too_few_units_are_refused() -> None:
    with pytest.raises(ValueError, match="A/A needs 4 units"):
        check_aa(Metric("m", np.ones(3)), np.random.default_rng(0))
