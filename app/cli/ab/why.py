"""`recserve ab why`: every hash, slot and reason of one request's assignment."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime

from abtest.explain import Explanation, Hashed, LayerExplanation
from abtest.hashing import MAX_UNIT_BYTES, encode_unit
from app.ab.errors import AbError
from app.cli.ab.common import add_config, configuration, sub_verb
from app.cli.ab.context import add_context, context_of
from app.cli.common import Subparsers, moment
from app.cli.table import clean, table
from app.config.problems import suggestion

EXAMPLES = """  recserve ab why --user 1607
  recserve ab why --user 1607 --scene discover --context app_version=3.2.0 --at 2026-12-01T09:00:00+01:00"""

ABOUT = """Assigns one request by the configuration on the disk, as the service would, and shows the way: salts, hashes,
slots, conditions, and where the value of each parameter comes from. Needs no running service."""


def add(verbs: Subparsers) -> None:
    """Register the sub-verb."""
    parser = sub_verb(verbs, "why", run, "every hash, slot and reason of one request's assignment", EXAMPLES, ABOUT)
    for name in ("user", "device", "session", "request"):
        parser.add_argument(f"--{name}", metavar="ID", help=f"the request's {name}_id")
    parser.add_argument("--scene", metavar="SCENE", help="the scene (home, or the only one with layers)")
    add_context(parser)
    parser.add_argument("--at", type=moment, metavar="TIME", help="the time of the request (now)")
    add_config(parser)


def run(args: argparse.Namespace) -> int:
    """Explain, print, and return the exit status: 0 whatever the outcome."""
    config = configuration(args)
    scene = args.scene or _only([name for name, plan in config.experiments.scenes.items() if plan.layers])
    if scene not in config.scenes:
        raise AbError(f"There is no scene {scene!r}. {suggestion(scene, config.scenes)}")
    units = {f"{name}_id": _unit(name, getattr(args, name)) for name in ("user", "device", "session", "request")}
    now = time.time() if args.at is None else args.at
    found = config.experiments.explain(scene, units, context_of(args.context, config), now)
    print(json.dumps(found.as_json(), ensure_ascii=False) if args.json else _text(found))
    return 0


def _unit(name: str, given: str | None) -> str | None:
    """Raises AbError for what the service answers 422."""
    if given is not None and encode_unit(given) is None:
        raise AbError(f"--{name}: expected an id of 1 to {MAX_UNIT_BYTES} bytes.")
    return given


def _only(scenes: list[str]) -> str:
    return scenes[0] if len(scenes) == 1 else "home"


def _text(found: Explanation) -> str:
    parts = [f"{found.scene}, {_time(found.now)}"]
    lines = []
    if found.holdout is not None:
        held = "held out: the defaults everywhere" if found.holdout.held else f"not below {found.holdout.slots}"
        lines.append(["holdout", *_hashed(found.holdout.hashed), held])
    if found.domain is not None:
        lines.append(["domain", *_hashed(found.domain.hashed), found.domain.name or "none"])
    for layer in found.layers:
        lines += _layer(layer)
    header = ("", "hash of", "murmur3", "slot", "")
    parts.append(table(header, lines, right=frozenset((2, 3))))
    rows = [[one.name, clean(one.value), one.source, one.by or ""] for one in found.params]
    if rows:
        parts.append(table(("parameter", "value", "from", ""), rows))
    return "\n\n".join(parts)


def _layer(layer: LayerExplanation) -> Iterator[list[str]]:
    yield [layer.layer, *_hashed(layer.place), f"held by {layer.holder}" if layer.holder else "held by nobody"]
    if layer.split is not None:
        yield ["", *_hashed(layer.split), f"bucket {layer.bucket}" if layer.bucket else ""]
    if layer.when is not None:
        outcome = {True: "holds", False: "doesn't hold", None: "wasn't asked"}[layer.meets]
        yield ["", "", "", "", f"{clean(layer.when)} {outcome}"]
    for name, at in (("start", layer.start), ("end", layer.end)):
        if at is not None:
            yield ["", "", "", "", f"{name} {_time(at)}"]
    yield ["", "", "", "", f"=> {layer.label}, by {layer.reason}"]


def _hashed(hashed: Hashed | None) -> tuple[str, str, str]:
    if hashed is None:
        return "", "", ""
    return clean(f"{hashed.salt}:{hashed.unit}"), str(hashed.hash), str(hashed.slot)


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
