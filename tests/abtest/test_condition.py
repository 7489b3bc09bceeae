"""A condition keeps what it said; the same answer must come as if it had been asked anew."""

import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from abtest.condition import Condition, Context, read_condition
from abtest.problems import Report

TYPES = {"s": "str", "i": "int", "f": "float", "b": "bool", "v": "semver"}
TEXT = (
    "missing(context.i) or context.i == 1 and context.b or context.f > 0.5 or context.v >= '1.10' "
    "or context.s in ['1', 'x'] or time.hour == 3"
)
VALUES = st.sampled_from(
    (None, True, False, 0, 1, 1.0, 0.0, -0.0, math.nan, math.inf, "1", "x", "", "1.9", "1.10", "true", ["x"], 2**70)
)


def condition(text: str = TEXT) -> Condition:
    report = Report()
    read = read_condition(report, text, ("when",), Context(TYPES))
    assert read is not None, report.problems
    return read


KEEPING = condition()


@given(st.dictionaries(st.sampled_from(sorted(TYPES)), VALUES), st.sampled_from((0.0, 3 * 3600.0, 1e9)))
def test_what_is_kept_is_what_a_new_condition_says(context: dict[str, Any], now: float) -> None:
    first = KEEPING.holds(context, now)
    assert first is KEEPING.holds(context, now) is condition().holds(context, now)


def test_values_that_python_holds_for_equal_are_told_apart() -> None:
    asked = condition("context.i == 1")
    assert [asked.holds({"i": value}, 0.0) for value in (1, True, 1.0, "1", None, 1)] == [
        True,
        False,
        False,
        False,
        False,
        True,
    ]


def test_the_clock_is_asked_each_time() -> None:
    asked = condition("time.hour == 3 and context.i == 1")
    assert [asked.holds({"i": 1}, hour * 3600.0) for hour in (2, 3, 4, 27)] == [False, True, False, True]


def test_no_more_is_kept_than_fits_and_no_long_text() -> None:
    asked = condition("context.s == 'x' or context.i > 5")
    for number in range(3_000):
        assert asked.holds({"i": number}, 0.0) is (number > 5)
        assert len(asked._kept) <= 1_024
    asked._kept.clear()
    assert not asked.holds({"s": "x" * 100_000}, 0.0)
    assert not asked._kept
