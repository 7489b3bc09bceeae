"""`recserve ab check`: the experiments as they stand, and who would move if they replaced others."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from abtest import Experiment, Experiments
from abtest.moves import Moves, moves
from app.ab.arms import all_experiments
from app.ab.errors import AbError
from app.ab.file import located
from app.cli.ab.common import add_config, configuration, sub_verb
from app.cli.common import Subparsers, moment, refuse
from app.cli.table import clean, table
from app.config.load import load_config
from app.config.model import Config
from app.config.problems import ConfigError, Problem
from app.config.yaml_nodes import read

EXAMPLES = """  recserve ab check
  recserve ab check --against ../main/configs
  git show HEAD:configs/abtest.yaml | recserve ab check --against -"""

ABOUT = """Checks the configuration and lists its experiments. With --against, walks all 10,000 slots of every layer and
says which share of the units would move from which bucket to which, if this configuration replaced the old one.
Exits 1 when the configuration has a problem, or when the change would move anybody who is enrolled: a reload
refuses that too."""


def add(verbs: Subparsers) -> None:
    """Register the sub-verb."""
    parser = sub_verb(verbs, "check", run, "list the experiments; who would move from where to where", EXAMPLES, ABOUT)
    add_config(parser)
    parser.add_argument(
        "--against", metavar="OLD", help="a configuration folder, an abtest.yaml, or - (standard input)"
    )
    parser.add_argument("--shrink", action="store_true", help="running experiments may give up slots")
    parser.add_argument("--now", type=moment, metavar="TIME", help="the time to reckon with (now)")


def run(args: argparse.Namespace) -> int:
    """Check, print, and return the exit status: 1 when the change is refused."""
    config = configuration(args)
    now = time.time() if args.now is None else args.now
    resting = [str(one) for one in located(config, config.experiments.recently_freed(now))]
    found = None
    if args.against is not None:
        found = moves(_old(args.against, config), config.experiments, now, shrink=args.shrink)
    refused = found is not None and bool(found.refusals)
    if args.json:
        experiments = [_row(each) for each in all_experiments(config.experiments)]
        against = None if found is None else found.as_json()
        said: dict[str, Any] = {"good": not refused, "config": config.id, "experiments": experiments}
        print(json.dumps({**said, "warnings": resting, "against": against}, ensure_ascii=False))
        return int(refused)
    parts = [_listing(config.experiments)]
    if found is not None:
        parts.append(_moves(found))
        resting = list(dict.fromkeys([*resting, *map(str, located(config, found.warnings))]))
    if resting:
        parts.append("\n".join(f"Warning: {one}" for one in resting))
    print("\n\n".join(parts))
    return _refused(located(config, found.refusals)) if found is not None and refused else 0


def _refused(problems: Sequence[Problem]) -> int:
    many = len(problems) > 1
    told = f"{len(problems)} change{'s' * many} would move users. A reload refuses {'them' if many else 'this'}."
    return refuse("\n".join([*map(str, problems), told]))


def _old(where: str, config: Config) -> Experiments:
    """Raises AbError and ConfigError."""
    if Path(where).is_dir():
        return load_config(Path(where), env=os.environ).experiments
    try:
        data = sys.stdin.buffer.read() if where == "-" else Path(where).read_bytes()
    except OSError as error:
        raise AbError(f"--against {where}: can't be read: {error.strerror}.") from None
    document = read(data, where, os.environ)
    if document.problems:
        raise ConfigError(document.problems)
    # A file alone doesn't say which scenes and attributes there were: those of the new configuration.
    context = {name: field.type for name, field in config.service.context.items()}
    defaults = {name: field.default for name, field in config.service.context.items() if field.default is not None}
    old, problems = Experiments.compile(document.value, context, list(config.scenes), defaults)
    if old is None:
        raise AbError("\n".join(f"{where} {problem}" for problem in problems))
    return old


def _row(each: Experiment) -> dict[str, Any]:
    return {
        "experiment": f"{each.scene}/{each.layer}/{each.key}",
        "owner": each.owner,
        "status": each.status,
        "domain": each.domain,
        "slots": [list(pair) for pair in each.slots],
        "share": sum(high - low for low, high in each.slots) / 10_000,
        "buckets": {bucket.name: bucket.weight for bucket in each.buckets},
        "control": next(bucket.name for bucket in each.buckets if bucket.control),
        "when": None if each.when is None else each.when.text,
        "start": each.start,
        "end": each.end,
    }


def _listing(experiments: Experiments) -> str:
    rows = []
    for one in map(_row, all_experiments(experiments)):
        buckets = ", ".join(f"{name} {weight / 100:g}%" for name, weight in one["buckets"].items())
        place = one["domain"] or ""
        rows.append(
            [
                one["experiment"],
                one["status"],
                f"{one['share']:.2%}",
                place,
                buckets,
                clean(one["when"] or ""),
                one["owner"],
            ]
        )
    if not rows:
        return "No experiments."
    return table(("experiment", "status", "share", "domain", "buckets", "when", "owner"), rows, right=frozenset((2,)))


def _moves(found: Moves) -> str:
    if not found.moves:
        return "Nobody would move."
    rows = [[f"{one.scene}/{one.layer}", f"{one.share:.2%}", one.kind, one.source, one.target] for one in found.moves]
    return table(("layer", "units", "", "from", "to"), rows, right=frozenset((1,)))
