"""`recserve ab aa`: split the same units again and again, and see whether the test cries wolf."""

from __future__ import annotations

import argparse
import json
import math

import numpy as np
from tqdm import tqdm

from abtest.analysis import AaReport, check_aa
from app.ab.everybody import metrics_of_everybody
from app.ab.metrics import formulas
from app.ab.texts import p_value
from app.cli.ab.common import FORMULAS, add_events, between, mapping_of, progress, span, sub_verb, whole
from app.cli.common import Subparsers
from app.cli.table import clean, table

EXAMPLES = """  recserve ab aa --events events.csv --metric ctr=click/impression
  recserve ab aa --events events.parquet --metric 'revenue=sum(purchase)' --splits 2000 --share 0.1 --json"""

ABOUT = f"""Splits the units of an events file at random, many times over, and tests each split as `analyze` would.
There is no effect, so 5% of the splits should have p < 0.05 and the p-values should be uniform. Exits 1 where they
don't: then the metric's intervals are wrong on such data (outliers, too few units), and so would be every verdict.
Split as the experiment will: a metric that is sound at 50:50 may not be at --share 0.1. A rare metric of few values,
such as a conversion, can't have uniform p-values; it is sound while it raises no more false alarms than it should.

{FORMULAS}"""


def add(verbs: Subparsers) -> None:
    """Register the sub-verb."""
    parser = sub_verb(verbs, "aa", run, "A/A: is the test sound for this metric on these data?", EXAMPLES, ABOUT)
    add_events(parser)
    parser.add_argument("--unit", default="user_id", metavar="TYPE", help="what is randomised (user_id)")
    parser.add_argument("--within", type=span, metavar="T", help="count each unit's first 7d (say) only")
    parser.add_argument("--splits", type=whole(100, 100_000), default=1_000, metavar="N", help="how many (1000)")
    parser.add_argument("--share", type=between(0, 1), default=0.5, metavar="S", help="of the treatment (0.5)")
    parser.add_argument("--alpha", type=between(0, 1), default=0.05, metavar="A", help="of the test (0.05)")
    parser.add_argument("--seed", type=whole(0, 2**31 - 1), default=1, metavar="N", help="of the splits (1)")


def run(args: argparse.Namespace) -> int:
    """Split, print, and return the exit status: 1 for a metric whose test isn't sound."""
    wanted = formulas(args.metric, args.metrics, args.lower_is_better)
    with progress(args, [args.events], "events") as bar:
        metrics = metrics_of_everybody(
            args.events, args.unit, mapping_of(args.map), wanted, args.within or np.inf, bar.update
        )
    rng = np.random.default_rng(args.seed)
    each = tqdm(metrics, desc="splitting", unit="metric", disable=args.json or len(metrics) < 2, leave=False, delay=1.0)
    reports = [check_aa(metric, rng, args.splits, args.share, args.alpha) for metric in each]
    sound = all(report.sound for report in reports)
    if args.json:
        said = {"sound": sound, "metrics": [report.as_json() for report in reports], **metrics.as_json()}
        print(json.dumps(said, ensure_ascii=False))
    else:
        print("\n".join([*metrics.notes(), _text(reports, args.alpha)]))
    return int(not sound)


def _text(reports: list[AaReport], alpha: float) -> str:
    tests = (f"p < {alpha:g}", "99% interval", "uniformity p", "p from 0 to 1", "")
    header = ("metric", "units", "splits", "treatment", *tests)
    rows = [
        [
            clean(one.metric),
            f"{one.units:,}",
            f"{one.splits:,}",
            f"{100 * one.share:g}%",
            "–" if math.isnan(one.false_positives) else f"{one.false_positives:.1%}",
            f"{one.low:.1%} to {one.high:.1%}",
            p_value(one.uniformity_p),
            _spark(one.histogram),
            "sound" if one.sound else f"NOT SOUND: {', '.join(one.failed)}",
        ]
        for one in reports
    ]
    return table(header, rows, right=frozenset((1, 2, 3, 4, 6)))


def _spark(counts: tuple[int, ...]) -> str:
    top = max(counts) or 1
    return "".join("▁▂▃▄▅▆▇█"[min(7, count * 8 // top)] for count in counts)
