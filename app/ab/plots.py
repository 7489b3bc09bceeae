"""Inline SVG for reports: shapes only. All text stands in HTML beside it, so that it stays readable when narrow."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from abtest.analysis import Comparison, Interval

WIDTH, HEIGHT, STRIP = 1000.0, 160.0, 40.0
COLOURS = ("#7a8594", "#0b66c3", "#b3541e", "#5b7f2b", "#7d4aa8", "#9c7a00")
"""The control's, then the treatments'."""

_TONES = {"good": "#1a7f4b", "bad": "#c0392b", "plain": "#0b66c3", "none": "#5d6773"}


def reach_of(comparisons: Iterable[Comparison]) -> float:
    """The lift at both ends of the common scale: the widest fixed interval fits, with a little room."""
    ends = [abs(end) for one in comparisons for end in (one.lift_interval.low, one.lift_interval.high)]
    return 1.15 * max((end for end in ends if math.isfinite(end)), default=0.0) or 0.01


def lift_strip(comparison: Comparison, reach: float, tone: str) -> str:
    """An SVG of one lift: thick its interval, thin the anytime one (cut at the scale's ends), a line at zero."""
    colour = _TONES[tone]
    middle, half = STRIP / 2, STRIP / 5
    parts = [f'<line x1="{WIDTH / 2:.0f}" x2="{WIDTH / 2:.0f}" y1="0" y2="{STRIP:.0f}" class="zero"/>']
    parts += _span(comparison.anytime_lift_interval, reach, middle - 1.5, 3, colour, 0.45)
    parts += _span(comparison.lift_interval, reach, middle - half, 2 * half, colour, 0.35)
    if math.isfinite(comparison.lift):
        at = _x(comparison.lift, reach)
        tall = 3.2 * half
        parts.append(
            f'<rect x="{at - 2:.1f}" y="{middle - tall / 2:.1f}" width="4" height="{tall:.1f}" fill="{colour}"/>'
        )
    label = f"lift {comparison.lift:+.2%}" if math.isfinite(comparison.lift) else "no lift"
    return _svg(STRIP, label, parts)


def day_bars(days: Sequence[int], counts: Sequence[Sequence[int]]) -> str:
    """An SVG of exposures: a group of bars for each day, a bar for each bucket; `counts[bucket][day]`.

    `days` are consecutive or have gaps, which stay empty.
    """
    first, last = min(days), max(days)
    top = max((count for series in counts for count in series), default=0) or 1
    step = WIDTH / (last - first + 1)
    thick = min(step * 0.8 / len(counts), 60.0)
    parts = []
    for bucket, series in enumerate(counts):
        for day, count in zip(days, series, strict=True):
            left = (day - first + 0.5) * step + (bucket - len(counts) / 2) * thick
            tall = count / top * HEIGHT
            parts.append(
                f'<rect x="{left:.1f}" y="{HEIGHT - tall:.1f}" width="{thick * 0.92:.1f}" height="{tall:.1f}" '
                f'fill="{COLOURS[bucket % len(COLOURS)]}"/>'
            )
    return _svg(HEIGHT, "exposures per day", parts)


def _span(bounds: Interval, reach: float, top: float, tall: float, colour: str, opacity: float) -> list[str]:
    if not (math.isfinite(bounds.low) and math.isfinite(bounds.high)):
        return []
    low, high = _x(bounds.low, reach), _x(bounds.high, reach)
    return [
        f'<rect x="{low:.1f}" y="{top:.1f}" width="{high - low:.1f}" height="{tall:.1f}" fill="{colour}" '
        f'opacity="{opacity}"/>'
    ]


def _x(lift: float, reach: float) -> float:
    return WIDTH / 2 * (1 + max(-1.0, min(1.0, lift / reach)))


def _svg(height: float, label: str, parts: Iterable[str]) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH:.0f} {height:.0f}" preserveAspectRatio="none" role="img" aria-label="{label}">'
        f"{''.join(parts)}</svg>"
    )
