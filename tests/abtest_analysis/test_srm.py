import json

import numpy as np
import pytest
from scipy import special, stats

from abtest.analysis import THRESHOLD, Attribute, check_srm
from abtest.analysis.chisquare import goodness_of_fit
from tests.abtest_analysis.data import codes, exposures


def test_an_even_split_is_sound() -> None:
    report = check_srm(exposures(np.arange(10_000), np.arange(10_000) % 2), (5000, 5000))
    assert report.sound
    assert report.overall.counts == (5000, 5000)
    assert report.overall.p == 1


def test_lost_units_are_a_mismatch() -> None:
    bucket = (np.arange(100_000) >= 51_000).astype(np.int64)
    report = check_srm(exposures(np.arange(100_000), bucket), (1, 1))
    assert report.mismatch
    assert not report.sound
    assert report.overall.chi_square == pytest.approx(40)
    assert report.overall.p < THRESHOLD


def test_repeated_exposures_of_a_unit_count_once() -> None:
    unit = np.concatenate([np.arange(1_000), np.repeat(np.arange(0, 1_000, 2), 9)])
    report = check_srm(exposures(unit, unit % 2), (1, 1))
    assert report.units == 1_000
    assert report.sound


def test_a_unit_in_two_buckets_is_unsound_even_where_shares_are_right() -> None:
    unit = np.concatenate([np.arange(1_000), codes(4)])
    bucket = np.concatenate([np.arange(1_000) % 2, codes(1)])
    report = check_srm(exposures(unit, bucket), (1, 1))
    assert (report.crossed, report.units, report.mismatch, report.sound) == (1, 999, False, False)


def test_a_loss_in_one_region_on_one_day_is_found_there() -> None:
    unit = np.arange(40_000)
    bucket, region = unit % 2, unit // 2 % 4
    lost = (region == 3) & (bucket == 1) & (unit % 9 == 0)
    region_names = Attribute(region[~lost], ("north", "south", "east", "west"))
    day = Attribute(np.zeros_like(unit[~lost]), ("2026-12-01",))
    more = {"day": day, "attributes": {"region": region_names}}
    report = check_srm(exposures(unit[~lost], bucket[~lost], **more), (1, 1))
    assert [(group.family, group.group) for group in report.groups if group.mismatch] == [("region", "west")]
    assert not report.overall.mismatch
    assert report.mismatch


def test_units_without_an_attribute_are_a_group_of_their_own() -> None:
    unit = np.arange(200)
    attributes = {"region": Attribute(np.where(unit < 100, -1, 0), ("north", "unused"))}
    report = check_srm(exposures(unit, unit % 2, attributes=attributes), (1, 1))
    assert [group.group for group in report.groups] == ["(none)", "north"]


def test_the_p_of_a_group_pays_for_the_number_of_groups() -> None:
    unit = np.arange(14_000)
    day = Attribute(unit // 1_000, tuple(f"day {day:02}" for day in range(14)))
    bucket = unit % 2
    bucket[:70] = 0
    report = check_srm(exposures(unit, bucket, day=day), (1, 1))
    assert report.groups[0].adjusted_p == pytest.approx(14 * report.groups[0].p)


def test_days_of_a_small_bucket_are_tested_exactly() -> None:
    # 10 of 50 where 5 were expected, one of 14 such days: chi-square says p = 0.018, alarms come 8 times too often.
    unit = np.arange(14 * 50)
    bucket = (unit % 50 >= 5).astype(np.int64)
    bucket[5:15] = 0
    report = check_srm(
        exposures(unit, bucket, day=Attribute(unit // 50, tuple(f"{day:02}" for day in range(14)))), (1, 9)
    )
    first = report.groups[0]
    assert (first.counts, first.exact, report.overall.exact) == ((15, 35), True, True)
    assert first.p == pytest.approx(2 * stats.binom.sf(14, 50, 0.1))
    assert first.adjusted_p > THRESHOLD > 14 * special.chdtrc(1, first.chi_square)
    assert report.sound


def test_a_small_bucket_that_lost_most_of_its_units_is_found() -> None:
    report = check_srm(exposures(np.arange(500), (np.arange(500) >= 15).astype(np.int64)), (1, 9))
    assert report.overall.exact
    assert report.mismatch


def test_a_sound_split_rarely_raises_an_alarm() -> None:
    rng = np.random.default_rng(2)
    counts = rng.multinomial(20_000, [0.2, 0.3, 0.5], size=200_000)
    alarms = int((goodness_of_fit(counts, (2, 3, 5)).p < THRESHOLD).sum())
    # 100 expected; five standard deviations.
    assert 50 <= alarms <= 150


def test_a_split_that_is_one_percent_off_is_found_in_a_million_units() -> None:
    rng = np.random.default_rng(3)
    counts = rng.multinomial(1_000_000, [0.505, 0.495], size=1_000)
    assert (goodness_of_fit(counts, (1, 1)).p < THRESHOLD).all()


def test_the_report_is_json() -> None:
    data = json.loads(json.dumps(check_srm(exposures(codes(1), codes(0)), (1, 1)).as_json(), allow_nan=False))
    assert data["overall"]["p"] is None
    assert (data["mismatch"], data["sound"]) == (False, True)


def test_as_many_weights_as_buckets_are_needed() -> None:
    with pytest.raises(ValueError, match="3 weights for 2 buckets"):
        check_srm(exposures(codes(1), codes(0)), (1, 1, 1))
