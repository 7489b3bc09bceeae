"""Events joined with exposures: each is counted once, and for a reason."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from abtest.analysis import enrol
from app.ab.enrolled import Gatherer, Key
from app.ab.errors import AbError
from app.ab.events import Events, Whose, read_events
from app.ab.lines import Unread
from app.ab.measure import Measuring, joined, measured
from app.ab.metrics import Formula, Term, formulas
from app.ab.resolution import check_resolutions, resolutions, said_of_times
from app.ab.window import Window
from tests.ab.logs import NOON, event, written

REVENUE = Formula("revenue", Term("sum", "buy"))


def two() -> Gatherer:
    gatherer = Gatherer(Key("home", "rank", "e", 1, "user_id"))
    gatherer.draw("u1", "user_id", "control", NOON)
    gatherer.draw("u2", "user_id", "diverse", NOON)
    return gatherer


@given(
    st.lists(st.tuples(st.integers(-1, 2), st.sampled_from(["x", "y"]), st.integers(-5, 9)), max_size=30),
    st.integers(-5, 9),
)
def test_every_event_is_counted_once(rows: list[tuple[int, str, int]], until: int) -> None:
    enrolled = two().done()
    enrolment = enrol(enrolled.exposures()).take(np.array([0]))
    kept = [row for row in rows if row[0] >= 0]
    names = sorted({name for _, name, _ in kept})
    events = Events(
        [*enrolled.units, "u3"],
        np.array([unit for unit, _, _ in kept], np.int64),
        np.array([names.index(name) for _, name, _ in kept], np.int64),
        names,
        np.array([NOON + time + 0.5 for *_, time in kept], np.float64),
        np.full(len(kept), np.nan),
        {name: sum(name == other for _, other, _ in rows) for name in ("x", "y")},
        Unread(),
        NOON,
    )
    found = joined(enrolment, events.before(NOON + until), Measuring([], Window(within=4.0), {}))
    counts = found.as_json()
    assert counts.pop("read") == len(rows) == sum(counts.values())
    mine = [time + 0.5 for unit, _, time in rows if unit == 0 and time + 0.5 < until]
    assert found.inside == sum(0 <= time < 4 for time in mine)
    assert found.before == sum(time < 0 for time in mine)


def test_events_without_a_value_are_counted_by_bucket_and_add_nothing(tmp_path: Path) -> None:
    rows = [event("u1", "buy", NOON + 1.5, value=2.0)]
    rows += [event("u1", "buy", NOON + 1.5), event("u2", "buy", NOON + 1.5), event("u2", "buy", NOON + 2.5)]
    events = read_events(written(tmp_path / "e.jsonl", rows), Whose(["u1", "u2"], "user_id"), {})
    enrolled = two().done()
    enrolment = enrol(enrolled.exposures())
    per_order = Formula("per_order", Term("sum", "buy"), Term("count", "buy"))
    how = Measuring([REVENUE, per_order], Window(), {})
    assert joined(enrolment, events, how).valueless == {"buy": {"control": 1, "diverse": 2}}
    revenue, ratio = measured(enrolled, enrolment, events, how)
    assert revenue.numerator.tolist() == [2.0, 0.0]
    assert ratio.denominator is not None
    assert ratio.denominator.tolist() == [2.0, 2.0]
    how = replace(how, formulas=[Formula("buyers", Term("any", "buy"))])
    assert joined(enrolment, events, how).valueless == {}


def test_values_beyond_all_numbers_are_told(tmp_path: Path) -> None:
    rows = [event("u1", "buy", NOON + 1, value=1.7e308)] * 2
    events = read_events(written(tmp_path / "e.jsonl", rows), Whose(["u1", "u2"], "user_id"), {})
    enrolled = two().done()
    with pytest.raises(AbError, match=r"revenue=sum\(buy\): the values are too large"):
        measured(enrolled, enrol(enrolled.exposures()), events, Measuring([REVENUE], Window(), {}))


def test_each_event_has_a_resolution_of_its_own(tmp_path: Path) -> None:
    rows = [event("u1", "click", NOON + 0.25), event("u1", "buy", "2026-11-18"), event("u1", "see", NOON + 7)]
    events = read_events(written(tmp_path / "e.jsonl", rows), Whose(["u1"], "user_id"), {})
    wanted = formulas(["r=buy/see", "c=click", "x=click/exposures"], None, [])
    found = resolutions(events, wanted)
    assert found == {"buy": 86_400.0, "see": 1.0}
    after = "that of the first exposure counts as after it"
    assert said_of_times(found, Window(before=86_400.0)) == [
        f"Times of see are whole seconds: {after}, and what corrects ends a second before it.",
        f"Times of buy are whole days: {after}, and what corrects ends a day before it.",
    ]


@pytest.mark.parametrize(
    ("window", "every", "said"),
    [
        (Window(within=43_200.0), None, "--within of 12h: the times of buy are whole days"),
        (Window(before=90_000.0), None, "--cuped of 25h: the times of buy are whole days"),
        (Window(), 3_600, "a time slice of 1h: the times of buy are whole days"),
    ],
)
def test_windows_that_times_cant_tell_are_refused(window: Window, every: int | None, said: str) -> None:
    with pytest.raises(AbError) as caught:
        check_resolutions({"see": 1.0, "buy": 86_400.0}, window, every)
    assert said in str(caught.value)
    check_resolutions({"buy": 86_400.0}, Window(7 * 86_400.0, 14 * 86_400.0), 86_400)
