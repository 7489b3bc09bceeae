"""A step as written -> StepConfig: its component, its settings, its caps and policies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.config.bind import Binder, described
from app.config.catalog import Catalog
from app.config.findings import Findings
from app.config.forms import COMMON, Form
from app.config.problems import Path, choices, suggestion
from app.config.quantities import QuantityError, seconds
from app.config.settings import PARAM, Settings, refers_to
from app.config.step_rules import check_closed, check_variants, values_of
from app.config.texts import Texts, check_param
from app.config.yaml_nodes import INVALID
from expression import Expression
from stages.guard import POLICIES
from stages.registry import Registry, Setting, core_of, settings_of
from stages.roles import ColumnName, Component
from stages.scene import OnFail, Param, Role, StepConfig

SECTION: Mapping[Role, str] = {"filter": "filters"}


@dataclass(frozen=True, slots=True)
class StepReader:
    """Reads the steps of one scene.

    `request` are the columns of the user and the context, `columns` those and the items' and channels'.
    `complete` is False when an extension couldn't be imported: then an unknown component isn't reported.
    """

    findings: Findings
    catalog: Catalog
    registry: Registry
    scene: str
    request: Mapping[str, str]
    columns: Mapping[str, str]
    complete: bool = True

    def step(self, form: Form) -> StepConfig | None:
        """The step, or None when its component is unknown or a setting is wrong (all reported)."""
        cls = self.registry.of(form.role).get(form.use)
        common = self._common(form)
        if cls is None:
            if self.complete:
                role = form.role.replace("_", "-")
                near = suggestion(form.use, self.registry.of(form.role))
                self.findings.add(form.use_path, f"There is no {role} component {form.use!r}. {near}")
            return None
        settings = self._settings(form, cls)
        if settings is None:
            return None
        name = f"{SECTION.get(form.role, form.role)}.{form.label}"
        step = StepConfig(form.role, name, cls, settings, path=form.path, **common)
        check_variants(self.findings, self.catalog, step)
        if "on_fail" not in form.common or "on_fail" in common:
            check_closed(self.findings, self.catalog, step)
        return step

    def _common(self, form: Form) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, (value, path) in form.common.items():
            if value is INVALID:
                continue
            param = PARAM.fullmatch(value) if isinstance(value, str) else None
            if param is not None and key not in ("keep", "when"):
                self.findings.add(path, f"'{key}' can't be the parameter {value}. Expected a plain value.")
                continue
            read = getattr(self, f"_{key}")(form, value, path)
            if read is not None:
                found[key] = read
        return found

    def _cap(self, _form: Form, value: Any, path: Path) -> float | None:
        try:
            return seconds(value)
        except QuantityError as error:
            Binder(self.findings).wrong(value, path, str(error).removeprefix("Expected ").removesuffix("."))
            return None

    def _on_fail(self, form: Form, value: Any, path: Path) -> OnFail | None:
        allowed = POLICIES[form.role]
        if value in allowed:
            return value  # type: ignore[no-any-return]  # a member of the table
        Binder(self.findings).wrong(value, path, f"{choices(allowed)} for a {form.role} step")
        return None

    def _when(self, _form: Form, value: Any, path: Path) -> str | None:
        if not isinstance(value, str):
            Binder(self.findings).wrong(value, path, "a condition as text. Quote it")
            return None
        texts = Texts(self.findings, self.catalog, self.scene)
        return value if texts.check(path, value, self.request, "bool") else None

    def _at_least(self, _form: Form, value: Any, path: Path) -> int | None:
        return self._count(value, path, 0)

    def _keep(self, _form: Form, value: Any, path: Path) -> int | Param | None:
        param = PARAM.fullmatch(value) if isinstance(value, str) else None
        if param is None:
            return self._count(value, path, 1)
        if not check_param(self.findings, self.catalog, path, param[1], self.scene):
            return None
        declared = self.catalog.params[param[1]]
        if declared is not None and not all(type(one) is int and one >= 1 for one in declared.values):
            self.findings.add(path, f"{value} isn't a count. Expected a parameter of integers from 1.")
            return None
        return Param(param[1])

    def _count(self, value: Any, path: Path, least: int) -> int | None:
        if type(value) is int and value >= least:
            return value
        Binder(self.findings).wrong(value, path, f"an integer from {least}")
        return None

    def _settings(self, form: Form, cls: type[Component]) -> dict[str, Any] | None:
        settings = settings_of(cls)
        given = self._given(form, settings)
        place = self.request if form.role == "recall" else self.columns
        plain = Settings(self.findings, self.catalog, self.scene, place, {})
        bound: dict[str, Any] = {}
        usable = True
        # References first: a model's heads are names of the expressions beside it.
        for setting in sorted(settings, key=lambda one: core_of(one.type)[0] is Expression):
            value, path = given.get(setting.name, (None, form.path))
            if setting.name in given:
                heads = self._heads(settings, bound) if core_of(setting.type)[0] is Expression else {}
                bound[setting.name] = Settings(self.findings, self.catalog, self.scene, place, heads).bind(
                    setting, value, path
                )
            elif setting.name == "table" and refers_to(setting, "Table") and form.role == "recall":
                why = " (it defaults to the channel's name; 'table' names another)"
                fits = plain.refers(form.path, form.label, "tables", self.catalog.models.tables, why)
                fits = fits and plain.lists(form.path, form.label, core_of(setting.type)[1], why)
                bound[setting.name] = form.label if fits else INVALID
            elif setting.required:
                self.findings.add(
                    form.path, f"{form.use} lacks {setting.name!r}. Expected {described(core_of(setting.type)[0])}."
                )
                usable = False
            elif core_of(setting.type)[0] is ColumnName and setting.default is not None:
                plain.bind(setting, str(setting.default), form.path)
        ordered = {setting.name: bound[setting.name] for setting in settings if setting.name in bound}
        return ordered if usable and INVALID not in ordered.values() else None

    def _given(self, form: Form, settings: tuple[Setting, ...]) -> dict[str, tuple[Any, Path]]:
        by_key = {setting.name: setting.name for setting in settings}
        given: dict[str, tuple[Any, Path]] = {}
        for key, (value, path) in form.named.items():
            if key in by_key:
                given[by_key[key]] = (value, path)
            elif key in self.registry.of(form.role):
                self.findings.add(path, f"{form.use} and {key} are two components. Write each as a step of its own.")
            else:
                near = suggestion(key, (*by_key, *COMMON[form.role]))
                self.findings.add(path, f"{form.use} has no setting {key!r}. {near}")
        for (value, path), setting in zip(form.positional, settings, strict=False):
            if setting.name in given:
                self.findings.add(path, f"{setting.name!r} is given twice, by position and by name. Keep one.")
            given.setdefault(setting.name, (value, path))
        for _, path in form.positional[len(settings) :]:
            count = f"{len(settings)} settings: {', '.join(by_key)}" if settings else "no settings"
            self.findings.add(path, f"Too many values. {form.use} has {count}.")
        return given

    def _heads(self, settings: tuple[Setting, ...], bound: Mapping[str, Any]) -> Mapping[str, str] | None:
        """Names of the heads that every model of the step has; None when one isn't known."""
        heads: set[str] | None = None
        for setting in settings:
            if not refers_to(setting, "Model"):
                continue
            value = bound.get(setting.name)
            for name in values_of(self.catalog, value.name) if isinstance(value, Param) else (value,):
                model = self.catalog.models.models.get(str(name))
                if model is None:
                    return None
                heads = set(model.heads) if heads is None else heads & set(model.heads)
        return dict.fromkeys(heads or (), "f32")
