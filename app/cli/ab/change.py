"""`recserve ab start`, `ramp` and `stop`: the same edits as by hand, checked before they are written."""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable

from abtest.slots import shown
from app.ab.change import Changed, Changer
from app.cli.ab.common import add_config, share, sub_verb
from app.cli.common import Subparsers, moment

_KEPT = "Comments and everything else in the file stay as they are."


def add(verbs: Subparsers) -> None:
    """Register the three."""
    start = _verb(
        verbs,
        "start",
        lambda changer, args: changer.start(args.experiment, args.share),
        "let a draft run, in free slots",
        "  recserve ab start mmr_relevance@1 --share 10%\n  recserve ab start mmr_relevance --share 5% --dry-run",
    )
    start.add_argument("--share", type=share, metavar="P%", help="of the units; left out: in the slots that it has")
    ramp = _verb(
        verbs,
        "ramp",
        lambda changer, args: changer.ramp(args.experiment, args.share, shrink=args.shrink),
        "give a running experiment more free slots; who is in stays in the same bucket",
        "  recserve ab ramp mmr_relevance@1 --share 50%",
    )
    ramp.add_argument("--share", type=share, metavar="P%", required=True, help="of the units, as it shall be")
    ramp.add_argument("--shrink", action="store_true", help="take slots away, and with them users")
    _verb(
        verbs,
        "stop",
        lambda changer, args: changer.stop(args.experiment),
        "end an experiment; its slots are free again, and rest for 14 days",
        "  recserve ab stop mmr_relevance@1",
    )


def _verb(
    verbs: Subparsers, name: str, act: Callable[[Changer, argparse.Namespace], Changed], summary: str, examples: str
) -> argparse.ArgumentParser:
    def run(args: argparse.Namespace) -> int:
        now = time.time() if args.now is None else args.now
        changed = act(Changer(args.config, os.environ, now, dry=args.dry_run), args)
        print(json.dumps(changed.as_json(), ensure_ascii=False) if args.json else _said(changed))
        return 0

    about = f"{summary[0].upper()}{summary[1:]}. {_KEPT}"
    parser = sub_verb(verbs, name, run, summary, examples, about)
    parser.add_argument("experiment", metavar="EXPERIMENT", help="name, name@version or scene/layer/name@version")
    add_config(parser)
    parser.add_argument("--dry-run", action="store_true", help="show the change and write nothing")
    parser.add_argument("--now", type=moment, metavar="TIME", help="the time to write and to reckon with (now)")
    return parser


def _said(changed: Changed) -> str:
    state = changed.after if changed.before == changed.after else f"{changed.before} -> {changed.after}"
    of = "the units" if changed.domain is None else f"the units of the domain {changed.domain}"
    lines = [changed.diff, "", f"{changed.experiment}: {state}, {changed.share:.2%} of {of} ({shown(changed.slots)})."]
    lines += [f"Warning: {warning}" for warning in changed.warnings]
    if changed.written:
        lines.append("Written. A running service takes it on SIGHUP, or POST /admin/reload.")
    else:
        lines.append("Nothing is written (--dry-run).")
    return "\n".join(lines)
