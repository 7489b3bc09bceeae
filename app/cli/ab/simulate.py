"""`recserve ab simulate`: synthetic units through the real assignment, and whether shares and layers are sound."""

from __future__ import annotations

import argparse
import json
import math
import time

from abtest.analysis import Simulation, simulate
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
0.0001."""

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
    uneven = [said for one in found for said in _uneven(one)]
    if args.json:
        scenes_json = [one.as_json() for one in found]
        print(json.dumps({"good": not uneven, "uneven": uneven, "scenes": scenes_json}, ensure_ascii=False))
    else:
        print("\n\n".join(map(_text, found)) or "No layers.")
        print("\n".join(["", *uneven] if uneven else ["", "Even, and independent."]))
    return int(bool(uneven))


def _uneven(one: Simulation) -> list[str]:
    found = [f"{one.scene}/{layer.layer}: its slots are uneven" for layer in one.layers if layer.p < THRESHOLD]
    for layer in one.layers:
        found += [
            f"{one.scene}/{layer.layer}/{x.experiment}: its buckets are uneven" for x in layer.splits if x.p < THRESHOLD
        ]
    found += [f"{one.scene}: {x.left} and {x.right} depend on each other" for x in one.pairs if x.p < THRESHOLD]
    return found


def _text(one: Simulation) -> str:
    rows = []
    for layer in one.layers:
        for label, share in layer.shares.items():
            rows.append([f"{one.scene}/{layer.layer}", label, f"{share:.3%}", ""])
        rows.append([f"{one.scene}/{layer.layer}", "slots: chi-square", f"{layer.chi_square:.1f}", p_value(layer.p)])
        for split in layer.splits:
            said = f"{split.experiment}: chi-square"
            rows.append([f"{one.scene}/{layer.layer}", said, f"{split.chi_square:.2f}", p_value(split.p)])
    parts = [f"{one.units:,} units", table(("layer", "outcome", "", "p"), rows, right=frozenset((2, 3)))]
    if one.pairs:
        pairs = [
            [f"{pair.left} x {pair.right}", "–" if math.isnan(pair.v) else f"{pair.v:.4f}", p_value(pair.p)]
            for pair in one.pairs
        ]
        parts.append(table(("layers", "Cramer's V", "p"), pairs, right=frozenset((1, 2))))
    return "\n\n".join(parts)
