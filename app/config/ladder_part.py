"""`ladder` of scenes/*.yaml -> LadderConfig: what a scene gives up under load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from app.config.bind import entries
from app.config.catalog import Catalog
from app.config.findings import Findings
from app.config.problems import Path, choices, suggestion
from app.config.settings import Settings, refers_to
from app.config.shapes import LadderShape
from app.config.step_rules import columns_read, values_of
from stages.registry import settings_of
from stages.scene import LadderConfig, Param, StepConfig


@dataclass(frozen=True, slots=True)
class Funnel:
    """What the ladder of a scene acts on, as far as it could be read.

    `channels` are the names that stand under `recall`, refused ones included; `ranked` whether `rank` stands.
    """

    scene: str
    channels: Sequence[str]
    limit: int
    pre_rank: StepConfig | None
    rank: StepConfig | None
    ranked: bool


@dataclass(frozen=True, slots=True)
class LadderReader:
    """Reads the ladder of one scene, which stands at `path`."""

    findings: Findings
    catalog: Catalog
    path: Path
    funnel: Funnel

    def read(self, shape: LadderShape) -> LadderConfig:
        """The ladder; what is wrong is reported, and left out of it."""
        skip = None if shape.skip is None else self._skip(shape.skip)
        small = None if shape.model is None else self._small(shape.model)
        return LadderConfig(self._least(shape.least), skip, small)

    def _least(self, least: int) -> int:
        """At most what reaches the ranker; the default gives way silently, a number that was written doesn't."""
        most, why = self.funnel.limit, "merge.limit is"
        keep = None if self.funnel.pre_rank is None else self.funnel.pre_rank.keep
        kept = values_of(self.catalog, keep.name) if isinstance(keep, Param) else (keep,)
        for count in kept:
            if isinstance(count, int) and count < most:
                most, why = count, "pre_rank keeps"
        written = self.findings.raw(str(self.path[0]), "ladder")
        if least > most and isinstance(written, dict) and "least" in written:
            message = f"{least} candidates at least, but {why} {most}. Expected at most {most}."
            self.findings.add((*self.path, "least"), message)
        return min(least, most)

    def _skip(self, names: tuple[str, ...]) -> tuple[str, ...]:
        known, path = self.funnel.channels, (*self.path, "skip")
        for position, name in entries(names):
            if name in names[:position]:
                self.findings.add((*path, position), f"{name} is there twice. Remove one.")
            elif known and name not in known:
                near = suggestion(name, known)
                self.findings.add((*path, position), f"The scene has no channel {name!r}. {near}")
        if known and set(known) <= set(names):
            self.findings.add(path, "All channels are left out. Keep one that is always there, such as popular.")
        return tuple(f"recall.{name}" for name in dict.fromkeys(names) if name in known)

    def _small(self, name: str) -> StepConfig | None:
        path, rank = (*self.path, "model"), self.funnel.rank
        if name.startswith("$"):
            self.findings.add(path, f"'model' can't be the parameter {name}. Expected a plain name.")
            return None
        if rank is None:
            if not self.funnel.ranked:
                self.findings.add(path, "The scene has no rank step whose model it could replace. Remove it.")
            return None
        if not any(setting.name == "model" and refers_to(setting, "Model") for setting in settings_of(rank.component)):
            used = str(vars(rank.component)["__component__"])
            self.findings.add(path, f"The rank step {used} has no setting 'model' to replace. Remove it.")
            return None
        models = self.catalog.models.models
        plain = Settings(self.findings, self.catalog, self.funnel.scene, {}, None)
        if not plain.refers(path, name, "models", models):
            return None
        if rank.settings.get("model") == name:
            self.findings.add(path, f"{name!r} is the model of rank itself. Expected a smaller one, or none.")
            return None
        heads = {column for column in columns_read(rank) if "." not in column}
        lacking = sorted(heads - set(models[name].heads))
        if lacking:
            said = f"The model {name!r} lacks {choices(lacking).replace(' or ', ' and ')}, which rank reads."
            self.findings.add(path, f"{said} Expected a model with the same heads.")
            return None
        return replace(rank, settings={**rank.settings, "model": name}, path=path)
