"""An analysis as one HTML file: no scripts, no requests, readable on a phone and on paper."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

import numpy as np

from abtest.analysis import Comparison
from app.ab.account import cuped_of, data_of, gone_of, looks_of
from app.ab.enrolled import Enrolled
from app.ab.plots import COLOURS, day_bars, lift_strip, reach_of
from app.ab.study import Study
from app.ab.texts import (
    expected_counts,
    interval,
    level,
    p_value,
    percent,
    percentage,
    reduction,
    srm_verdict,
    tone,
    value,
)

STYLE = """
:root { color-scheme: light; --ink: #1b2530; --soft: #5d6773; --line: #dfe4ea; --good: #1a7f4b; --bad: #c0392b; }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 60rem; padding: 1.2rem; color: var(--ink); background: #fff;
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; }
h1 { font-size: 1.45rem; line-height: 1.25; margin: 0 0 .2rem; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 2rem 0 .6rem; }
p { margin: .3rem 0; } .soft { color: var(--soft); font-size: .9rem; }
.banner { margin: 1rem 0; padding: .7rem .9rem; border-left: 5px solid var(--good); background: #eef8f2; }
.banner.bad { border-color: var(--bad); background: #fdf0ee; font-weight: 600; }
.card { border: 1px solid var(--line); border-radius: 8px; padding: .8rem .9rem; margin: .7rem 0; break-inside: avoid; }
.head { display: flex; flex-wrap: wrap; gap: .2rem .8rem; align-items: baseline; }
.head b { font-size: 1.05rem; } .head .verdict { margin-left: auto; font-weight: 600; }
.good { color: var(--good); } .bad-text { color: var(--bad); } .none { color: var(--soft); }
svg { display: block; width: 100%; } .card svg { height: 2.4rem; margin: .5rem 0 .1rem; background: #f6f8fa; }
.bars svg { height: 9rem; border-bottom: 1px solid var(--soft); }
.zero { stroke: #1b2530; stroke-width: 1.5; vector-effect: non-scaling-stroke; stroke-dasharray: 3 3; }
.scale { display: flex; justify-content: space-between; color: var(--soft); font-size: .8rem; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(8.3rem, 1fr)); gap: .3rem 1rem;
  margin-top: .6rem; }
.figures div { font-variant-numeric: tabular-nums; font-size: .95rem; }
.figures span { display: block; color: var(--soft); font-size: .8rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .92rem; }
th, td { padding: .3rem .9rem .3rem 0; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; } th { color: var(--soft); font-weight: 500; }
.key i { display: inline-block; width: .8rem; height: .8rem; border-radius: 2px; margin: 0 .35rem 0 0; }
.key span { margin-right: 1.1rem; white-space: nowrap; }
"""


def render(study: Study) -> str:
    """The page."""
    key = study.enrolled.key
    facts = " · ".join(f"{name} {said}" for name, said in study.facts.items())
    parts = [
        f"<h1>{_text(key.name)}</h1>",
        f'<p class="soft">{_text(f"{key.scene}/{key.layer}")} · {_text(facts)}</p>',
        f"<p>{_text(study.description)}</p>" if study.description else "",
        _banner(study),
        *(f'<div class="banner bad">{_text(line)}</div>' for line in gone_of(study.log.gone)),
        "<h2>Metrics</h2>",
        *_metrics(study),
        *(f'<p class="soft">{_text(line)}</p>' for line in cuped_of(study)),
        _method(study),
        "<h2>Exposures per day</h2>",
        _days(study.enrolled),
        "<h2>The split</h2>",
        _split(study),
        "<h2>The data</h2>",
        *(f'<p class="soft">{_text(line)}</p>' for said in data_of(study) for line in said.splitlines()),
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_text(key.name)}</title><style>{STYLE}</style></head>\n<body>\n"
        + "\n".join(part for part in parts if part)
        + "\n</body></html>\n"
    )


def _banner(study: Study) -> str:
    kind = "banner" if study.srm.sound else "banner bad"
    return f'<div class="{kind}">{_text(srm_verdict(study.srm))}</div>'


def _metrics(study: Study) -> Sequence[str]:
    formulas = {formula.name: str(formula) for formula in study.formulas}
    reach = reach_of(study.analysis.comparisons)
    return [_card(one, formulas[one.metric], reach, study) for one in study.analysis.comparisons]


def _card(one: Comparison, formula: str, reach: float, study: Study) -> str:
    mood = tone(one.verdict)
    colour = {"good": "good", "bad": "bad-text", "none": "none"}.get(mood, "")
    sure = level(study.analysis.alpha)
    figures = {
        f"{one.control.bucket} ({one.control.units:,})": value(one.control.value),
        f"{one.treatment.bucket} ({one.treatment.units:,})": value(one.treatment.value),
        "lift": percent(one.lift),
        f"{sure} interval": interval(one.lift_interval),
        f"{sure} anytime interval": interval(one.anytime_lift_interval),
        "p": p_value(one.p),
        "anytime p": p_value(one.anytime_p),
        "adjusted p (decides)": p_value(one.adjusted_p),
    }
    if study.how.window.before and (removed := reduction(one)):
        figures["variance removed by CUPED"] = removed
    cells = "".join(f"<div><span>{_text(name)}</span>{_text(said)}</div>" for name, said in figures.items())
    less = " · less is better" if one.goal == "decrease" else ""
    return (
        f'<div class="card"><div class="head"><b>{_text(one.metric)}</b>'
        f'<span class="soft">{_text(formula)}{less} · {_text(one.treatment.bucket)} against '
        f'{_text(one.control.bucket)}</span><span class="verdict {colour}">{_text(one.verdict)}</span></div>'
        f"{lift_strip(one, reach, mood)}"
        f'<div class="scale"><span>{percent(-reach)}</span><span>0</span><span>{percent(reach)}</span></div>'
        f'<div class="figures">{cells}</div></div>'
    )


def _method(study: Study) -> str:
    analysis = study.analysis
    which = "the anytime p-values" if analysis.peeking else "the fixed p-values: for one look, at the planned end"
    looks = f" {looks_of(study)}" if analysis.peeking else ""
    return (
        f'<p class="soft">Thick: the interval for one look. Thin: the anytime interval. Ratios by the delta method '
        f"over units; adjusted p by Benjamini and Hochberg over all comparisons, false discovery rate "
        f"{percentage(analysis.alpha)}. The verdicts rest on {which}.{_text(looks)}</p>"
    )


def _days(enrolled: Enrolled) -> str:
    days = sorted({day for day, _ in enrolled.days})
    if not days:
        return '<p class="soft">None.</p>'
    counts = [[enrolled.days.get((day, bucket), 0) for day in days] for bucket in range(len(enrolled.buckets))]
    marks = "".join(
        f'<span><i style="background:{COLOURS[place % len(COLOURS)]}"></i>{_text(name)}</span>'
        for place, name in enumerate(enrolled.buckets)
    )
    most = max(map(max, counts))
    dates = f"<span>{_date(days[0])}</span>" + (f"<span>{_date(days[-1])}</span>" if len(days) > 1 else "")
    return (
        f'<p class="key soft">{marks}most in a day {most:,}</p><div class="bars">{day_bars(days, counts)}</div>'
        f'<div class="scale">{dates}</div>'
    )


def _split(study: Study) -> str:
    report = study.srm
    header = "".join(f"<th>{_text(name)}</th>" for name in ("", *report.buckets, "expected", "p"))
    rows = []
    for test in (report.overall, *report.groups):
        name = "all units" if test.family == "overall" else f"{test.family} {test.group}"
        cells = [name, *(f"{count:,}" for count in test.counts), expected_counts(test), p_value(test.adjusted_p)]
        colour = ' class="bad-text"' if test.mismatch else ""
        rows.append(f"<tr{colour}>{''.join(f'<td>{_text(cell)}</td>' for cell in cells)}</tr>")
    return f'<div class="wide"><table><tr>{header}</tr>{"".join(rows)}</table></div>'


def _date(day: int) -> str:
    return str(np.datetime64(day, "D"))


def _text(said: object) -> str:
    if isinstance(said, float) and math.isnan(said):
        return "–"
    return html.escape(str(said))
