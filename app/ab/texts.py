"""Numbers and findings as people read them, in the terminal and on the page."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from abtest.analysis import NO_DIFFERENCE, TOO_LITTLE, Comparison, Interval, SampleRatio, SrmReport
from app.cli.table import clean, table


def p_value(p: float) -> str:
    """`0.11`, `<0.0001`, or nothing where it is undefined."""
    if math.isnan(p):
        return "–"
    return "<0.0001" if p < 0.0001 else f"{p:.4f}" if p < 0.1 else f"{p:.2f}"


def value(number: float) -> str:
    """A metric's value in four digits."""
    return "–" if math.isnan(number) else f"{number:,.0f}" if abs(number) >= 10_000 else f"{number:.4g}"


def percent(share: float) -> str:
    """A relative change with its sign."""
    return "–" if math.isnan(share) else f"{share:+.2%}" if abs(share) < 0.1 else f"{share:+.1%}"


def interval(bounds: Interval) -> str:
    """A relative interval."""
    return "–" if math.isnan(bounds.low) else f"{percent(bounds.low)} to {percent(bounds.high)}"


def reduction(one: Comparison) -> str:
    """The share of the variance that CUPED removed; empty where there is none to tell."""
    share = one.variance_reduction
    return "" if share is None or not math.isfinite(share) else f"{share:.0%}"


def level(alpha: float) -> str:
    """The level of an interval, 1 - alpha, in as many digits as it has."""
    return percentage(1 - alpha)


def percentage(share: float) -> str:
    """A share in as many digits as it has: `5%`, `99.9%`."""
    return f"{100 * share:.10g}%"


def srm_table(report: SrmReport, groups: Iterable[SampleRatio]) -> str:
    """One line for each test: overall, and the groups given."""
    header = ("", "", *report.buckets, "expected", "p", "")
    rows = []
    for test in (report.overall, *groups):
        counts = [f"{count:,}" for count in test.counts]
        shares = expected_counts(test)
        name = "all" if test.family == "overall" else test.family
        adjusted = p_value(test.adjusted_p)
        rows.append([name, clean(test.group), *counts, shares, adjusted, "MISMATCH" if test.mismatch else ""])
    right = frozenset(range(2, 4 + len(report.buckets)))
    return table(header, rows, right=right)


def expected_counts(test: SampleRatio) -> str:
    """What the weights promise of so many units."""
    return " : ".join(f"{count:,.0f}" if count.is_integer() else f"{count:,.1f}" for count in test.expected)


def srm_verdict(report: SrmReport) -> str:
    """One sentence."""
    if report.sound:
        doubt = " (too few units to tell)" if math.isnan(report.overall.p) else ""
        return f"The split of {report.units:,} units is as it was meant{doubt}: p {p_value(report.overall.p)}."
    parts = []
    if report.mismatch:
        wrong = [test for test in (report.overall, *report.groups) if test.mismatch]
        where = ", ".join(
            "overall" if test.family == "overall" else f"{test.family} {test.group}" for test in wrong[:3]
        )
        more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
        parts.append(f"Sample-ratio mismatch ({where}{more}): the buckets don't hold the shares that were meant.")
    if report.crossed:
        parts.append(f"{report.crossed:,} unit{'s were' if report.crossed != 1 else ' was'} in two buckets.")
    return " ".join([*parts, "No comparison of these buckets can be trusted."])


def comparisons_table(comparisons: Sequence[Comparison], formulas: dict[str, str], *, peeking: bool) -> str:
    """One line for each metric and treatment."""
    header = ("metric", "of", "bucket", "control", "treatment", "lift", _header(peeking), "p", "adjusted p", "verdict")
    rows = [
        [
            clean(one.metric),
            clean(formulas.get(one.metric, "")),
            clean(one.treatment.bucket),
            value(one.control.value),
            value(one.treatment.value),
            percent(one.lift),
            interval(one.anytime_lift_interval if peeking else one.lift_interval),
            p_value(one.anytime_p if peeking else one.p),
            p_value(one.adjusted_p),
            one.verdict,
        ]
        for one in comparisons
    ]
    return table(header, rows, right=frozenset((3, 4, 5, 7, 8)))


def _header(peeking: bool) -> str:
    return "anytime interval" if peeking else "interval"


def tone(verdict: str) -> str:
    """`good`, `bad`, `none` or `plain`, for colours."""
    if verdict in (NO_DIFFERENCE, TOO_LITTLE):
        return "none"
    return {"better": "good", "worse": "bad"}.get(verdict, "plain")
