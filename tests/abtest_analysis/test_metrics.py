from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from abtest.analysis import Attribute, Exposures, enrol, sums, sums_before
from abtest.analysis.metrics import resolution
from tests.abtest_analysis.data import codes, exposures, floats


def _exposures() -> Exposures:
    return Exposures(
        unit=codes(7, 3, 7, 9, 9),
        bucket=codes(1, 0, 1, 0, 1),
        buckets=("control", "variant"),
        time=floats(20, 10, 15, 5, 6),
        day=Attribute(codes(1, 0, 0, 0, 0), ("mon", "tue")),
        attributes={"region": Attribute.encode(["north", None, "south", "north", "north"])},
    )


def test_a_unit_is_enrolled_once_with_what_held_at_its_first_exposure() -> None:
    enrolment = enrol(_exposures())
    assert enrolment.unit.tolist() == [3, 7]
    assert enrolment.bucket.tolist() == [0, 1]
    assert enrolment.first.tolist() == [10, 15]
    assert enrolment.day is not None
    assert enrolment.day.codes.tolist() == [0, 0]
    region = enrolment.attributes["region"]
    assert [region.values[code] if code >= 0 else None for code in region.codes] == [None, "south"]


def test_a_unit_in_two_buckets_is_left_out_and_named() -> None:
    assert enrol(_exposures()).crossed.tolist() == [9]


def test_events_count_from_the_first_exposure_on_and_only_for_the_enrolled() -> None:
    enrolment = enrol(_exposures())
    unit, time = codes(3, 3, 3, 7, 9, 1000, -5), floats(9, 10, 40, 16, 50, 50, 50)
    value = floats(1, 2, 4, 8, 16, 32, 64)
    assert sums(enrolment, unit, time, value).tolist() == [6, 8]
    assert sums(enrolment, unit, time).tolist() == [2, 1]
    assert sums(enrolment, unit, time, value, within=30).tolist() == [2, 8]


def test_the_covariate_sums_what_lies_before_the_first_exposure() -> None:
    enrolment = enrol(_exposures())
    unit, time, value = codes(3, 3, 3, 7), floats(1, 9.5, 10, 14), floats(1, 2, 4, 8)
    assert sums_before(enrolment, unit, time, value).tolist() == [3, 8]
    assert sums_before(enrolment, unit, time, value, within=1).tolist() == [2, 8]


def test_no_exposures_enrol_nobody() -> None:
    nothing = codes()
    enrolment = enrol(Exposures(nothing, nothing, ("a", "b"), floats()))
    assert len(enrolment) == 0
    assert len(enrolment.crossed) == 0
    assert len(sums(enrolment, codes(1), floats(1))) == 0


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 1), st.integers(0, 9)), max_size=30),
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 9), st.integers(-3, 3)), max_size=30),
)
def test_enrolment_and_sums_agree_with_a_dictionary(
    seen: list[tuple[int, int, int]], events: list[tuple[int, int, int]]
) -> None:
    buckets: dict[int, set[int]] = {}
    first: dict[int, int] = {}
    for unit, bucket, time in seen:
        buckets.setdefault(unit, set()).add(bucket)
        first[unit] = min(time, first.get(unit, time))
    enrolled = sorted(unit for unit, held in buckets.items() if len(held) == 1)
    table = np.array(seen, np.int64).reshape(-1, 3)
    enrolment = enrol(Exposures(table[:, 0], table[:, 1], ("a", "b"), table[:, 2].astype(np.float64)))
    assert enrolment.unit.tolist() == enrolled
    assert sorted(enrolment.crossed.tolist()) == sorted(set(buckets) - set(enrolled))
    assert enrolment.first.tolist() == [first[unit] for unit in enrolled]
    happened = np.array(events, np.float64).reshape(-1, 3)
    got = sums(enrolment, happened[:, 0].astype(np.int64), happened[:, 1], happened[:, 2])
    assert got.tolist() == [sum(v for u, t, v in events if u == unit and t >= first[unit]) for unit in enrolled]


def test_rows_of_an_enrolment_keep_their_columns() -> None:
    enrolment = enrol(_exposures())
    kept = enrolment.take(np.array([1]))
    assert (kept.unit.tolist(), kept.bucket.tolist(), kept.first.tolist(), kept.crossed.tolist()) == (
        [7],
        [1],
        [15],
        [9],
    )
    assert kept.day is not None
    assert (len(kept.day), len(kept.attributes["region"])) == (1, 1)


@pytest.mark.parametrize(
    ("times", "seconds"),
    [
        ((), 0.0),
        ((1.5,), 0.0),
        ((1.0, 2.5), 0.0),
        ((61.0, 120.0), 1.0),
        ((60.0, 7_200.0), 60.0),
        ((3_600.0, 7_200.0), 3_600.0),
        ((86_400.0, 864_000.0), 86_400.0),
    ],
)
def test_the_resolution_is_the_largest_unit_of_which_all_times_are_multiples(
    times: tuple[float, ...], seconds: float
) -> None:
    assert resolution(floats(*times)) == seconds


def test_an_event_of_the_second_of_the_first_exposure_comes_after_it() -> None:
    enrolment = enrol(exposures(codes(1), codes(0)))
    enrolment = replace(enrolment, first=floats(10.7))
    unit, time = codes(1, 1, 1, 1), floats(8, 9, 10, 13)
    assert sums(enrolment, unit, time).tolist() == [1]
    assert sums(enrolment, unit, time, unit_of_time=1.0).tolist() == [2]
    assert sums(enrolment, unit, time, within=3.0, unit_of_time=1.0).tolist() == [1]
    assert sums_before(enrolment, unit, time).tolist() == [3]
    assert sums_before(enrolment, unit, time, unit_of_time=1.0).tolist() == [1]
    assert sums_before(enrolment, unit, time, within=1.0, unit_of_time=1.0).tolist() == [1]
    assert sums_before(enrolment, unit, time, within=1.0).tolist() == [1]


@given(st.floats(0, 400_000), st.floats(0, 400_000), st.sampled_from([1.0, 60.0, 86_400.0]), st.booleans())
def test_times_that_were_cut_off_or_rounded_put_nothing_that_came_after_into_the_covariate(
    first: float, happened: float, unit_of_time: float, rounded: bool
) -> None:
    enrolment = replace(enrol(exposures(codes(1), codes(0))), first=floats(first))
    said = (np.round if rounded else np.floor)(happened / unit_of_time) * unit_of_time
    before = sums_before(enrolment, codes(1), floats(said), unit_of_time=unit_of_time)
    after = sums(enrolment, codes(1), floats(said), unit_of_time=unit_of_time)
    assert before[0] == 0 or happened < first
    assert happened < first or after[0] == 1
