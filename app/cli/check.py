"""`recserve check`: every problem of a configuration in one run, or what its defaults filled in."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from app.build import check_release
from app.cli.common import Subparsers, add_places, new_verb
from app.config.load import load_config
from app.config.model import Config
from app.config.problems import ConfigError, Mark, Problem, suggestion
from app.config.resolved import render_resolved
from app.paths import placed
from features.manifest import active
from stages.errors import ReleaseError

EXAMPLES = """  recserve check
  recserve check --config configs --resolved home"""


def add(subparsers: Subparsers) -> None:
    """Register the verb."""
    parser = new_verb(
        subparsers,
        "check",
        EXAMPLES,
        "Reads all configuration files and reports every problem in one run, then checks and rehearses them against "
        "the active release if there is one; exits 1 when there is a problem.",
    )
    add_places(parser)
    parser.add_argument(
        "--resolved", metavar="SCENE", help="print a scene with its defaults filled in, and where each value is from"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Check, print, and return the exit status: 0 good, 1 problems."""
    try:
        config = placed(load_config(args.config, env=os.environ), args.var)
        release = check_release(config) if active(Path(config.service.releases)) else None
    except ConfigError as error:
        return _refuse(error, args.json)
    except ReleaseError as error:
        return _refuse(ConfigError([Problem(Mark(str(args.config), 0), "", str(error))]), args.json)
    if args.resolved is not None and args.resolved not in config.scenes:
        message = f"There is no scene {args.resolved!r}. {suggestion(args.resolved, config.scenes)}"
        print(message, file=sys.stderr)
        return 1
    if args.json:
        print(json.dumps(_summary(config, args.resolved), ensure_ascii=False))
    elif args.resolved is not None:
        print(render_resolved(config, args.resolved), end="")
    else:
        scenes = ", ".join(f"{name} ({len(scene.steps)} steps)" for name, scene in sorted(config.scenes.items()))
        fit = "no release is active yet" if release is None else f"it fits release {release}"
        print(f"{args.config}: configuration {config.id} is good, {fit}. Scenes: {scenes}.")
    return 0


def _refuse(error: ConfigError, as_json: bool) -> int:
    if as_json:
        problems = [
            {"file": one.mark.file, "line": one.mark.line, "path": one.path, "message": one.message}
            for one in error.problems
        ]
        print(json.dumps({"good": False, "problems": problems}, ensure_ascii=False))
    else:
        count = len(error.problems)
        print(error, file=sys.stderr)
        print(f"{count} problem{'s' if count != 1 else ''}.", file=sys.stderr)
    return 1


def _summary(config: Config, resolved: str | None) -> dict[str, Any]:
    summary: dict[str, Any] = {
        "good": True,
        "config": config.id,
        "scenes": {name: [step.name for step in scene.steps] for name, scene in config.scenes.items()},
    }
    if resolved is not None:
        summary["resolved"] = render_resolved(config, resolved)
    return summary
