"""Who is compared, and how long a slice of time is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from abtest.analysis import enrol
from app.ab.enrolled import Enrolled, Gatherer, Key
from app.ab.errors import AbError
from app.ab.exposures import read_exposures
from app.ab.population import LeftOut, compared, compared_slices, slice_length
from app.ab.window import Window
from tests.ab.logs import NOON, record, written

DAY = 86_400.0


def slices(times: list[float], every: int) -> Enrolled:
    gatherer = Gatherer(Key("home", "rank", "e", 1, "slice"))
    for time in times:
        gatherer.draw(str(int(time // every)), "slice", "ab"[int(time // every) % 2], time)
    return gatherer.done()


def test_each_unit_is_left_out_once_and_for_one_reason(tmp_path: Path) -> None:
    rows = [record(f"u{number}", "control", NOON + number * DAY) for number in range(6)]
    rows += [record("u0", "diverse", NOON + 9), record("u1", "diverse", NOON, reason="whitelist")]
    (enrolled,) = read_exposures(
        [written(tmp_path / "e.jsonl", rows)],
    ).enrolled
    everyone = enrol(enrolled.exposures())
    kept, left_out = compared(everyone, enrolled, Window(within=2 * DAY), NOON + 5 * DAY)
    assert [enrolled.units[unit] for unit in kept.unit] == ["u2", "u3"]
    assert left_out == LeftOut(crossed=1, chosen=1, waiting=2)
    kept, left_out = compared(everyone, enrolled, Window(), NOON + 3 * DAY)
    assert [enrolled.units[unit] for unit in kept.unit] == ["u2", "u3"]
    assert left_out.waiting == 2


def test_a_day_that_began_before_the_first_exposure_may_have_passed() -> None:
    gatherer = Gatherer(Key("home", "rank", "e", 1, "user_id"))
    gatherer.draw("u", "user_id", "a", NOON)
    enrolled = gatherer.done()
    everyone, midnight = enrol(enrolled.exposures()), NOON - 43_200
    for until, count in ((midnight + 7 * DAY, 1), (midnight + 6 * DAY, 0)):
        assert len(compared(everyone, enrolled, Window(within=7 * DAY), until, DAY)[0]) == count


def test_slices_that_arent_whole_in_the_data_are_left_out() -> None:
    hour = NOON // 3_600 * 3_600
    enrolled = slices([hour + 10, hour + 3_601, hour + 9_000, hour + 10_800], 3_600)
    everyone = enrol(enrolled.exposures())
    kept, left_out = compared_slices(everyone, enrolled, 3_600, hour + 4 * 3_600 - 1)
    assert kept.first.tolist() == [hour + 3_600, hour + 7_200]
    assert left_out == LeftOut(partial=2)
    kept, left_out = compared_slices(everyone, enrolled, 3_600, hour + 4 * 3_600)
    assert (len(kept), left_out.partial) == (3, 1)
    on_time = slices([hour, hour + 3_601], 3_600)
    assert len(compared_slices(enrol(on_time.exposures()), on_time, 3_600, np.inf)[0]) == 2


@given(
    st.sampled_from([60, 900, 1_800, 3_600, 7_200, 43_200, 86_400]),
    st.lists(st.floats(0, 30 * DAY), min_size=1, max_size=40),
)
def test_the_log_tells_how_long_a_slice_is(every: int, since: list[float]) -> None:
    enrolled = slices([NOON + each for each in since], every)
    assert slice_length(enrolled, None) == every
    assert slice_length(enrolled, every) == every
    with pytest.raises(AbError, match="don't fit the 3,660 seconds of the configuration"):
        slice_length(enrolled, 3_660)


def test_a_slice_of_which_nothing_is_known_wants_the_configuration() -> None:
    with pytest.raises(AbError, match=r"doesn't tell how long they are. Give --config DIR with slices"):
        slice_length(slices([NOON], 30 * 86_400), None)
    gatherer = Gatherer(Key("home", "rank", "e", 1, "slice"))
    gatherer.draw("noon", "slice", "a", NOON)
    with pytest.raises(AbError, match="a time slice has no number: 'noon'"):
        slice_length(gatherer.done(), 3_600)
