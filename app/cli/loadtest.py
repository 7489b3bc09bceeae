"""`recserve loadtest`: open-loop load on a running service, at one rate or around its capacity."""

from __future__ import annotations

import argparse
import functools
import json
import math
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tqdm import tqdm

from app.cli.client import DEFAULT_URL, Refused, Unreachable, credentials, recommend, tell
from app.cli.common import Subparsers, new_verb, refuse
from app.cli.table import table
from app.load.capacity import Capacity, Overload, Search, find_capacity, overload
from app.load.generator import Progress
from app.load.plan import Phase, Plan, RequestClass
from app.load.process import LoadFailed, run_elsewhere
from app.load.requests import recommend_requests
from app.load.summary import Summary
from app.load.target import NoTarget, Target

MULTIPLES = "0.5,1,1.5,2,3"
_MOST_MULTIPLE, _MOST_RATE, _MOST_SECONDS = 20.0, 50_000.0, 3_600.0
_MOST_USERS = 10_000
_REST = 5.0

EXAMPLES = f"""  recserve loadtest --rate 200 --seconds 30
  recserve loadtest 8000 --capacity {MULTIPLES}
  recserve loadtest http://127.0.0.1:8000 --scene discover --users ids.txt --rate 50 --json

Where the service asks for API keys, set RECSERVE_KEY."""

ABOUT = """Sends requests at Poisson arrivals whether or not earlier ones were answered, and counts latency from the
moment each should have been sent. Ends non-zero when no request was served, or when this generator was itself too
late."""


