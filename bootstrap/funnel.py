"""The serving funnel itself, run over a cut release to collect what a ranker would have been fed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from bootstrap.artefacts import view_specs
from bootstrap.dataset import Dataset
from bootstrap.recipe import HISTORY, RECENT, Found, Recipe, Scene, Step, derived, features
from features.live import Column
from features.reader import UserColumns
from stages.compose import Resources, compose
from stages.derived import DerivedSpec, stored_reads
from stages.pipeline import Pipeline
from stages.plan import ScenePlan
from stages.registry import Registry, component, discover
from stages.release import Release
from stages.roles import Scorer
from stages.runtime.models import Features
from stages.runtime.release import LoadedRelease, load_release
from stages.scene import Role, SceneConfig, StepConfig
from stages.types import F32, Candidates, Request, Rows, View

FOREVER = 1e9


@dataclass(slots=True)
class Collected:
    """What one request would have fed its ranker: candidates and their features, best merged first."""

    rows: Rows
    features: F32


@component("collect")
class Collect(Scorer):
    """Stands where the ranker will: assembles its input, keeps it, and leaves the order alone."""

    assemble: Features
    sink: list[Collected]

    @property
    def needs(self) -> frozenset[str]:
        """The ranker's features."""
        return self.assemble.needs

    def score(self, view: View, batch: Candidates) -> F32:
        """The batch's own score."""
        self.sink.append(Collected(batch.rows, self.assemble(view, batch)["features"]))
        return batch.score


class _Histories:
    """Users as of the cut, read from the dataset in place of the store."""

    def __init__(self, data: Dataset, loaded: LoadedRelease, recent: int) -> None:
        self._data = data
        self._users = loaded.users
        self._rows = {name: row for row, name in enumerate(data.user_ids)}
        self._recent = recent

    async def read(self, user_id: str | None, *, timeout: float) -> UserColumns:
        """The same columns that serving reads."""
        assert user_id is not None
        history = self._data.history(self._rows[user_id])
        columns = {**self._users.values(user_id), HISTORY: history, RECENT: history.last(self._recent)}
        return UserColumns(columns, {})


class _NothingLive:
    async def fetch(self, wanted: Mapping[str, Sequence[str]], rows: Rows, *, timeout: float) -> Mapping[str, Column]:
        raise KeyError(*wanted)

    def absent(self, names: Sequence[str], n: int) -> Mapping[str, Column]:
        return {}


def derived_specs(recipe: Recipe, found: Found) -> list[DerivedSpec]:
    """The recipe's derived columns."""
    return [
        DerivedSpec(name, transform, tuple(args))
        for name, how in derived(recipe, found).items()
        for transform, args in how.items()
    ]


class Funnel:
    """One scene over one cut release, up to the ranker."""

    def __init__(self, data: Dataset, recipe: Recipe, scene: Scene, loaded: LoadedRelease) -> None:
        self._data = data
        specs = derived_specs(recipe, data.found)
        names = features(scene, data.found)
        self._sink: list[Collected] = []
        registry = discover()
        widths = {
            name: column.shape[1]
            for name, column in loaded.resident.items()
            if isinstance(column, np.ndarray) and column.ndim == 2
        }
        collect = StepConfig(
            "rank", "rank.collect", Collect, {"assemble": Features(names, widths, loaded.resident), "sink": self._sink}
        )
        resources = Resources(
            indexes=loaded.indexes,
            tables=loaded.tables,
            models={},
            schema=_schema(loaded, specs),
            reads=stored_reads(specs),
            spaces=loaded.spaces,
        )
        self._plan: ScenePlan = compose(replace(scene_config(scene, registry), rank=collect), resources, {})
        release = Release("cut", data.as_of, loaded.items, loaded.resident, loaded.derived)
        reader = _Histories(data, loaded, recipe.recent)
        self._pipeline = Pipeline("cut", release, reader, _NothingLive(), ThreadPoolExecutor(1), monotonic)

    def collect(self, users: Sequence[int]) -> list[Collected]:
        """What the ranker would be fed for each user (row numbers), in order."""
        return asyncio.run(self._collect(users))

    async def _collect(self, users: Sequence[int]) -> list[Collected]:
        found = []
        for user in users:
            request = Request(self._plan.name, self._data.user_ids[user], 1, "bootstrap", arrived=0.0, deadline=FOREVER)
            self._sink.clear()
            await self._pipeline.recommend(self._plan, request, {}, {})
            empty = Collected(np.empty(0, np.int32), np.empty((0, 0), np.float32))
            found.append(self._sink[0] if self._sink else empty)
        return found


def load_cut(root: Path, data: Dataset, recipe: Recipe, popularity: dict[str, np.ndarray], dim: int) -> LoadedRelease:
    """Load a cut release that `write_artefacts` wrote, with the recipe's derived columns."""
    spec = replace(view_specs(data, recipe, popularity, dim), derived=derived_specs(recipe, data.found))
    return load_release(root, spec, verify=False)


def _schema(loaded: LoadedRelease, specs: Sequence[DerivedSpec]) -> dict[str, str]:
    kinds = {name: "f32" if isinstance(column, np.ndarray) else "str" for name, column in loaded.resident.items()}
    return {**kinds, **{spec.name: "f32" for spec in specs}}


def scene_config(scene: Scene, registry: Registry) -> SceneConfig:
    """The recipe's scene without ranker and re-rankers, as serving composes it."""

    def step(role: Role, prefix: str, made: Step) -> StepConfig:
        common: dict[str, Any] = dict(made.common)
        return StepConfig(role, f"{prefix}.{made.name}", registry.of(role)[made.use], dict(made.settings), **common)

    return SceneConfig(
        name=scene.name,
        budget=FOREVER,
        recall=tuple(step("recall", "recall", s) for s in scene.recall),
        filters=tuple(step("filter", "filters", s) for s in scene.filters),
        pre_rank=step("pre_rank", "pre_rank", scene.pre_rank),
    )
