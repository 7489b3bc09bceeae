"""What the sub-verbs of `recserve ab` share: options, loading, and how errors reach a person."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from abtest import Experiments
from app.ab.errors import AbError
from app.cli.common import VAR, Subparsers, moment, refuse
from app.config.load import load_config
from app.config.model import Config
from app.config.problems import ConfigError

Run = Callable[[argparse.Namespace], int]
_SPAN = re.compile(r"(\d+(?:\.\d+)?)(m|h|d)")
_SECONDS = {"m": 60.0, "h": 3_600.0, "d": 86_400.0}


def sub_verb(
    verbs: Subparsers, name: str, run: Run, summary: str, examples: str, about: str = ""
) -> argparse.ArgumentParser:
    """A sub-verb's parser, with `--json` and its examples."""
    parser = verbs.add_parser(
        name,
        help=summary,
        description=about or summary,
        epilog=f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=lambda args: _told(args, run))
    return parser


def _told(args: argparse.Namespace, run: Run) -> int:
    try:
        return run(args)
    except ConfigError as error:
        errors = [str(problem) for problem in error.problems]
    except (AbError, OSError) as error:
        errors = str(error).splitlines()
    if args.json:
        print(json.dumps({"errors": errors}, ensure_ascii=False))
    return refuse("\n".join(errors))


def add_config(parser: argparse.ArgumentParser) -> None:
    """`--config`."""
    parser.add_argument("--config", type=Path, default=Path("configs"), metavar="DIR", help="configuration (configs)")


def add_log(parser: argparse.ArgumentParser) -> None:
    """Where the exposures lie, and how the experiment was split."""
    parser.add_argument(
        "--exposures", type=Path, action="append", metavar="PATH", help="a log, or a folder of them (var); repeatable"
    )
    parser.add_argument("--weights", metavar="W", help="the split, where the configuration doesn't say: control=1,b=1")
    parser.add_argument("--control", metavar="BUCKET", help="the bucket to compare with (the configuration's)")
    parser.add_argument("--now", type=moment, metavar="TIME", help="what is dated a day later can't be read (now)")
    add_config(parser)


def add_events(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """Which events, and what to measure by them."""
    parser.add_argument(
        "--events",
        type=Path,
        metavar="FILE",
        required=required,
        help="CSV, Parquet or JSON lines: unit, ts, event[, value]",
    )
    parser.add_argument(
        "--map", action="append", default=[], metavar="FIELD=COLUMN", help="which column is unit, ts, event or value"
    )
    parser.add_argument(
        "--metric", action="append", default=[], metavar="NAME=FORMULA", help="such as ctr=click/impression; repeatable"
    )
    parser.add_argument("--metrics", type=Path, metavar="FILE", help="metrics as YAML")
    parser.add_argument(
        "--lower-is-better", action="append", default=[], metavar="NAME", help="of a metric that should fall"
    )


FORMULAS = """A formula is a term, or a term over a term. Terms:
  click, count(click)   how many events called click
  any(purchase)         whether there was one: the share of units, such as conversion
  sum(purchase)         the sum of their values, such as revenue
  exposures             under a ratio: how often the unit was exposed
One term is a mean per unit. A ratio is all of the one over all of the other; its variance is that between
units (delta method). The same in a file:
  metrics:
    ctr: {ratio: [click, impression]}
    buyers: {any: purchase}
    revenue: {sum: purchase}
    complaints: {count: complaint, goal: decrease}"""


def log_paths(args: argparse.Namespace) -> Sequence[Path]:
    """The places of `--exposures`, else var."""
    places: Sequence[Path] = args.exposures or [VAR]
    return places


def configuration(args: argparse.Namespace) -> Config:
    """Raises ConfigError."""
    return load_config(args.config, env=os.environ)


def experiments_of(args: argparse.Namespace) -> Experiments | None:
    """What is configured; None where there is no configuration and `--weights` does without. Raises ConfigError."""
    if args.weights is not None and not args.config.is_dir():
        return None
    return configuration(args).experiments


def mapping_of(pairs: Sequence[str]) -> dict[str, str]:
    """Field -> column. Raises AbError."""
    mapping: dict[str, str] = {}
    for pair in pairs:
        field, equals, column = (part.strip() for part in pair.partition("="))
        if not (field and equals and column):
            raise AbError(f"--map {pair}: expected FIELD=COLUMN, such as unit=customer.")
        if field in mapping:
            raise AbError(f"--map {pair}: {field} is mapped to {mapping[field]!r} already. Expected it once.")
        mapping[field] = column
    return mapping


def progress(args: argparse.Namespace, paths: Sequence[Path], what: str) -> tqdm[Any]:
    """A bar over the bytes of some files, for work of more than a moment."""
    total = sum(path.stat().st_size for path in paths if path.is_file())
    return tqdm(
        total=total, unit="B", unit_scale=True, desc=what, disable=args.json, file=sys.stderr, leave=False, delay=1.0
    )


def span(text: str) -> float:
    """Seconds of `30m`, `12h` or `7d`, for argparse."""
    found = _SPAN.fullmatch(text)
    if found is None or not float(found[1]):
        raise argparse.ArgumentTypeError(f"{text!r}: expected a length of time such as 12h or 7d")
    return float(found[1]) * _SECONDS[found[2]]


def share(text: str) -> int:
    """Slots of a share such as `10%`, for argparse."""
    number = text.strip().removesuffix("%")
    try:
        slots = float(number) * 100
    except ValueError:
        slots = -1.0
    if not text.strip().endswith("%") or not 1 <= slots <= 10_000 or abs(slots - round(slots)) > 1e-6:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a share from 0.01% to 100%, in steps of 0.01%")
    return round(slots)


def between(low: float, high: float) -> Callable[[str], float]:
    """A number between two others, for argparse."""

    def number(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = low
        if not low < value < high:
            raise argparse.ArgumentTypeError(f"{text!r}: expected a number between {low:g} and {high:g}")
        return value

    return number


def whole(least: int, most: int) -> Callable[[str], int]:
    """A whole number in a range, for argparse."""

    def number(text: str) -> int:
        if not (text.isascii() and text.isdecimal()) or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text!r}: expected a whole number from {least:,} to {most:,}")
        return int(text)

    return number
