"""`recserve release`: which releases there are, which one serves, one command forward and one back."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tqdm import tqdm

from app.cli.common import VAR, Subparsers, new_verb, refuse
from app.cli.table import table
from app.config.problems import suggestion
from app.push.history import releases_in_use
from app.push.poke import NoService, find, operator_url, reload
from app.push.releases import (
    Release,
    files_of,
    listed,
    locked,
    previous,
    put_back_on_failure,
    removable,
    remove,
    sweep,
    verify,
)
from features.growth import implausible
from features.manifest import Manifest, ManifestError, activate, active

KEEP = 3
HEADER = ("release", "state", "as of", "items", "users", "size")
NUMBERS = frozenset((3, 4, 5))

EXAMPLES = """  recserve release list
  recserve release activate 2026-11-29T10-00-00
  recserve release rollback
  recserve release gc --keep 5"""


class _Refused(Exception):
    """What was asked for isn't done; str() says why."""


def add(verbs: Subparsers) -> None:
    """Register the verb."""
    parser = new_verb(verbs, "release", EXAMPLES)
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    _action(actions, "list", _list, "show all releases, newest first")
    forward = _action(actions, "activate", _activate, "verify a release and have it served")
    forward.add_argument("release", metavar="VERSION", help="as `recserve release list` names it")
    forward.add_argument("--force", action="store_true", help="whatever its sizes, compared with the active one")
    back = _action(actions, "rollback", _rollback, "have the release before served again; once more comes back")
    for one in (forward, back):
        one.add_argument(
            "--reload",
            action=argparse.BooleanOptionalAction,
            help="have the running service take it (default: when one answers); put back what it refuses",
        )
        one.add_argument("--operator", default=operator_url(), metavar="URL", help="the operator's listener")
    gc = _action(actions, "gc", _gc, "remove old releases: never what is active, previous or served")
    gc.add_argument("--keep", type=_count, default=KEEP, metavar="N", help=f"how many of the newest stay ({KEEP})")


def _action(
    actions: Subparsers, name: str, run: Callable[[argparse.Namespace], dict[str, Any]], about: str
) -> argparse.ArgumentParser:
    parser = actions.add_parser(
        name,
        help=about,
        description=about,
        epilog=f"example:\n{next(line for line in EXAMPLES.splitlines() if f'release {name}' in line)}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--var", type=Path, default=VAR, metavar="DIR", help="what is made at run time (var)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=lambda args: _told(args, run))
    return parser


def _told(args: argparse.Namespace, run: Callable[[argparse.Namespace], dict[str, Any]]) -> int:
    try:
        done = run(args)
    except (_Refused, ManifestError, OSError, UnicodeDecodeError) as error:
        why = _why(error, args.var / "releases")
        if args.json:
            print(json.dumps({"errors": why.splitlines()}, ensure_ascii=False))
        return refuse(why)
    said = done.pop("said")
    print(json.dumps(done, ensure_ascii=False) if args.json else said)
    return 0


def _why(error: Exception, releases: Path) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"{releases / 'previous'}: isn't UTF-8. Expected a release's name; write it there, or remove the file."
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or releases}: {error.strerror}."
    return str(error)


def _list(args: argparse.Namespace) -> dict[str, Any]:
    found = listed(_releases(args))
    rows = [_row(one) for one in found]
    said = table(HEADER, [_cells(one) for one in found], right=NUMBERS) if found else _none(args)
    return {"releases": rows, "said": said}


def _row(one: Release) -> dict[str, Any]:
    items, users = _counts(one)
    as_of = None if one.manifest is None else _moment(one.manifest.as_of)
    known = {"release": one.version, "state": one.state, "as_of": as_of, "items": items, "users": users}
    return {**known, "bytes": one.bytes}


def _cells(one: Release) -> list[str]:
    as_of = "" if one.manifest is None else _moment(one.manifest.as_of)
    counts = ("" if number is None else f"{number:,}" for number in _counts(one))
    return [one.version, one.state, as_of, *counts, f"{one.bytes / 1e6:,.1f} MB"]


def _counts(one: Release) -> tuple[int | None, int | None]:
    if one.manifest is None:
        return None, None
    return int(one.manifest.entities["item"]["n"]), int(one.manifest.entities["user"]["n"])


