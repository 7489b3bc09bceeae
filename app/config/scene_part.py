"""scenes/*.yaml -> SceneConfig."""

from __future__ import annotations

from typing import Any

from app.config.bind import Binder, entries
from app.config.catalog import Catalog, channel_columns, check_column
from app.config.findings import Findings
from app.config.forms import forms_of
from app.config.ladder_part import Funnel, LadderReader
from app.config.model import TableConfig
from app.config.models_part import FILE as MODELS
from app.config.problems import Path, suggestion
from app.config.service_part import NAME
from app.config.settings import PARAM, REQUEST, check_kind
from app.config.shapes import FallbackShape, LadderShape, MergeShape, Names, SceneShape
from app.config.steps import StepReader
from app.config.yaml_nodes import INVALID
from stages.fill import FALLBACK
from stages.recall.popular import EVERYONE
from stages.registry import Registry, core_of
from stages.roles import ScalarColumn
from stages.scene import LadderConfig, SceneConfig, StepConfig

ITEM = "item."
_, SCALAR = core_of(ScalarColumn)
LATER: dict[str, Any] = {
    "return": Names | None,
    "fallback": str | FallbackShape | None,
    "ladder": LadderShape | None,
    "merge": MergeShape | None,
}


class SceneReader:
    """Reads scenes against one catalogue and one registry."""

    def __init__(self, findings: Findings, catalog: Catalog, registry: Registry, complete: bool) -> None:
        self.findings = findings
        self.binder = Binder(findings)
        self.catalog = catalog
        self.registry = registry
        self.complete = complete

    def read(self, file: str, document: Any) -> SceneConfig | None:
        """The scene, or None when it can't be one; steps with problems are left out of it."""
        self._refuse_param_budget(file, document)
        shape: Any = self.binder.value(document, (file,), SceneShape)
        name = shape.scene if shape is not INVALID else str(document.get("scene", "")) if _is_map(document) else ""
        if not _is_map(document):
            return None
        if shape is not INVALID and not NAME.fullmatch(name):
            self._add((file, "scene"), f"{name!r} isn't a scene's name. Expected letters, digits and _.")
        steps = self._steps(file, name, document)
        if shape is INVALID:
            later = {key: self.binder.value(document.get(key), (file, key), tp) for key, tp in LATER.items()}
            found = {key: value for key, value in later.items() if value is not INVALID and value is not None}
            self._returned(file, found.get("return", ()))
            self._fallback(file, found.get("fallback"))
            funnel = _funnel(name, document, steps, found.get("merge", MergeShape()).limit)
            self._ladder(file, funnel, found.get("ladder", LadderShape()))
            return None
        if not shape.recall:
            self._add((file, "recall"), "No channels. Expected at least one, such as popular: {k: 100}.")
        table, group = self._fallback(file, shape.fallback)
        return SceneConfig(
            name=name,
            budget=float(shape.budget),
            recall=_of(steps, "recall"),
            limit=shape.merge.limit,
            filters=_of(steps, "filter"),
            pre_rank=next(iter(_of(steps, "pre_rank")), None),
            rank=next(iter(_of(steps, "rank")), None),
            re_rank=_of(steps, "re_rank"),
            returned=self._returned(file, shape.return_),
            fallback=table,
            group=group,
            ladder=self._ladder(file, _funnel(name, document, steps, shape.merge.limit), shape.ladder),
            priority=shape.priority,
            path=(file,),
        )

    def _refuse_param_budget(self, file: str, document: Any) -> None:
        budget = document.get("budget") if _is_map(document) else None
        if isinstance(budget, str) and PARAM.fullmatch(budget):
            self._add((file, "budget"), f"'budget' can't be the parameter {budget}. Expected a plain duration.")
            document["budget"] = INVALID

    def _steps(self, file: str, scene: str, document: dict[str, Any]) -> list[StepConfig]:
        names = _channels(document)
        for name in names:
            if not NAME.fullmatch(name):
                self._add((file, "recall", name), f"{name!r} isn't a channel's name. Expected letters, digits and _.")
            if name == FALLBACK:
                self._add(
                    (file, "recall", name),
                    f"{name!r} is what the items of the fallback list are marked with. Expected another name.",
                )
        columns = {**self.catalog.columns, **channel_columns(names)}
        request = {name: kind for name, kind in columns.items() if name.startswith(REQUEST)}
        reader = StepReader(self.findings, self.catalog, self.registry, scene, request, columns, self.complete)
        forms = forms_of(self.binder, document, file, self.registry)
        return [step for step in map(reader.step, forms) if step is not None]

    def _ladder(self, file: str, funnel: Funnel, shape: LadderShape) -> LadderConfig:
        return LadderReader(self.findings, self.catalog, (file, "ladder"), funnel).read(shape)

    def _returned(self, file: str, names: tuple[str, ...]) -> tuple[str, ...]:
        items = {name.removeprefix(ITEM): kind for name, kind in self.catalog.columns.items() if name.startswith(ITEM)}
        for position, name in entries(names):
            if name not in items and not self.catalog.silent(ITEM + name):
                fix = "Write it without 'item.'." if name.removeprefix(ITEM) in items else suggestion(name, items)
                self._add((file, "return", position), f"The item has no field {name!r}. {fix}")
            elif name in names[:position]:
                self._add((file, "return", position), f"{name} is there twice. Remove one.")
        return tuple(name for name in names if name in items)

    def _fallback(self, file: str, fallback: str | FallbackShape | None) -> tuple[str | None, str | None]:
        if fallback is None:
            return None, None
        path: Path = (file, "fallback")
        name = fallback if isinstance(fallback, str) else fallback.table
        where = path if isinstance(fallback, str) else (*path, "table")
        table = self.catalog.models.tables.get(name)
        if table is None:
            if name not in self.catalog.declared.get("tables", ()) and not self.catalog.silent("tables:"):
                near = suggestion(name, self.catalog.models.tables)
                self._add(where, f"There is no table {name!r} in models.yaml. {near}")
            return None, None
        wrong = self.catalog.wrong_table(name, "group")
        if wrong is not None:
            self._add(where, wrong)
            return None, None
        if isinstance(fallback, FallbackShape) and fallback.by is not None:
            return name, self._by(fallback.by, (*path, "by"))
        return name, self._named_for(table)

    def _by(self, column: str, path: Path) -> str | None:
        if not column.startswith(REQUEST):
            self._add(path, f"{column} isn't known before there are items. Expected user.* or context.*.")
            return None
        found = check_column(self.findings, self.catalog, path, column, self.catalog.columns)
        fits = found is not None and check_kind(self.findings, path, column, found, SCALAR)
        return column if fits else None

    def _named_for(self, table: TableConfig) -> str | None:
        """The column that the groups of a table are named for; None for `all`, the one group of everyone."""
        path: Path = (MODELS, "tables", table.name, "group")
        near = [prefix + table.of for prefix in ("context.", "user.")]
        found = next((column for column in near if column in self.catalog.columns), None)
        if found is not None:
            fits = check_kind(self.findings, path, found, self.catalog.columns[found], SCALAR)
            return found if fits else None
        if table.of != EVERYONE and not any(map(self.catalog.silent, near)):
            known = {name.partition(".")[2] for name in self.catalog.columns if name.startswith(REQUEST)}
            self._add(
                path,
                f"A fallback without 'by' picks its group by context.{table.of} or user.{table.of}, and there is "
                f"neither. {suggestion(table.of, {EVERYONE, *known})}",
            )
        return None

    def _add(self, path: Path, message: str) -> None:
        self.findings.add(path, message)


def _is_map(document: Any) -> bool:
    return isinstance(document, dict)


def _channels(document: dict[str, Any]) -> tuple[str, ...]:
    channels = document.get("recall")
    return tuple(channels) if isinstance(channels, dict) else ()


def _funnel(scene: str, document: dict[str, Any], steps: list[StepConfig], limit: int) -> Funnel:
    single = {step.role: step for step in steps if step.role in ("pre_rank", "rank")}
    ranked = document.get("rank") is not None
    return Funnel(scene, _channels(document), limit, single.get("pre_rank"), single.get("rank"), ranked)


def _of(steps: list[StepConfig], role: str) -> tuple[StepConfig, ...]:
    return tuple(step for step in steps if step.role == role)
