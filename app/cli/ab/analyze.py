"""`recserve ab analyze`: exposures joined with events, and what the metrics say."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from app.ab.account import cuped_of, data_of, looks_of
from app.ab.analyse import MismatchError, Question, analysed
from app.ab.errors import AbError
from app.ab.files import exposure_files
from app.ab.metrics import formulas
from app.ab.page import render
from app.ab.study import Study
from app.ab.texts import comparisons_table
from app.ab.window import Window
from app.cli.ab.common import (
    FORMULAS,
    add_events,
    add_log,
    between,
    experiments_of,
    log_paths,
    mapping_of,
    progress,
    span,
    sub_verb,
)
from app.cli.common import Subparsers, moment, refuse

EXAMPLES = """  recserve ab analyze mmr_relevance@1 --events events.csv --metric ctr=click/impression
  recserve ab analyze mmr_relevance@1 --events events.parquet --metrics metrics.yaml --cuped 14d --html report.html
  recserve ab analyze mmr_relevance@1 --events e.jsonl --map unit=customer --metric 'buyers=any(purchase)' --peek"""

ABOUT = f"""Joins exposures with events and compares every bucket with the control. The events of a unit count from its
first exposure on; in a time-slice experiment all events of the slice do. Relative lifts have intervals, p-values are
adjusted over all metrics and buckets (Benjamini and Hochberg). Verdicts rest on one look at the planned end; with
--peek on intervals that hold at every look, of outcomes that don't go on growing: give it --within too.

Refuses (exit status 1) while the split isn't what it was meant to be, unless --despite-srm.

{FORMULAS}"""


def add(verbs: Subparsers) -> None:
    """Register the sub-verb."""
    parser = sub_verb(verbs, "analyze", run, "lifts with intervals, of exposures joined with events", EXAMPLES, ABOUT)
    parser.add_argument("experiment", metavar="EXPERIMENT", help="name, name@version or scene/layer/name@version")
    add_events(parser)
    parser.add_argument("--within", type=span, metavar="T", help="count a unit's first 7d (say) only, if it had them")
    parser.add_argument("--until", type=moment, metavar="TIME", help="take exposures and events before it only (all)")
    parser.add_argument("--cuped", type=span, metavar="T", help="correct by the same metric in the 14d (say) before")
    parser.add_argument(
        "--alpha", type=between(0, 1), default=0.05, metavar="A", help="1 - the intervals' level (0.05)"
    )
    parser.add_argument(
        "--peek", action="store_true", help="decide by anytime-valid p-values: look as often as you like"
    )
    parser.add_argument("--despite-srm", action="store_true", help="compare although the split is wrong")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a report: one file, no scripts")
    add_log(parser)


def run(args: argparse.Namespace) -> int:
    """Analyse, print, and return the exit status: 1 when refused."""
    window = Window(args.within or float("inf"), args.cuped or 0.0)
    question = Question(
        experiment=args.experiment,
        exposures=log_paths(args),
        events=args.events,
        mapping=mapping_of(args.map),
        formulas=formulas(args.metric, args.metrics, args.lower_is_better),
        window=window,
        until=args.until,
        alpha=args.alpha,
        peeking=args.peek,
        despite_srm=args.despite_srm,
        weights=args.weights,
        control=args.control,
        now=args.now,
    )
    experiments = experiments_of(args)
    try:
        with progress(args, [*exposure_files(question.exposures), args.events], "reading") as bar:
            study = analysed(question, experiments, bar.update)
    except MismatchError as error:
        if args.json:
            said = {"srm": error.report.as_json(), "log": error.log.as_json()}
            print(json.dumps({"errors": str(error).splitlines(), **said}, ensure_ascii=False))
        return refuse(error)
    if args.html is not None:
        try:
            args.html.write_text(render(study), encoding="utf-8")
        except OSError as error:
            raise AbError(f"--html {args.html}: can't be written: {error.strerror}.") from None
    print(json.dumps(study.as_json(), ensure_ascii=False) if args.json else _text(study, args.html))
    return 0


def _text(study: Study, page: Path | None) -> str:
    said = {formula.name: str(formula) for formula in study.formulas}
    analysis = study.analysis
    counts = zip(study.srm.buckets, study.srm.overall.counts, strict=True)
    lines = [
        f"{study.enrolled.key}: {', '.join(f'{name} {count:,}' for name, count in counts)} units",
        *data_of(study),
        "",
        comparisons_table(analysis.comparisons, said, peeking=analysis.peeking),
        "",
        *cuped_of(study),
        looks_of(study),
    ]
    if page is not None:
        lines.append(f"Report: {page}")
    return "\n".join(lines)
