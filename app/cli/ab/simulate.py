"""`recserve ab simulate`: synthetic units through the real assignment, and whether shares and layers are sound."""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterator
from typing import NamedTuple

from abtest.analysis import Simulation, simulate
from abtest.analysis.chisquare import ENOUGH
from abtest.analysis.simulate import RANGES
from app.ab.errors import AbError
from app.ab.texts import p_value
from app.cli.ab.common import add_config, configuration, sub_verb, whole
from app.cli.ab.context import add_context, context_of
from app.cli.common import Subparsers, moment
from app.cli.table import table
from app.config.problems import suggestion

EXAMPLES = """  recserve ab simulate
  recserve ab simulate --scene home --units 500000 --context app_version=3.2.0"""

ABOUT = """Assigns synthetic units and prints the share of each outcome, whether slots and buckets are as even as they
should be (chi-square), and whether layers are independent of each other (Cramer's V). Exits 1 when a p is below
0.0001 divided by the number of these checks. Says which of them had too few units."""

THRESHOLD = 1e-4


def add(verbs: Subparsers) -> None:
    """Register the sub-verb."""
    parser = sub_verb(verbs, "simulate", run, "shares and independence of layers, on synthetic units", EXAMPLES, ABOUT)
    add_config(parser)
    parser.add_argument("--scene", metavar="SCENE", help="one scene (all that have layers)")
    parser.add_argument(
        "--units", type=whole(100, 5_000_000), default=100_000, metavar="N", help="how many units (100000)"
    )
    add_context(parser)
    parser.add_argument("--now", type=moment, metavar="TIME", help="the time of the requests (now)")


def run(args: argparse.Namespace) -> int:
    """Simulate, print, and return the exit status: 1 where something is uneven."""
    config = configuration(args)
    scenes = [name for name, plan in sorted(config.experiments.scenes.items()) if plan.layers]
    if args.scene is not None:
        if args.scene not in config.scenes:
            raise AbError(f"There is no scene {args.scene!r}. {suggestion(args.scene, config.scenes)}")
        scenes = [args.scene]
    context = context_of(args.context, config)
    now = time.time() if args.now is None else args.now
    found = [simulate(config.experiments, scene, args.units, context, now) for scene in scenes]
    checks = [check for one in found for check in _checks(one)]
    unchecked = [check.too_few for check in checks if math.isnan(check.p)]
    threshold = THRESHOLD / max(len(checks) - len(unchecked), 1)
    uneven = [check.uneven for check in checks if check.p < threshold]
    if args.json:
        said = {"good": not uneven, "uneven": uneven, "unchecked": unchecked, "threshold": threshold}
        print(json.dumps({**said, "scenes": [one.as_json() for one in found]}, ensure_ascii=False))
    else:
        print("\n\n".join(map(_text, found)) or "No layers.")
        print("\n".join(["", *_verdict(len(checks), uneven, unchecked)]))
    return int(bool(uneven))


class _Check(NamedTuple):
    """One test: its p, what to say where it fails, and what where too few units left it without p (NaN)."""

    p: float
    uneven: str
    too_few: str


def _checks(one: Simulation) -> Iterator[_Check]:
    """All tests of a scene; none of what no number of units would let vary."""
    for layer in one.layers:
        name = f"{one.scene}/{layer.layer}"
        if layer.units:
            few = f"{name}, slots: {layer.units:,} units, it takes {RANGES * ENOUGH:,.0f}"
            yield _Check(layer.p, f"{name}: its slots are uneven", few)
        for split in layer.splits:
            of = f"{name}/{split.experiment}"
            least = min(expected for expected in split.expected if expected)
            few = f"{of}, buckets: one expects {least:.1f} units, it takes {ENOUGH:g}"
            yield _Check(split.p, f"{of}: its buckets are uneven", few)
    for pair in one.pairs:
        if pair.too_few or not math.isnan(pair.p):
            few = f"{one.scene}, {pair.left} x {pair.right}: {pair.units:,} units, for outcomes so rare"
            yield _Check(pair.p, f"{one.scene}: {pair.left} and {pair.right} depend on each other", few)


def _verdict(checks: int, uneven: list[str], unchecked: list[str]) -> list[str]:
    """What was found, in lines."""
    if not checks:
        return ["Nothing to check."]
    if not uneven and not unchecked:
        return ["Even, and independent."]
    few = ["Too few units to check (more by --units):", *(f"  {said}" for said in unchecked)] if unchecked else []
    return [*uneven, *few]


def _text(one: Simulation) -> str:
    rows = []
    for layer in one.layers:
        for label, share in layer.shares.items():
            rows.append([f"{one.scene}/{layer.layer}", label, f"{share:.3%}", ""])
        rows.append([f"{one.scene}/{layer.layer}", "slots: chi-square", _number(layer.chi_square, 1), p_value(layer.p)])
        for split in layer.splits:
            said = f"{split.experiment}: chi-square"
            rows.append([f"{one.scene}/{layer.layer}", said, _number(split.chi_square, 2), p_value(split.p)])
    parts = [f"{one.units:,} units", table(("layer", "outcome", "", "p"), rows, right=frozenset((2, 3)))]
    if one.pairs:
        pairs = [[f"{pair.left} x {pair.right}", _number(pair.v, 4), p_value(pair.p)] for pair in one.pairs]
        parts.append(table(("layers", "Cramer's V", "p"), pairs, right=frozenset((1, 2))))
    return "\n\n".join(parts)


def _number(number: float, digits: int) -> str:
    return "–" if math.isnan(number) else f"{number:.{digits}f}"
