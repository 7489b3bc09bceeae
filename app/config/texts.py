"""Checks the texts of expressions: readable, over known names, of the expected kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from app.config.catalog import HISTORY, Catalog
from app.config.findings import Findings
from app.config.problems import Path, suggestion
from expression import Expression, ExpressionError, compile_expression, names_of, parameters_of
from stages.types import Scalar


@dataclass(frozen=True, slots=True)
class Texts:
    """Checks the expressions of one scene against the names of a place in it."""

    findings: Findings
    catalog: Catalog
    scene: str

    def check(self, path: Path, text: str, columns: Mapping[str, str], kind: str | None) -> Expression | None:
        """The compiled expression, or None (reported). `kind` is what its result has to be, None for any."""
        try:
            names, params = names_of(text), parameters_of(text)
            readable = self._readable(path, names, columns)
            values = self._values(path, params)
            if not readable or values is None:
                return None
            schema = {name: found for name, found in columns.items() if found != HISTORY}
            compiled = compile_expression(text, schema, values)
        except ExpressionError as error:
            self.findings.add(path, f"{self._place(path, error.column_offset)}{error.message}")
            return None
        if kind is not None and compiled.type != kind:
            fix = "Compare it with something." if kind == "bool" else "Expected a number."
            self.findings.add(path, f"The expression gives {compiled.type}, not {kind}. {fix}")
            return None
        return compiled

    def _place(self, path: Path, offset: int) -> str:
        column = self.findings.column(path)
        return f"Column {column + offset}: " if column is not None else f"Character {offset + 1}: "

    def _readable(self, path: Path, names: frozenset[str], columns: Mapping[str, str]) -> bool:
        """False when a name's own definition is wrong (silent) or it is a history (reported)."""
        readable = True
        for name in sorted(names):
            if columns.get(name) == HISTORY:
                self.findings.add(path, f"{name} is a history, which no expression can read. Derive a column.")
                readable = False
            elif name not in columns and self.catalog.silent(name):
                readable = False
        return readable

    def _values(self, path: Path, params: frozenset[str]) -> dict[str, Scalar] | None:
        """The parameters' defaults; None when one is unusable (reported here or at its declaration)."""
        values: dict[str, Scalar] = {}
        usable = True
        for name in sorted(params):
            if not check_param(self.findings, self.catalog, path, name, self.scene):
                usable = False
                continue
            declared = self.catalog.params[name]
            if declared is not None:
                values[name] = declared.values[0]
        return values if usable else None


def check_param(findings: Findings, catalog: Catalog, path: Path, name: str, scene: str) -> bool:
    """Whether the scene may read the parameter; reports an undeclared or another scene's one."""
    if name not in catalog.params:
        if not catalog.silent("$"):
            near = suggestion(name, catalog.params)
            findings.add(path, f"The parameter ${name} isn't declared in abtest.yaml. {near}")
        return False
    declared = catalog.params[name]
    if declared is None:
        return False
    if declared.scene != scene:
        findings.add(
            path,
            f"The parameter ${name} belongs to the scene {declared.scene!r}. Declare one of a layer of {scene!r}.",
        )
        return False
    return True
