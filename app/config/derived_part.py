"""Derived columns against the table of transforms: the name, the number of arguments, the kind of each."""

from __future__ import annotations

from typing import Any

from app.config.bind import shown
from app.config.catalog import DERIVED_TYPE, HISTORY, Catalog, check_column
from app.config.features_part import FILE
from app.config.findings import Findings, mentions_invalid
from app.config.model import DerivedConfig
from app.config.problems import Path, suggestion
from features.transforms import TRANSFORMS, ParameterKind, Transform

FROM_REQUEST = (ParameterKind.ROWS, ParameterKind.NOW)
NUMERIC = ("f32", "f64", "i32", "i64", "bool", "time")
CODES = ("vocab", "str", "i32", "i64")
EXPECTED = {
    ParameterKind.COLUMN: "a numeric item column",
    ParameterKind.MATRIX: "an item vector column",
    ParameterKind.USER_VECTOR: "a user vector column",
    ParameterKind.HISTORY: "a history of the user",
    ParameterKind.RESIDENT_COLUMN: "a numeric item column of a release view without cache",
    ParameterKind.RESIDENT_MATRIX: "an item vector column of a release view without cache",
    ParameterKind.RESIDENT_CODES: "an item column of type vocab, str, i32 or i64 of a release view without cache",
    ParameterKind.CONSTANT: "a number",
}


def given_parameters(transform: Transform) -> dict[str, ParameterKind]:
    """The parameters that configuration gives, in order."""
    return {name: kind for name, kind in transform.parameters.items() if kind not in FROM_REQUEST}


def check_derived(findings: Findings, catalog: Catalog) -> None:
    """Report every derived column that can't be computed."""
    for derived in catalog.features.derived.values():
        path: Path = (FILE, "derived", derived.name)
        transform = TRANSFORMS.get(derived.transform)
        if transform is None:
            near = suggestion(derived.transform, TRANSFORMS)
            findings.add((*path, derived.transform), f"There is no transform {derived.transform!r}. {near}")
            continue
        _check_args(findings, catalog, derived, transform, (*path, derived.transform))
    for name in _cycles(catalog):
        findings.add((FILE, "derived", name), f"{name} is made of itself. Derive it from stored columns.")


def _check_args(findings: Findings, catalog: Catalog, derived: DerivedConfig, transform: Transform, path: Path) -> None:
    parameters = given_parameters(transform)
    least = sum(name not in transform.defaults for name in parameters)
    if not least <= len(derived.args) <= len(parameters):
        usage = ", ".join(f"{name}: {EXPECTED[kind]}" for name, kind in parameters.items()) or "none"
        count = len(derived.args)
        said = "1 argument" if count == 1 else f"{count} arguments"
        findings.add(path, f"{derived.transform} got {said}. Expected {usage}.")
        return
    for index, (arg, (name, kind)) in enumerate(zip(derived.args, parameters.items(), strict=False)):
        where = (*path, index)
        if mentions_invalid(arg):
            continue
        if kind is ParameterKind.CONSTANT:
            if isinstance(arg, bool) or not isinstance(arg, (int, float)):
                findings.add(where, f"{name} is {shown(arg)}. Expected a number.")
        elif not isinstance(arg, str):
            findings.add(where, f"{name} is {shown(arg)}. Expected {EXPECTED[kind]}.")
        else:
            _check_column_arg(findings, catalog, where, arg, kind)


def _check_column_arg(findings: Findings, catalog: Catalog, path: Path, arg: str, kind: ParameterKind) -> None:
    found = check_column(findings, catalog, path, arg, catalog.columns)
    if found is None:
        return
    stored = catalog.features.fields.get(arg)
    resident = stored is not None and stored[0].kind == "release" and stored[0].cache is None
    vector = found.endswith("]")
    item = arg.startswith("item.")
    fits: dict[Any, bool] = {
        ParameterKind.COLUMN: item and (found in NUMERIC or found == DERIVED_TYPE),
        ParameterKind.MATRIX: item and vector,
        ParameterKind.USER_VECTOR: not item and vector,
        ParameterKind.HISTORY: found == HISTORY,
        ParameterKind.RESIDENT_COLUMN: item and resident and found in NUMERIC,
        ParameterKind.RESIDENT_MATRIX: item and resident and vector,
        ParameterKind.RESIDENT_CODES: item and resident and found in CODES,
    }
    if not fits[kind]:
        kept = "" if stored is None else f" of the view {stored[0].name!r}"
        findings.add(path, f"{arg} is {found}{kept}. Expected {EXPECTED[kind]}.")


def _cycles(catalog: Catalog) -> list[str]:
    derived = catalog.features.derived
    return [
        name
        for name, config in derived.items()
        if any(name in catalog.reads(arg) for arg in config.args if isinstance(arg, str) and arg in derived)
    ]
