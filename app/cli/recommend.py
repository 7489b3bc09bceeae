"""`recserve recommend USER`: the running service's list for a user, with titles, reasons and the funnel behind it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from typing import Any

from app.cli.client import Refused, Reply, Unreachable, add_client, recommend, tell
from app.cli.common import Subparsers, new_verb
from app.cli.table import clean, shortened, table

TITLE_CELLS = 48

EXAMPLES = """  recserve recommend 1607
  recserve recommend 1607 --scene discover --size 5 --json
  recserve recommend                            (an anonymous request)

Elsewhere than on this machine the funnel is shown to those who have the service's token: set RECSERVE_TOKEN."""


def add(verbs: Subparsers) -> None:
    """Register the verb."""
    parser = new_verb(verbs, "recommend", EXAMPLES)
    parser.add_argument("user", nargs="?", metavar="USER", help="whose list; left out: an anonymous request")
    add_client(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Ask, print, and return the exit status."""
    body: dict[str, Any] = {"scene": args.scene, "user_id": args.user, "size": args.size, "debug": True}
    try:
        reply, hidden = _asked(args.url, body)
    except (Unreachable, Refused) as error:
        return tell(error, args.json)
    if args.json:
        print(json.dumps(reply.answer, ensure_ascii=False))
        return 0
    print(_headline(reply, args.user))
    print()
    print(listing(reply.answer["items"]) if reply.answer["items"] else "The list is empty.")
    print()
    print(facts(reply.answer, args.size))
    if hidden:
        print("funnel    hidden: debug output from here needs the service's token in RECSERVE_TOKEN")
    else:
        print()
        print(funnel(reply.answer.get("trace", {}).get("steps", ())))
    return 0


def _asked(url: str, body: dict[str, Any]) -> tuple[Reply, bool]:
    """The reply, and whether it had to be asked for without the funnel."""
    try:
        return recommend(url, body), False
    except Refused as refused:
        if refused.kind != "debug-forbidden":
            raise
    return recommend(url, {**body, "debug": False}), True


def _headline(reply: Reply, user: str | None) -> str:
    answer = reply.answer
    who = "an anonymous user" if user is None else f"user {clean(user)}"
    return (
        f"{answer['scene']} for {who}: {len(answer['items'])} items in {reply.seconds * 1e3:.1f} ms, "
        f"release {answer['release']}, configuration {answer['config']}"
    )


def listing(items: Sequence[Mapping[str, Any]], *, first: int = 1) -> str:
    """Items as a table: rank (from `first`), id, title and price where the scene returns them, score, reasons."""
    rows = [
        [
            str(place),
            clean(item["id"]),
            shortened(clean(item["fields"].get("title") or ""), TITLE_CELLS),
            _price(item["fields"].get("price")),
            "" if item["score"] is None else f"{item['score']:.4g}",
            ", ".join(item["channels"]),
        ]
        for place, item in enumerate(items, first)
    ]
    return table(("#", "id", "title", "price", "score", "reasons"), rows, right=frozenset((0, 3, 4)))


def facts(answer: Mapping[str, Any], size: int) -> str:
    """Buckets, what was degraded, and why the list is short if it is: a line each."""
    buckets = ", ".join(f"{layer} {bucket}" for layer, bucket in answer["buckets"].items())
    degraded = ", ".join(f"{one['step']} ({one['reason']})" for one in answer["degraded"])
    lines = [f"buckets   {buckets or 'no layers'}", f"degraded  {degraded or 'nothing'}"]
    if answer["short"] is not None:
        lines.append(f"short     {answer['short']}: {len(answer['items'])} of {size} items")
    return "\n".join(lines)


def funnel(steps: Sequence[Mapping[str, Any]]) -> str:
    """A line per step: candidates in and out, milliseconds, the wait for a thread, and why it degraded."""
    rows = [
        [
            str(step["name"]),
            "" if step["in"] is None else str(step["in"]),
            str(step["out"]),
            f"{step['ms']:.2f}",
            f"{step['queue_ms']:.2f}" if step.get("queue_ms") else "",
            step["reason"] or (f"no {step['missing']}" if step.get("missing") else ""),
        ]
        for step in steps
    ]
    total = sum(step["ms"] for step in steps)
    header = ("step", "in", "out", "ms", "queued ms", "degraded")
    return table(header, [*rows, ["all steps", "", "", f"{total:.2f}", "", ""]], right=frozenset((1, 2, 3, 4)))


def _price(value: Any) -> str:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return f"{value:.2f}"
    return "" if value is None else clean(value)
