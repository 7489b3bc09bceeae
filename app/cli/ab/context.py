"""`--context NAME=VALUE`: the attributes of a request, in the types that service.yaml declares."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

from app.ab.errors import AbError
from app.attributes import fill
from app.config.model import Config
from app.problems import Problem
from stages.types import Scalar


def add_context(parser: argparse.ArgumentParser) -> None:
    """Register the option."""
    parser.add_argument(
        "--context", action="append", default=[], metavar="NAME=VALUE", help="an attribute of the request; repeatable"
    )


def context_of(pairs: Sequence[str], config: Config) -> Mapping[str, Scalar]:
    """The request's context with the declared defaults filled in. Raises AbError."""
    sent: dict[str, Scalar] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise AbError(f"--context {pair}: expected NAME=VALUE, such as app_version=3.2.0.")
        declared = config.service.context.get(name)
        sent[name] = _value(text, "str" if declared is None else declared.type)
    try:
        return fill(sent, config.service.context)
    except Problem as problem:
        raise AbError(f"--context {problem}.") from None


def _value(text: str, kind: str) -> Scalar:
    """In its type if it can be read so; the service's own check speaks about the others."""
    try:
        if kind == "int":
            return int(text)
        if kind == "float":
            return float(text)
    except ValueError:
        return text
    return {"true": True, "false": False}.get(text, text) if kind == "bool" else text
