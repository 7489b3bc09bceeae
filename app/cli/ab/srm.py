"""`recserve ab srm`: do the buckets hold the shares that they should?"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from abtest.analysis import SrmReport, check_srm
from app.ab.account import chosen_of, no_exposure, read_of
from app.ab.attributes import read_attributes
from app.ab.errors import AbError
from app.ab.exposures import Asked, read_exposures
from app.ab.files import exposure_files
from app.ab.settings import Setting, settings
from app.ab.texts import srm_table, srm_verdict
from app.cli.ab.common import add_log, experiments_of, log_paths, progress, sub_verb
from app.cli.common import Subparsers, refuse

EXAMPLES = """  recserve ab srm
  recserve ab srm mmr_relevance@1 --exposures var --exposures archive/exposures.w0.jsonl.gz
  recserve ab srm mmr_relevance@1 --users users.csv --by region --by platform --json"""

ABOUT = """Counts the units that were exposed to each bucket and compares with the weights: overall, by the day of the
first exposure and by attributes of a users file. p is that of the chi-square test (exact, where weights are uneven
and a bucket expects fewer than 100 units), adjusted for the number of days or values; below 0.0005 is a mismatch. A
unit that was in two buckets is one too many. Exits 1 in both cases: then something lost units in one bucket more
than in another, and no comparison can be trusted."""


def add(verbs: Subparsers) -> None:
    """Register the sub-verb."""
    parser = sub_verb(verbs, "srm", run, "sample-ratio mismatch: do the buckets hold their shares?", EXAMPLES, ABOUT)
    parser.add_argument("experiment", nargs="?", metavar="EXPERIMENT", help="one of the log (all)")
    add_log(parser)
    parser.add_argument("--users", type=Path, metavar="FILE", help="attributes of units: CSV or Parquet")
    parser.add_argument("--by", action="append", default=[], metavar="COLUMN", help="an attribute; repeatable")


def run(args: argparse.Namespace) -> int:
    """Test, print, and return the exit status: 1 for a mismatch."""
    if bool(args.by) != (args.users is not None):
        raise AbError("--by COLUMN and --users FILE go together.")
    experiments = experiments_of(args)
    files = exposure_files(log_paths(args))
    with progress(args, files, "exposures") as bar:
        log = read_exposures(files, Asked(args.experiment, now=args.now), bar.update)
    if not log.enrolled:
        raise AbError(no_exposure(log, args.experiment))
    found = list(settings(log, experiments, args.weights, args.control))
    unknown = [str(one) for one in found if isinstance(one, AbError)]
    tested = [_test(one, args.users, args.by) for one in found if isinstance(one, Setting)]
    if args.json:
        rows = [_row(setting, report) for setting, report in tested]
        print(json.dumps({"experiments": rows, "log": log.as_json(), "errors": unknown}, ensure_ascii=False))
    else:
        print("\n\n".join([read_of(log), *(_text(setting, report) for setting, report in tested)]))
    status = int(not all(report.sound for _, report in tested))
    return refuse("\n".join(unknown)) if unknown else status


def _test(setting: Setting, users: Path | None, names: Sequence[str]) -> tuple[Setting, SrmReport]:
    enrolled = setting.enrolled
    if users is not None:
        attributes = read_attributes(users, enrolled.units, enrolled.key.unit_type, names)
        setting = replace(setting, attributes=attributes)
    return setting, check_srm(enrolled.exposures(setting.attributes), setting.arms.weights)


def _row(setting: Setting, report: SrmReport) -> dict[str, Any]:
    enrolled = setting.enrolled
    known = {"experiment": str(enrolled.key), "unit_type": enrolled.key.unit_type, "chosen": dict(enrolled.chosen)}
    return {**known, **report.as_json()}


def _text(setting: Setting, report: SrmReport) -> str:
    enrolled = setting.enrolled
    lines = [str(enrolled.key), srm_table(report, report.groups), srm_verdict(report), *chosen_of(enrolled)]
    return "\n".join(lines)
