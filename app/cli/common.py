"""What several verbs share: options, and how errors reach a person."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from time import time
from typing import TypeAlias

Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


VAR = Path("var")
"""The default of `--var`."""

VERBS = {
    "serve": "serve the active release over HTTP",
    "bootstrap": "build and activate a release from interactions",
    "check": "check the configuration: every problem with file, line and fix",
    "schema": "write JSON Schemas of the configuration files, for editors",
    "recommend": "ask the running service for a user's list, with reasons",
    "why": "ask the running service why an item is not in a user's list",
    "ab": "experiments: check, why, simulate, srm, power, analyze, aa, start, ramp, stop",
    "release": "list, activate, roll back and remove releases",
    "faults": "break things on purpose under load, and print what must hold",
    "loadtest": "load the running service and report what it sustains inside its budget",
}


def new_verb(verbs: Subparsers, name: str, examples: str, about: str = "") -> argparse.ArgumentParser:
    """A verb's parser with its examples; `about` says more than the one line in VERBS."""
    summary = VERBS[name]
    return verbs.add_parser(
        name,
        help=summary,
        description=about or summary,
        epilog=f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def add_places(parser: argparse.ArgumentParser) -> None:
    """`--config` and `--var`."""
    parser.add_argument("--config", type=Path, default=Path("configs"), metavar="DIR", help="configuration (configs)")
    parser.add_argument("--var", type=Path, default=VAR, metavar="DIR", help="what is made at run time (var)")


_YEAR_9999 = 253_370_764_800.0


def moment(text: str) -> float:
    """A point in time as epoch seconds, for argparse."""
    from bootstrap.times import parse_time  # pyarrow comes with it, and few verbs take a time

    try:
        seconds = parse_time(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if not 0 <= seconds < _YEAR_9999:
        raise argparse.ArgumentTypeError(f"{text!r} is out of range. Expected a time from 1970 to 9998.")
    return seconds


def clock(now: float | None) -> Callable[[], float]:
    """The wall clock, or one that stands still."""
    return time if now is None else lambda: now


def refuse(message: object) -> int:
    """Tell a person what is wrong; the exit status."""
    print(message, file=sys.stderr)
    return 1
