"""`recserve schema`: JSON Schemas of the configuration files, for completion and checks in editors."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from app.cli.common import Subparsers, new_verb
from app.config.load import components_of
from app.config.problems import ConfigError
from app.config.schema import json_schemas

EXAMPLES = """  recserve schema
  recserve schema --config configs --out .vscode/recserve

An editor with the YAML language server takes one by the first line of a file:
  # yaml-language-server: $schema=../var/schemas/service.schema.json"""


def add(subparsers: Subparsers) -> None:
    """Register the verb."""
    parser = new_verb(
        subparsers,
        "schema",
        EXAMPLES,
        "Writes a JSON Schema for each kind of file, with the settings of every component, those of "
        "the extensions in service.yaml included.",
    )
    parser.add_argument("--config", default="configs", metavar="DIR", help="the configuration (default: configs)")
    parser.add_argument("--out", default="var/schemas", metavar="DIR", help="where to write (default: var/schemas)")
    parser.add_argument("--json", action="store_true", help="print one JSON object of all schemas, write nothing")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Write or print, and return the exit status."""
    try:
        registry = components_of(Path(args.config), env=os.environ)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 1
    schemas = json_schemas(registry)
    if args.json:
        print(json.dumps(schemas, ensure_ascii=False))
        return 0
    folder = Path(args.out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, schema in schemas.items():
            path = folder / f"{name.removesuffix('.yaml').replace('scenes/*', 'scene')}.schema.json"
            path.write_text(json.dumps(schema, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
            print(path)
    except OSError as error:
        print(f"{error.filename or folder}: can't be written: {error.strerror}.", file=sys.stderr)
        return 1
    return 0
