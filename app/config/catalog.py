"""The names that references can point at, with their types, across all files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from app.config.findings import Findings
from app.config.model import Features, Models, Service
from app.config.params import DeclaredParam
from app.config.problems import Path, suggestion
from stages.roles import LISTED
from stages.scene import Param, SceneConfig
from stages.types import Scalar

HISTORY = "history"
ALL_HISTORY = "user.history"
CHANNEL_COLUMNS = ("score", "rank")
DERIVED_TYPE = "f32"


@dataclass(frozen=True)
class Catalog:
    """Columns by full name with their type names, and what else scenes refer to.

    `broken` are names that stand in a file but whose definition was refused, `blind` the prefixes of files
    that couldn't be read: about those nothing is reported twice. `declared` has the names that stand in each
    section of models.yaml, refused ones included.
    """

    service: Service
    features: Features
    models: Models
    params: Mapping[str, DeclaredParam | None]
    broken: frozenset[str] = frozenset()
    blind: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    declared: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def silent(self, name: str) -> bool:
        """Whether a problem with this name is reported already."""
        return name in self.broken or name.startswith(self.blind)

    def section(self, kind: str) -> tuple[str, Mapping[str, object]] | None:
        """The section of models.yaml that a Ref of this type's name points into; None for other types."""
        sections: dict[str, tuple[str, Mapping[str, object]]] = {
            "Table": ("tables", self.models.tables),
            "VectorIndex": ("indexes", self.models.indexes),
            "Model": ("models", self.models.models),
        }
        return sections.get(kind)

    def wrong_table(self, name: str, keyed: str, why: str = "") -> str | None:
        """What is wrong with a table where one `keyed` so (`items`, `group`) is needed; None when it's such a one."""
        table = self.models.tables.get(name)
        if table is None or table.keyed == keyed:
            return None
        fit = ", ".join(sorted(other.name for other in self.models.tables.values() if other.keyed == keyed))
        return (
            f"The table {name!r} has a list for each {LISTED[table.keyed]}{why}. "
            f"Expected a table with a list for each {LISTED[keyed]}{': ' + fit if fit else ', and there is none'}."
        )

    def reads(self, name: str) -> frozenset[str]:
        """The stored columns behind a column: itself, or those that a derived one is made of."""
        found: set[str] = set()
        waiting = [name]
        while waiting:
            one = waiting.pop()
            if one in found:
                continue
            found.add(one)
            derived = self.features.derived.get(one)
            if derived is not None:
                waiting += [arg for arg in derived.args if isinstance(arg, str) and arg in self.columns]
        return frozenset(found)


def columns_of(service: Service, features: Features) -> dict[str, str]:
    """Types of `user.*`, `item.*` and `context.*` by full name."""
    columns = {name: found.type for name, (_, found) in features.fields.items()}
    columns |= {f"context.{name}": found.type for name, found in service.context.items()}
    columns |= dict.fromkeys(features.derived, DERIVED_TYPE)
    if features.behaviour is not None:
        columns[features.behaviour.column] = HISTORY
        columns[ALL_HISTORY] = HISTORY
    return columns


def channel_columns(channels: tuple[str, ...]) -> dict[str, str]:
    """Types of `channel.NAME.score` and `channel.NAME.rank`."""
    return {f"channel.{name}.{column}": "f32" for name in channels for column in CHANNEL_COLUMNS}


def check_column(findings: Findings, catalog: Catalog, path: Path, name: str, columns: Mapping[str, str]) -> str | None:
    """The type of a column; None when there is none (reported, unless the reason is already)."""
    found = columns.get(name)
    if found is None and not catalog.silent(name):
        behaviour = name == ALL_HISTORY and name not in catalog.columns
        prefix = name.partition(".")[0] + "."
        alike = [known for known in columns if known.startswith(prefix)] or columns
        fix = "Declare user.behaviour in features.yaml." if behaviour else suggestion(name, alike)
        findings.add(path, f"There is no column {name!r}. {fix}")
    return found


def schema_of(
    service: Service,
    features: Features,
    models: Models,
    scene: SceneConfig,
    values: Mapping[str, tuple[Scalar, ...]] = MappingProxyType({}),
) -> dict[str, str]:
    """Types by name of all that an expression of the scene may read, heads of its ranker included.

    Histories are left out: the expression language has no such kind. `values` gives what the parameters
    may be, for a ranker whose model is one.
    """
    columns = columns_of(service, features) | channel_columns(tuple(step.label for step in scene.recall))
    for value in scene.rank.settings.values() if scene.rank is not None else ():
        for name in values.get(value.name, ()) if isinstance(value, Param) else (value,):
            model = models.models.get(name) if isinstance(name, str) else None
            columns |= dict.fromkeys(model.heads, "f32") if model is not None else {}
    return {name: kind for name, kind in columns.items() if kind != HISTORY}