def add(verbs: Subparsers) -> None:
    """Register the verb."""
    parser = new_verb(verbs, "loadtest", EXAMPLES, ABOUT)
    parser.add_argument(
        "where", nargs="?", default=DEFAULT_URL, metavar="URL", help=f"the service's address or port ({DEFAULT_URL})"
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--rate", type=_up_to(_MOST_RATE), default=50.0, metavar="N", help="requests per second (50)")
    how.add_argument(
        "--capacity",
        type=_multiples,
        nargs="?",
        const=_multiples(MULTIPLES),
        metavar="LIST",
        help=f"find the capacity, then run at these multiples of it ({MULTIPLES})",
    )
    seconds = _up_to(_MOST_SECONDS)
    parser.add_argument("--seconds", type=seconds, default=10.0, metavar="N", help="how long each run sends (10)")
    parser.add_argument("--scene", default="home", metavar="SCENE", help="the scene to ask (home)")
    parser.add_argument("--size", type=int, default=20, metavar="N", help="how many items to ask for (20)")
    parser.add_argument(
        "--priority", choices=("interactive", "prefetch", "batch"), help="of the requests (the scene's)"
    )
    parser.add_argument("--users", type=Path, metavar="FILE", help="user ids, one per line (the release's examples)")
    parser.add_argument("--budget", type=_up_to(60_000.0), default=120.0, metavar="MS", help="of a good answer (120)")
    parser.add_argument("--seed", type=_seed, default=0, metavar="N", help="the same seed gives the same arrivals (0)")
    parser.add_argument("--anywhere", action="store_true", help="load another machine than this one")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Load, print, and return the exit status."""
    priority: dict[str, Any] = {} if args.priority is None else {"priority": args.priority}
    try:
        headers = credentials()
        target = Target.of(args.where, anywhere=args.anywhere)
        # One request first: a wrong scene or a service that isn't ready is told as such, and not as a table of errors.
        recommend(target.url, {"scene": args.scene, "size": args.size, **priority})
        plan = _plan(args, target, priority, headers)
        return _capacity(args, target, plan) if args.capacity else _rate(args, target, plan)
    except (Unreachable, Refused) as error:
        return tell(error, args.json)
    except (NoTarget, LoadFailed, OSError, ValueError) as error:
        return refuse(error)


def _plan(args: argparse.Namespace, target: Target, priority: Mapping[str, Any], headers: Mapping[str, str]) -> Plan:
    """Raises NoTarget, OSError and ValueError."""
    if args.users is None:
        users = target.version().get("example_users") or [None]
    else:
        try:
            users = args.users.read_text(encoding="utf-8").split("\n")
        except UnicodeDecodeError as error:
            raise ValueError(f"{args.users}: byte {error.start} isn't UTF-8. Save the file as UTF-8.") from None
        users = [user.rstrip("\r") for user in users if user.strip()][:_MOST_USERS]
        if not users:
            raise ValueError(f"{args.users}: no user ids. Expected one per line.")
    requests = recommend_requests(args.scene, users, size=args.size, host=target.host, headers=headers, **priority)
    kind = RequestClass(args.scene, requests, budget=args.budget / 1e3)
    rate = 0.0 if args.capacity else args.rate
    return Plan(target.address, (kind,), (Phase("load", rate, args.seconds),), seed=args.seed)


def _rate(args: argparse.Namespace, target: Target, plan: Plan) -> int:
    whole = math.ceil(args.seconds)
    with tqdm(total=whole, unit="s", disable=args.json, file=sys.stderr) as bar:

        def tick(progress: Progress) -> None:
            bar.set_postfix(sent=progress.sent, answered=progress.answered, failed=progress.failed, refresh=False)
            bar.update(min(math.floor(progress.seconds), whole) - bar.n)

        result = run_elsewhere(plan, tick)
    summary = result.summary()
    status = verdict(summary.late, summary.answered, summary.served)
    if args.json:
        print(json.dumps({**_head(args, target), "valid": not status, **result.as_json()}))
    else:
        print(figures({"": summary}))
        print(outcomes(summary))
        for (config, release), count in result.pairs().items():
            print(f"served by {release}, configuration {config}: {count}")
    return status


def _capacity(args: argparse.Namespace, target: Target, plan: Plan) -> int:
    search = Search()
    longest = search.longest + len(args.capacity) * (_REST + args.seconds)
    _say(f"loadtest: this takes up to {math.ceil(longest / 60)} minutes")
    found = find_capacity(plan, run_elsewhere, search=search, say=_say)
    runs = None
    if found.rate:
        runs = overload(plan, run_elsewhere, found.rate, args.capacity, seconds=args.seconds, rest=_REST, say=_say)
    late = runs.late if runs else any(step.summary.late for step in found.steps)
    answered = sum(step.summary.answered for step in found.steps)
    served = sum(step.summary.served for step in found.steps)
    status = verdict(late, answered, served) or int(runs is None)
    if args.json:
        after = None if runs is None else runs.as_json()
        print(json.dumps({**_head(args, target), "valid": not status, "search": found.as_json(), "overload": after}))
    else:
        print(_capacity_text(found, runs))
    return status


def _capacity_text(found: Capacity, runs: Overload | None) -> str:
    lines = [f"capacity  {found.rate:.0f} requests/s ({found.why})"]
    if runs is not None:
        lines += ["", figures({f"{times:g} x": summary for times, summary in runs.runs.items()}), ""]
        lines += [f"{times:g} x  {outcomes(summary)}" for times, summary in runs.runs.items()]
        lines.append(f"goodput at {max(runs.runs):g} x capacity is {runs.kept:.1%} of the peak, {runs.peak:.0f}/s")
    return "\n".join(lines)


def figures(runs: Mapping[str, Summary]) -> str:
    """A line for each run."""
    header = ("", "sent/s", "good/s", "served", "full", "shed", "failed", "p50 ms", "p99 ms", "p99.9 ms", "late ms")
    rows = [
        [
            name,
            f"{run.sent / run.seconds:.0f}",
            f"{run.goodput:.0f}",
            f"{run.availability:.2%}",
            f"{run.full_share:.1%}",
            str(run.shed),
            str(run.failed),
            *(f"{value * 1e3:.1f}" for value in (run.latency.p50, run.latency.p99, run.latency.p999, run.late_p99)),
        ]
        for name, run in runs.items()
    ]
    return table(header, rows, right=frozenset(range(len(header))))


def outcomes(run: Summary) -> str:
    """How many requests had which status, and how many answers which level."""
    ends = ", ".join(f"{name}: {count}" for name, count in run.outcomes.items()) or "none"
    levels = ", ".join(f"{level}: {count}" for level, count in run.levels.items()) or "none"
    return f"{run.sent} requests ({ends}); levels ({levels}); {run.empty} empty lists"


def verdict(late: bool, answered: int, served: int) -> int:
    """The exit status; tells a person why it isn't 0."""
    if not answered:
        return refuse("No answer came.")
    if not served:
        return refuse("No request was served: every answer was a refusal or an error.")
    if late:
        return refuse(
            "The generator was late, so these latencies are partly its own. Free a core for it, or ask for less."
        )
    return 0


def _head(args: argparse.Namespace, target: Target) -> dict[str, Any]:
    return {"url": target.url, "scene": args.scene, "budget_ms": args.budget}


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _up_to(most: float) -> Callable[[str], float]:
    return functools.partial(_number, most)


def _number(most: float, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= most:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a number above 0, at most {most:g}")
    return value


def _seed(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text!r}: expected an integer from 0")
    return int(text)


def _multiples(text: str) -> tuple[float, ...]:
    """Raises argparse.ArgumentTypeError."""
    return tuple(sorted({_number(_MOST_MULTIPLE, one) for one in text.split(",")}))
