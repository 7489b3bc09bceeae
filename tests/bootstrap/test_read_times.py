from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bootstrap.errors import InputError
from bootstrap.source import Memory
from bootstrap.times import epoch_seconds, parse_time

NOON = datetime(2011, 12, 9, 12, 50, tzinfo=UTC)
EPOCH = NOON.timestamp()


def seconds(values, kind=None):
    source = Memory("x", pa.table({"t": pa.array(values, kind)}))
    return epoch_seconds(source, "t", source.column("t"))


@pytest.mark.parametrize(
    "text",
    [
        "2011-12-09T12:50:00Z",
        "2011-12-09 12:50",
        "2011-12-09 12:50:00 UTC",
        "2011-12-09 12:50:00.000000000",
        "2011-12-09T14:20:00+01:30",
        "2011-12-09 07:50:00-0500",
        "2011-12-09 07:50:00 -0500",
        "2011/12/09 12:50:00",
        " 2011-12-09 12:50:00 ",
        "1323435000",
        "1323435000.0",
        "1323435000000",
    ],
)
def test_text_in_any_common_form_is_one_instant(text):
    assert seconds([text, None, ""]).tolist()[:1] == [EPOCH]
    assert np.isnan(seconds([text, None, ""])[1:]).all()


@pytest.mark.parametrize(
    ("factor", "kind"), [(1, pa.int64()), (1e3, pa.int64()), (1e6, pa.float64()), (1e9, pa.int64())]
)
def test_numbers_tell_their_unit_by_magnitude(factor, kind):
    values = [EPOCH * factor, (EPOCH + 60) * factor]
    np.testing.assert_allclose(seconds(pa.array(values).cast(kind)), [EPOCH, EPOCH + 60])


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_typed_times_and_zones_are_utc(unit):
    assert seconds([NOON.replace(tzinfo=None)], pa.timestamp(unit)).tolist() == [EPOCH]
    eastern = NOON.astimezone(timezone(timedelta(hours=-5)))
    assert seconds([eastern], pa.timestamp(unit, "America/New_York")).tolist() == [EPOCH]


def test_dates_are_midnights():
    midnight = datetime(2011, 12, 9, tzinfo=UTC).timestamp()
    assert seconds([date(2011, 12, 9)]).tolist() == [midnight]
    assert seconds(["2011-12-09"]).tolist() == [midnight]
    assert seconds([20111209, 20111209]).tolist() == [midnight, midnight]


def test_a_day_over_twelve_tells_day_from_month():
    first = datetime(2010, 12, 1, 8, 26, tzinfo=UTC).timestamp()
    assert seconds(["12/1/2010 8:26", "12/13/2010 9:00"])[0] == first
    assert seconds(["1.12.2010 08:26", "13.12.2010 09:00"])[0] == first
    with pytest.raises(InputError, match="row 2 column t: 'soon'"):
        seconds(["12/13/2010 8:26", "soon", "12/1/2010"])
    with pytest.raises(InputError, match="column t: could be day/month or month/day"):
        seconds(["12/1/2010 8:26"])


@pytest.mark.parametrize("bad", ["yesterday", "2011-02-30", "2011-13-01", "12:50"])
def test_what_is_no_time_names_row_column_and_value(bad):
    with pytest.raises(InputError, match=f"x row 3 column t: '{bad}' is no time. Expected epoch seconds"):
        seconds(["2011-12-09", "2011-12-09", bad, "2011-12-10", bad])


def test_units_that_differ_within_a_column_are_an_error():
    with pytest.raises(InputError, match="row 2 column t: 1323435000 isn't in the unit of the others"):
        seconds([1323435000000, 1323435000])
    with pytest.raises(InputError, match="row 2 column t: inf"):
        seconds([1323435000.0, float("inf")])


def test_a_type_that_is_no_time_is_an_error():
    with pytest.raises(InputError, match="column t: has type bool"):
        seconds([True])


@given(st.datetimes(datetime(1975, 1, 1), datetime(2100, 1, 1)))
def test_iso_text_round_trips(moment):
    expected = moment.replace(tzinfo=UTC).timestamp()
    assert seconds([moment.isoformat()])[0] == pytest.approx(expected, abs=1e-6)
    assert parse_time(moment.isoformat()) == pytest.approx(expected, abs=1e-6)


def test_one_time_as_a_person_types_it():
    assert parse_time("2011-12-09T12:50:00") == EPOCH
    assert parse_time("1323435000") == EPOCH
    for text in ("soon", "", "nan", "12/1/2010"):
        with pytest.raises(ValueError, match="Expected epoch seconds"):
            parse_time(text)
