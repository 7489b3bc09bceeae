import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from abtest.analysis import Attribute, Exposures, enrol, sums, sums_before
from tests.abtest_analysis.data import codes, floats


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
