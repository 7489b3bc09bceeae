"""`recserve ab power`: how many units an experiment needs, or what it can see with those that it gets."""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from abtest.analysis import Baseline, Design, Detectable, SampleSize, baseline, binary, detectable, power, sample_size
from app.ab.errors import AbError
from app.ab.everybody import Everybody, metrics_of_everybody
from app.ab.metrics import formulas
from app.ab.texts import percent, value
from app.cli.ab.common import FORMULAS, add_events, between, mapping_of, progress, span, sub_verb, whole
from app.cli.common import Subparsers

EXAMPLES = """  recserve ab power --rate 0.052 --lift 5%
  recserve ab power --rate 0.052 --units 30000
  recserve ab power --mean 12.4 --sd 31 --lift 2% --units 40000
  recserve ab power --events events.csv --metric ctr=click/impression --lift 3% --daily 8000"""

ABOUT = f"""With --lift: the units that show such a relative lift. With --units: the least lift that so many show. With
both: the probability that they show it. The metric is a rate (--rate), has a mean and a standard deviation per unit
(--mean, --sd), or is measured in a file of events; ratio metrics by the delta method.

{FORMULAS}"""


def add(verbs: Subparsers) -> None:
    """Register the sub-verb."""
    parser = sub_verb(verbs, "power", run, "how many units it takes, or what can be seen with them", EXAMPLES, ABOUT)
    parser.add_argument("--rate", type=between(0, 1), metavar="R", help="of a metric that is 0 or 1 per unit")
    parser.add_argument("--mean", type=float, metavar="M", help="of any other metric")
    parser.add_argument("--sd", type=between(0, math.inf), metavar="S", help="its standard deviation per unit")
    add_events(parser, required=False)
    parser.add_argument("--unit", default="user_id", metavar="TYPE", help="what is randomised (user_id)")
    parser.add_argument("--within", type=span, metavar="T", help="count each unit's first 7d (say) only")
    parser.add_argument("--lift", type=_lift, metavar="P%", help="relative, such as 5%%; a fall as --lift=-2%%")
    parser.add_argument("--units", type=whole(2, 10**12), metavar="N", help="in the control")
    parser.add_argument(
        "--ratio", type=between(0, 1e6), default=1.0, metavar="R", help="treatment units per control (1)"
    )
    parser.add_argument(
        "--daily", type=whole(1, 10**12), metavar="N", help="new units a day in both: says how many days"
    )
    parser.add_argument("--alpha", type=between(0, 1), default=0.05, metavar="A", help="two-sided (0.05)")
    parser.add_argument("--power", type=between(0, 1), default=0.8, metavar="P", help="wanted (0.8)")
    parser.add_argument(
        "--comparisons", type=whole(1, 1_000), default=1, metavar="N", help="metrics x treatments that decide (1)"
    )
    parser.add_argument("--anytime", action="store_true", help="plan for looking at any time (analyze --peek)")


def run(args: argparse.Namespace) -> int:
    """Reckon, print, and return the exit status."""
    if args.lift is None and args.units is None:
        raise AbError("Give --lift, --units or both.")
    _check_ways(args)
    everybody = None if args.events is None else _everybody(args, args.events)
    base = _baseline(args, everybody)
    design = Design(args.alpha, args.power, args.ratio, args.comparisons, args.anytime)
    needed: SampleSize | Detectable | None = None
    chance = None
    try:
        if args.lift is None:
            needed = detectable(base, args.units, design)
        elif args.units is None:
            needed = sample_size(base, args.lift, design)
        else:
            chance = power(base, args.lift, args.units, design)
    except ValueError as error:
        raise AbError(f"{str(error)[0].upper()}{str(error)[1:]}.") from None
    units = None if needed is None else needed.control + needed.treatment
    days = math.ceil(units / args.daily) if units is not None and args.daily else None
    if args.json:
        said: dict[str, Any] = {"baseline": base.as_json(), "design": design.as_json(), "power": chance, "days": days}
        data = {} if everybody is None else everybody.as_json()
        print(json.dumps({**said, "units": None if needed is None else needed.as_json(), **data}, ensure_ascii=False))
    else:
        notes = [] if everybody is None else everybody.notes()
        print("\n".join([*notes, _text(args, base, design, needed, chance, days)]))
    return 0


def _check_ways(args: argparse.Namespace) -> None:
    ways = [args.rate is not None, args.mean is not None or args.sd is not None, args.events is not None]
    if sum(ways) != 1:
        raise AbError("What is the metric? Give --rate, or --mean and --sd, or --events and --metric.")


def _baseline(args: argparse.Namespace, everybody: Everybody | None) -> Baseline:
    if args.rate is not None:
        return binary(args.rate)
    try:
        if everybody is None:
            if args.mean is None or args.sd is None:
                raise AbError("--mean and --sd go together.")
            return Baseline(args.mean, args.sd * args.sd)
        return baseline(everybody[0])
    except ValueError as error:
        raise AbError(f"{str(error)[0].upper()}{str(error)[1:]}.") from None


def _everybody(args: argparse.Namespace, events: Path) -> Everybody:
    wanted = formulas(args.metric, args.metrics, args.lower_is_better)
    if len(wanted) > 1:
        raise AbError("Give one metric: each needs units of its own.")
    with progress(args, [events], "events") as bar:
        mapping = mapping_of(args.map)
        return metrics_of_everybody(events, args.unit, mapping, wanted, args.within or np.inf, bar.update)


def _text(
    args: argparse.Namespace,
    base: Baseline,
    design: Design,
    needed: SampleSize | Detectable | None,
    chance: float | None,
    days: int | None,
) -> str:
    kind = "a rate" if base.binary else f"sd {value(math.sqrt(base.variance))}"
    looks = ", at any time" if design.anytime else ""
    lines = [f"baseline    {value(base.mean)} ({kind})"]
    test = f"two-sided, alpha {design.alpha:g}{looks}"
    if design.comparisons > 1:
        test += f", shared by {design.comparisons} comparisons"
    lines.append(f"test        {test}")
    if needed is None:
        return "\n".join(
            [
                *lines,
                f"lift        {percent(args.lift)}",
                f"power       {chance:.1%} with {args.units:,} in the control",
            ]
        )
    lines.append(f"power       {design.power:.0%}")
    what = "lift" if isinstance(needed, SampleSize) else "least lift"
    shown = percent(needed.lift) if math.isfinite(needed.lift) else "none that a rate can have"
    lines.append(f"{what:<12}{shown} (to {value(base.mean + needed.difference)})")
    lines.append(f"units       {needed.control:,} in the control, {needed.treatment:,} in the treatment")
    if days is not None:
        lines.append(f"days        {days:,} at {args.daily:,} new units a day")
    return "\n".join(lines)


def _lift(text: str) -> float:
    try:
        number = float(text.strip().removesuffix("%")) / 100
    except ValueError:
        number = math.nan
    if not text.strip().endswith("%") or not -1 <= number <= 100 or not number:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a relative change such as 5% or -2%")
    return number
