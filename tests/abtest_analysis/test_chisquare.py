import numpy as np
import pytest
from scipy import stats

from abtest.analysis.chisquare import cramers_v, goodness_of_fit


def test_goodness_of_fit_agrees_with_scipy() -> None:
    counts = np.array([[480, 520, 1010], [333, 300, 700]])
    fit = goodness_of_fit(counts, [1, 1, 2])
    for line, statistic, p in zip(counts, fit.statistic, fit.p, strict=True):
        expected = stats.chisquare(line, line.sum() * np.array([0.25, 0.25, 0.5]))
        assert (statistic, p) == (pytest.approx(expected.statistic), pytest.approx(expected.pvalue))


def test_a_count_in_a_bucket_of_zero_weight_refutes_the_shares() -> None:
    assert goodness_of_fit(np.array([50, 50, 1]), [1, 1, 0]).p == 0
    assert goodness_of_fit(np.array([50, 50, 0]), [1, 1, 0]).p == 1
    assert goodness_of_fit(np.array([100, 1]), [1, 0]).p == 0


def test_too_few_expected_units_are_no_test() -> None:
    assert np.isnan(goodness_of_fit(np.array([0, 9]), [1, 1]).p)


@pytest.mark.parametrize("weights", [[0, 0], [1, -1], [1, np.nan]])
def test_weights_that_are_no_shares_are_refused(weights: list[float]) -> None:
    with pytest.raises(ValueError, match="weights are at least 0"):
        goodness_of_fit(np.array([50, 50]), weights)


def test_cramers_v_agrees_with_scipy() -> None:
    rng = np.random.default_rng(5)
    left = rng.integers(0, 4, 5_000)
    right = np.where(rng.random(5_000) < 0.1, left % 3, rng.integers(0, 3, 5_000))
    table = np.zeros((4, 3))
    np.add.at(table, (left, right), 1)
    found = cramers_v(left, right)
    assert found.v == pytest.approx(stats.contingency.association(table.astype(int), method="cramer"))
    assert found.p == pytest.approx(stats.chi2_contingency(table, correction=False).pvalue)


def test_cramers_v_is_one_for_equal_codings_and_undefined_without_variation() -> None:
    left = np.arange(1_000) % 5
    assert cramers_v(left, left[::-1]).v == pytest.approx(1)
    assert np.isnan(cramers_v(left, np.zeros(1_000, np.int64)).v)
    assert np.isnan(cramers_v(left[:0], left[:0]).v)


def test_rare_values_are_pooled_so_that_independent_codings_rarely_look_dependent() -> None:
    rng = np.random.default_rng(6)
    shares = [0.0005, 0.0005, 0.001, 0.2, 0.798]
    p = [cramers_v(rng.choice(5, 10_000, p=shares), rng.choice(5, 10_000, p=shares)).p for _ in range(400)]
    assert stats.kstest(p, "uniform").pvalue > 0.001
