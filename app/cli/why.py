"""`recserve why --user U --item I`: the step that kept an item out of a list and by how much, or its place in it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import Any

from app.cli.client import Refused, Unreachable, add_client, recommend, tell
from app.cli.common import Subparsers, new_verb
from app.cli.recommend import facts, listing
from app.cli.table import clean, table

EXAMPLES = """  recserve why --user 1607 --item 1044078
  recserve why --user 1607 --item 1044078 --scene discover --size 50 --json

The question is asked anew: the answer is about this moment's list, not about one that was served before."""


def add(verbs: Subparsers) -> None:
    """Register the verb."""
    parser = new_verb(verbs, "why", EXAMPLES)
    parser.add_argument("--user", metavar="U", help="whose list; left out: an anonymous request")
    parser.add_argument("--item", required=True, metavar="I", help="the id of the item")
    add_client(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Ask, print, and return the exit status: 0 whether or not the item is listed."""
    body = {
        "scene": args.scene,
        "user_id": args.user,
        "size": args.size,
        "debug": True,
        "why_not": [args.item],
    }
    try:
        answer = recommend(args.url, body).answer
    except (Unreachable, Refused) as error:
        return tell(error, args.json)
    found = answer["trace"]["why_not"][0]
    if args.json:
        about = {name: answer[name] for name in ("scene", "config", "release", "degraded")}
        said = {**found, "listed": found["step"] is None, "user_id": args.user, "size": args.size, **about}
        print(json.dumps(said, ensure_ascii=False))
    elif found["step"] is None:
        print(_listed(answer, found, args))
    else:
        print(_kept_out(answer, found, args))
    return 0


def _listed(answer: Mapping[str, Any], found: Mapping[str, Any], args: argparse.Namespace) -> str:
    item = next(one for one in answer["items"] if one["id"] == args.item)
    stages = answer["trace"]["items"].get(args.item, {})
    rows = [[step, f"{score:.4g}"] for step, score in stages.items() if score is not None]
    parts = [
        f"{clean(args.item)} is number {found['rank']} of {_list(answer, args)}.",
        listing([item], first=found["rank"]),
    ]
    if rows:
        parts.append(table(("after", "score"), rows, right=frozenset((1,))))
    return "\n\n".join(parts)


def _kept_out(answer: Mapping[str, Any], found: Mapping[str, Any], args: argparse.Namespace) -> str:
    lines = [
        f"{clean(args.item)} is not in {_list(answer, args)}.",
        f"step      {found['step']}",
        f"reason    {found['reason']}",
    ]
    if found["rank"] is not None:
        lines.append(f"rank      {found['rank']}")
    if found["cut"] is not None:
        lines.append(f"cut       {found['cut']}")
    return "\n".join([*lines, facts(answer, args.size)])


def _list(answer: Mapping[str, Any], args: argparse.Namespace) -> str:
    who = "an anonymous user" if args.user is None else f"user {clean(args.user)}"
    return f"the list of {len(answer['items'])} for {who} in {answer['scene']}"
