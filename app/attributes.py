"""Context attributes: what a request sent, checked against what `service.yaml` declares, defaults filled in."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from app.ports import ContextField
from app.problems import Problem
from app.wire import MAX_ID_BYTES
from expression.versions import version_key
from stages.types import Scalar

_EXPECTED = {
    "str": "a string of at most 256 bytes",
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "semver": 'a version such as "3.2.0"',
}
_MAX_NAME = 64


def fill(sent: Mapping[str, Scalar], declared: Mapping[str, ContextField]) -> dict[str, Scalar]:
    """The request's context: every declared attribute that was sent or has a default.

    Raises Problem for an undeclared attribute (with the list of declared ones) or a wrong type.
    """
    filled = {name: field.default for name, field in declared.items() if field.default is not None}
    for name, value in sent.items():
        field = declared.get(name)
        if field is None:
            raise _undeclared(name, declared)
        filled[name] = _typed(name, value, field.type)
    return filled


def _typed(name: str, value: Scalar, wanted: str) -> Scalar:
    kind = type(value)
    if wanted == "float" and kind is int:
        return float(value)
    if kind is str and wanted in ("str", "semver"):
        assert isinstance(value, str)
        fits = len(value) <= MAX_ID_BYTES and len(value.encode()) <= MAX_ID_BYTES
        if fits and (wanted == "str" or version_key(value)):
            return value
    elif kind.__name__ == wanted:
        return value
    raise Problem(
        "wrong-context-type",
        f"context.{name}: declared as {wanted}. Expected {_EXPECTED[wanted]}",
        field=f"context.{name}",
    )


def _undeclared(name: str, declared: Mapping[str, ContextField]) -> Problem:
    shown = name if len(name) <= _MAX_NAME else name[:_MAX_NAME] + "…"
    near = difflib.get_close_matches(name[:_MAX_NAME], declared, 1)
    hint = f' Did you mean "{near[0]}"?' if near else ""
    listed = ", ".join(f"{known}: {field.type}" for known, field in declared.items()) or "none"
    return Problem(
        "undeclared-context",
        f"context.{shown}: not declared in service.yaml.{hint} Declared: {listed}.",
        field=f"context.{shown}",
        declared={known: field.type for known, field in declared.items()},
    )
