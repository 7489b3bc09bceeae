"""Binds a component's settings: plain values, quantities, columns, references, expressions, `$name`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, get_args, get_origin

from app.config.bind import Binder, described, shown
from app.config.catalog import HISTORY, Catalog, check_column
from app.config.findings import Findings
from app.config.problems import Path, suggestion
from app.config.texts import Texts, check_param
from app.config.yaml_nodes import INVALID
from expression import Expression
from stages.registry import Duration, Ref, Setting, core_of
from stages.roles import LISTED, ColumnName
from stages.scene import Param
from stages.types import Scalar

KINDS = ("vector", "history", "str", "bool", "number")
REQUEST = ("user.", "context.")
PARAM = re.compile(r"\$([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)", re.ASCII)


def kind_of_column(type_name: str) -> str:
    """`vector`, `history`, `str`, `bool` or `number`."""
    if type_name.endswith("]"):
        return "vector"
    if type_name in ("vocab", "semver"):
        return "str"
    return type_name if type_name in (HISTORY, "str", "bool") else "number"


def check_kind(findings: Findings, path: Path, name: str, found: str, notes: Iterable[Any]) -> bool:
    """Whether a column of type `found` is of a kind among `notes`, or those name none; reported."""
    wanted = [note for note in notes if note in KINDS]
    if wanted and kind_of_column(found) not in wanted:
        findings.add(path, f"{name} is {found}. Expected a column of kind {' or '.join(wanted)}.")
        return False
    return True


def refers_to(setting: Setting, kind: str) -> bool:
    """Whether the setting names a `Table`, `VectorIndex` or `Model` of the release."""
    core, _ = core_of(setting.type)
    return get_origin(core) is Ref and get_args(core)[0].__name__ == kind


@dataclass(frozen=True, slots=True)
class Settings:
    """Binds the settings of one step. `columns` are the names it may read; None: unknown, so unchecked.

    `heads` are further names for expressions only.
    """

    findings: Findings
    catalog: Catalog
    scene: str
    columns: Mapping[str, str]
    heads: Mapping[str, str] | None

    def bind(self, setting: Setting, value: Any, path: Path) -> Any:
        """The checked value (see StepConfig.settings), or INVALID (reported)."""
        core, notes = core_of(setting.type)
        if value is None and type(None) in get_args(setting.type):
            return None
        if core is Expression:
            return self._expression(value, path, next((note for note in notes if isinstance(note, str)), None))
        param = PARAM.fullmatch(value) if isinstance(value, str) else None
        if param is not None:
            return self._param(setting, param[1], path)
        return self._value(value, path, setting.type)

    def _expression(self, value: Any, path: Path, kind: str | None) -> Any:
        if not isinstance(value, str):
            return Binder(self.findings).wrong(value, path, "an expression as text. Quote it")
        texts = Texts(self.findings, self.catalog, self.scene)
        if self.heads is None:
            return value
        return value if texts.check(path, value, {**self.columns, **self.heads}, kind) else INVALID

    def _value(self, value: Any, path: Path, tp: Any) -> Any:
        core, notes = core_of(tp)
        origin, args = get_origin(core), get_args(core)
        if value is INVALID or (value is None and type(None) in get_args(tp)):
            return value
        if core is Expression:
            return self._expression(value, path, next((note for note in notes if isinstance(note, str)), None))
        if core is ColumnName:
            return self._column(value, path, notes)
        if origin is Ref:
            return self._reference(value, path, args[0], notes)
        if origin in (list, tuple):
            if not isinstance(value, list):
                return Binder(self.findings).wrong(value, path, described(core))
            bound = [self._value(entry, (*path, index), args[0]) for index, entry in enumerate(value)]
            return INVALID if INVALID in bound else tuple(bound)
        if "event" in notes:
            return self._event(value, path)
        return Binder(self.findings).value(value, path, tp)

    def _event(self, value: Any, path: Path) -> Any:
        behaviour = self.catalog.features.behaviour
        declared = () if behaviour is None else behaviour.events
        if value in declared or self.catalog.silent("user.behaviour"):
            return value
        self.findings.add(path, f"{shown(value)} is not an event of features.yaml. {suggestion(str(value), declared)}")
        return INVALID

    def _column(self, value: Any, path: Path, notes: tuple[Any, ...]) -> Any:
        if not isinstance(value, str):
            return Binder(self.findings).wrong(value, path, described(ColumnName))
        if value in self.catalog.columns and value not in self.columns:
            message = f"{value} differs by item, and a channel sees the user and the context only."
            self.findings.add(path, f"{message} Expected a user.* or context.* column.")
            return INVALID
        found = check_column(self.findings, self.catalog, path, value, self.columns)
        if found is None:
            return INVALID
        of_request = value.startswith(REQUEST)
        if "item" in notes and of_request:
            self.findings.add(path, f"{value} is the same for every item. Expected an item.* column.")
            return INVALID
        if "request" in notes and not of_request:
            self.findings.add(path, f"{value} differs by item. Expected a user.* or context.* column.")
            return INVALID
        return ColumnName(value) if check_kind(self.findings, path, value, found, notes) else INVALID

    def _reference(self, value: Any, path: Path, target: type, notes: tuple[Any, ...]) -> Any:
        section = self.catalog.section(target.__name__)
        if not isinstance(value, str):
            kind = f"a name of {section[0]} in models.yaml" if section else "a name"
            return Binder(self.findings).wrong(value, path, kind)
        if section is not None:
            return value if self.refers(path, value, *section) and self.lists(path, value, notes) else INVALID
        return value

    def lists(self, path: Path, table: str, notes: tuple[Any, ...], why: str = "") -> bool:
        """Whether a table has lists by what `notes` of its setting ask for, if they do; reported."""
        keyed = next((kind for kind in LISTED if kind in notes), None)
        message = None if keyed is None else self.catalog.wrong_table(table, keyed, why)
        if message is not None:
            self.findings.add(path, message)
        return message is None

    def refers(self, path: Path, name: str, section: str, known: Mapping[str, object], why: str = "") -> bool:
        """Whether models.yaml has this name; reported unless the reason is already."""
        if name in known:
            return True
        if name not in self.catalog.declared.get(section, ()) and not self.catalog.silent(f"{section}:"):
            noun = {"tables": "table", "indexes": "index", "models": "model"}[section]
            self.findings.add(path, f"There is no {noun} {name!r} in models.yaml{why}. {suggestion(name, known)}")
        return False

    def _param(self, setting: Setting, name: str, path: Path) -> Any:
        if not check_param(self.findings, self.catalog, path, name, self.scene):
            return INVALID
        declared = self.catalog.params[name]
        if declared is None:
            return INVALID
        for value in declared.values:
            message = self._misfit(setting, value, path)
            if message:
                self.findings.add(path, f"The value {shown(value)} of ${name} doesn't fit. {message}")
                return INVALID
        return Param(name)

    def _misfit(self, setting: Setting, value: Scalar, path: Path) -> str | None:
        """Why a parameter's value can't be the setting's; durations take numbers of seconds."""
        core, _ = core_of(setting.type)
        if core is Duration:
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            return None if number else "Expected a number of seconds."
        aside = Findings(self.findings.directory)
        Settings(aside, self.catalog, self.scene, self.columns, self.heads)._value(value, path, setting.type)
        return aside.problems[0].message if aside.problems else None
