"""`recserve faults`: break things on purpose under load, and print what held."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from app.cli.common import Subparsers, add_places, new_verb, refuse
from app.cli.table import table
from app.faults import shop
from app.faults.place import Place
from app.faults.report import HEADER, RIGHT, details, rows
from app.faults.runner import Options, run_all
from app.faults.scenario import Scenario
from app.faults.scenarios import scenarios

EXAMPLES = """  recserve faults --list
  recserve faults --short
  recserve faults store_slow_then_black_hole worker_killed --json"""

ABOUT = """Break things on purpose under open-loop load, and print what held: a slow, lost or killed store, overload,
killed and stopped workers, pushes, resets, models that hang or return NaN, clock jumps, a full disk. Each scenario
runs a service of its own over a copy of the configuration and the active release; without a release, over a small
made-up shop. Nothing that runs already is touched. The exit status is 0 when everything holds."""


def add(verbs: Subparsers) -> None:
    """Register the verb."""
    parser = new_verb(verbs, "faults", EXAMPLES, ABOUT)
    parser.add_argument("scenario", nargs="*", metavar="SCENARIO", help="those to run (all)")
    parser.add_argument("--list", action="store_true", help="list the scenarios and what must hold in each")
    parser.add_argument(
        "--short", action="store_true", help="the same faults for less long, for continuous integration"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_places(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the scenarios that were asked for; the exit status."""
    known = scenarios()
    if unknown := [name for name in args.scenario if name not in known]:
        return refuse(f"There is no scenario {unknown[0]!r}. There are: {', '.join(known)}")
    chosen = [known[name] for name in args.scenario] or list(known.values())
    if args.list:
        return _list(chosen, short=args.short, as_json=args.json)
    started = time.monotonic()
    # As Ctrl-C: leaving through the usual way out is what ends the processes.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: signal.raise_signal(signal.SIGINT))
    with tempfile.TemporaryDirectory(prefix="recserve-faults-", ignore_cleanup_errors=True) as scratch:
        try:
            base = _base(args, Path(scratch))
        except (shop.NoShop, ValueError, OSError) as error:
            return refuse(error)
        reports = run_all(chosen, Options(base, Path(scratch), args.short, _teller(started)))
    if args.json:
        print(json.dumps({"scenarios": [report.document() for report in reports]}, ensure_ascii=False))
    else:
        print(table(HEADER, rows(reports), right=RIGHT))
        print("\n".join(details(reports)))
    held = sum(report.holds is True for report in reports)
    print(f"{held} of {len(reports)} hold, in {time.monotonic() - started:.0f} s", file=sys.stderr)
    return 0 if held == len(reports) else 1


def _base(args: argparse.Namespace, scratch: Path) -> Place:
    given = Place(args.config, args.var)
    if given.served is not None:
        return given
    print("There is no active release: over a small made-up shop.", file=sys.stderr)
    return shop.build(scratch / "shop")


def _teller(started: float) -> Callable[[str, str], None]:
    def say(name: str, text: str) -> None:
        print(f"{time.monotonic() - started:6.1f} s  {name}: {text}", file=sys.stderr, flush=True)

    return say


def _list(chosen: list[Scenario], *, short: bool, as_json: bool) -> int:
    if as_json:
        listed = [{"name": one.name, "fault": one.fault, "must": one.must, "seconds": one.seconds} for one in chosen]
        print(json.dumps({"scenarios": listed}, ensure_ascii=False))
        return 0
    for one in chosen:
        print(f"{one.name}  (about {one.seconds[short]:.0f} s)\n  fault  {one.fault}\n  must   {one.must}")
    return 0