def _activate(args: argparse.Namespace) -> dict[str, Any]:
    releases = _releases(args)
    _check_known(releases, args.release)
    with locked(releases):
        manifest = Manifest.read(releases / args.release, verify=False)
        if manifest.release != args.release:
            raise _Refused(f"{manifest.root}: its manifest says {manifest.release!r}. Expected the folder's name.")
        size = sum(facts["bytes"] for facts in files_of(manifest).values())
        with tqdm(total=size, unit="B", unit_scale=True, desc="checksums", disable=args.json, file=sys.stderr) as bar:
            verify(manifest, bar.update)
        before = active(releases)
        if before not in (None, args.release) and not args.force:
            problems = implausible(manifest, _other(releases, str(before)))
            if problems:
                raise _Refused("\n".join([*problems, "Not activated. If that is how it should be, add --force."]))
        return _take(args, releases, args.release, before)


def _check_known(releases: Path, version: str) -> None:
    """Raises _Refused for a release that isn't there, ManifestError or OSError for one that can't be read."""
    found = listed(releases)
    known = [one.version for one in found if one.manifest is not None]
    if version in known:
        return
    if any(one.version == version for one in found):
        Manifest.read(releases / version, verify=False)  # says what is wrong with it
    raise _Refused(f"There is no release {version!r}. {suggestion(version, known)}")


def _rollback(args: argparse.Namespace) -> dict[str, Any]:
    releases = _releases(args)
    with locked(releases):
        version = previous(releases)
        if version is None:
            raise _Refused(f"{releases}: no release was active before. `recserve release list` shows what there is.")
        return _take(args, releases, version, active(releases))


def _gc(args: argparse.Namespace) -> dict[str, Any]:
    releases, now = _releases(args), time.time()
    with locked(releases):
        going = removable(releases, args.keep, releases_in_use(args.var / "configs"), now)
        removed, freed = [], 0
        with tqdm(going, unit="release", desc="removing", disable=args.json, file=sys.stderr) as bar:
            for one in bar:
                if remove(releases, one.version):
                    removed.append(one.version)
                    freed += one.bytes
        swept = list(sweep(releases, now))
        kept = [one.version for one in listed(releases)]
    said = f"Removed {len(removed)} of {len(removed) + len(kept)} releases, {freed / 1e6:,.1f} MB."
    return {"removed": removed, "kept": kept, "swept": swept, "bytes": freed, "said": said}


def _take(args: argparse.Namespace, releases: Path, version: str, before: str | None) -> dict[str, Any]:
    """Activate it, and have the running service take it; what that refuses is put back."""
    with put_back_on_failure(releases):
        activate(releases, version)
        served, said = _reload(args, releases)
    return {
        "active": version,
        "previous": previous(releases),
        "served": served,
        "said": f"Release {version} is active{'' if before in (None, version) else f', after {before}'}. {said}",
    }


def _reload(args: argparse.Namespace, releases: Path) -> tuple[bool, str]:
    if args.reload is False:
        return False, "A running service takes it on SIGHUP, or POST /admin/reload."
    try:
        find(args.operator, releases)
        print("The running service is taking it...", file=sys.stderr)
        errors = reload(args.operator)
    except NoService as error:
        if args.reload:
            raise _Refused(f"{error} Nothing is changed. Give --operator URL, or --no-reload.") from None
        return False, f"No running service was told ({error}) One takes it on SIGHUP, or POST /admin/reload."
    if errors:
        raise _Refused("\n".join([*errors, "The running service refused it; what was active is so again."]))
    return True, "The running service serves it."


def _other(releases: Path, version: str) -> Manifest:
    try:
        return Manifest.read(releases / version, verify=False)
    except ManifestError as error:
        raise _Refused(f"{error} So sizes can't be compared with the active release's; --force goes without.") from None


def _releases(args: argparse.Namespace) -> Path:
    releases: Path = args.var / "releases"
    if not releases.is_dir():
        raise _Refused(_none(args))
    return releases


def _none(args: argparse.Namespace) -> str:
    return f"{args.var / 'releases'}: there is no release. Run `recserve bootstrap` to build one."


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text!r} is no number. Expected 0 or more.")
    return int(text)


def _moment(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
