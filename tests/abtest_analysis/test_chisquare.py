import numpy as np
import pytest
from scipy import special, stats

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


@pytest.mark.parametrize("share", [0.2, 0.1, 0.05, 0.01])
@pytest.mark.parametrize("groups", [1, 14, 100])
def test_two_uneven_buckets_rarely_look_wrong_however_few_units_there_are(share: float, groups: int) -> None:
    for expected in (5, 10, 25, 99):
        units = round(expected / share)
        first = np.arange(units + 1)
        chances = stats.binom.pmf(first, units, share)
        fit = goodness_of_fit(np.stack([first, units - first], 1), (share, 1 - share))
        assert fit.exact.all()
        assert chances[fit.p * groups < 0.0005].sum() * groups <= 0.0005


@pytest.mark.parametrize("groups", [1, 14])
def test_three_uneven_buckets_rarely_look_wrong_either(groups: int) -> None:
    weights = np.array([1, 4, 15]) / 20
    units = 120
    first, second = (each.ravel() for each in np.indices((units + 1, units + 1)))
    kept = first + second <= units
    counts = np.stack([first, second, units - first - second], 1)[kept]
    ways = special.gammaln(units + 1) - special.gammaln(counts + 1).sum(1)
    chances = np.exp(ways + counts @ np.log(weights))
    p = goodness_of_fit(counts, weights).p
    assert chances.sum() == pytest.approx(1)
    assert chances[p * groups < 0.0005].sum() * groups <= 0.0005


def test_few_uneven_units_are_tested_by_their_binomial_tails() -> None:
    fit = goodness_of_fit(np.array([[0, 80], [8, 72], [20, 60]]), (1, 9))
    tails = [stats.binom.cdf(0, 80, 0.1), 0.5, stats.binom.sf(19, 80, 0.1)]
    assert fit.p == pytest.approx(2 * np.array(tails))
    assert fit.exact.all()
    three = goodness_of_fit(np.array([20, 20, 60]), (1, 3, 6))
    assert three.p == pytest.approx(6 * stats.binom.sf(19, 100, 0.1))


def test_even_buckets_and_many_units_are_tested_by_chi_square() -> None:
    for counts, weights in (([40, 60], (1, 1)), ([30, 50, 40], (5, 5, 5)), ([120, 880], (1, 9))):
        fit = goodness_of_fit(np.array(counts), weights)
        shares = np.array(weights) / sum(weights)
        assert not fit.exact
        assert fit.p == pytest.approx(stats.chisquare(counts, sum(counts) * shares).pvalue)


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
