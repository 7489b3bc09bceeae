"""A small release on disk and the funnel over it, for tests: 400 items in 8 clusters, 40 users, known lists."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from expression import Strings
from features.behaviour import Behaviour, Event, event_codes
from features.item_table import IdTable
from features.keys import KeyTemplate
from features.lists import Lists
from features.live import LiveField, LiveView
from features.manifest import ReleaseWriter
from features.memory_store import MemoryStore
from features.reader import ItemFetcher, Recent, UserReader
from features.resident import FieldSpec
from features.store import FeatureStore
from stages.compose import Resources, compose
from stages.derived import DerivedSpec, stored_reads
from stages.guard import Outcome
from stages.pipeline import Pipeline
from stages.plan import ScenePlan
from stages.registry import discover
from stages.release import Release
from stages.runtime.indexes import build_index
from stages.runtime.release import LoadedRelease, ReleaseSpec, ViewSpec, load_release
from stages.scene import SceneConfig, StepConfig
from stages.types import FULL, Answer, Quality, Request
from stages.usual import Usual
from tests.stages.virtual import loop_time

N_ITEMS, N_USERS, DIM, NOW = 400, 40, 16, 1_700_000_000.0
SCHEMA = {
    "item.price": "f32",
    "item.stock": "i32",
    "item.status": "str",
    "item.category": "str",
    "item.title": "str",
    "item.embedding": f"f32[{DIM}]",
    "item.live_stock": "i32",
    "item.live_look": "f32[2]",
    "item.live_price": "f32",
    "item.log_price": "f32",
    "item.stock_log": "f32",
    "cross.bought": "f32",
    "user.embedding": f"f32[{DIM}]",
    "context.region": "str",
}
REGISTRY = discover()


def item(row: int) -> str:
    """The id of an item row."""
    return f"item-{row:03d}"


def write_release(releases: Path, version: str = "r1") -> Path:
    """Write the release; returns its folder. Item i: cluster i % 8; stock 0 for every tenth; popularity by row."""
    rng = np.random.default_rng(7)
    centres = rng.normal(size=(8, DIM)).astype(np.float32)
    vectors = centres[np.arange(N_ITEMS) % 8] + 0.1 * rng.normal(size=(N_ITEMS, DIM)).astype(np.float32)
    users = centres[np.arange(N_USERS) % 8] + 0.1 * rng.normal(size=(N_USERS, DIM)).astype(np.float32)
    writer = ReleaseWriter(releases, version, NOW - 3600)
    writer.ids("item", IdTable.build([item(i) for i in range(N_ITEMS)]))
    writer.ids("user", IdTable.build([f"u{i}" for i in range(N_USERS)]))
    writer.view("item_vectors", "item", {"embedding": vectors}, {"embedding": "als"})
    writer.view("user_vectors", "user", {"embedding": users}, {"embedding": "als"})
    price = (1 + np.arange(N_ITEMS) % 50).astype(np.float32)
    price[5] = np.nan
    writer.view(
        "items",
        "item",
        {
            "price": price,
            "stock": np.where(np.arange(N_ITEMS) % 10 == 0, 0, 5).astype(np.int32),
            "status": Strings.encode(["off" if i % 25 == 24 else "on" for i in range(N_ITEMS)]),
            "category": Strings.encode([f"c{i % 8}" for i in range(N_ITEMS)]),
            "title": Strings.encode([f"Title {i}" for i in range(N_ITEMS)]),
        },
    )
    neighbours = np.array([[(i + 8 * j) % N_ITEMS for j in range(1, 11)] for i in range(N_ITEMS)], np.int32)
    writer.lists(
        "i2i",
        Lists(
            np.arange(0, N_ITEMS * 10 + 1, 10),
            neighbours.ravel(),
            np.tile(np.linspace(1, 0.1, 10), N_ITEMS).astype(np.float32),
        ),
    )
    order = np.arange(N_ITEMS, dtype=np.int32)
    falling = np.linspace(1, 0.01, N_ITEMS).astype(np.float32)
    writer.lists("popular", Lists.of_groups([("all", order, falling), ("north", order[::-1].copy(), falling)]))
    built = build_index(vectors, users, space="als")
    built.write(writer.root / "item_vectors.faiss")
    writer.file("indexes", "item_vectors", "item_vectors.faiss", space="als", effort=None, kind=built.kind)
    return writer.finish().root


SPEC = ReleaseSpec(
    views=[
        ViewSpec("item", "item_vectors", {"embedding": FieldSpec(f"f32[{DIM}]")}),
        ViewSpec("user", "user_vectors", {"embedding": FieldSpec(f"f32[{DIM}]")}),
        ViewSpec(
            "item",
            "items",
            {
                "price": FieldSpec("f32", "mean"),
                "stock": FieldSpec("i32", 0),
                "status": FieldSpec("str", "off"),
                "category": FieldSpec("vocab"),
                "title": FieldSpec("str"),
            },
        ),
    ],
    derived=[
        DerivedSpec("item.log_price", "log1p", ("item.price",)),
        DerivedSpec("item.stock_log", "log1p", ("item.live_stock",)),
        DerivedSpec("cross.bought", "history_count", ("user.history",)),
    ],
    indexes={"item_vectors": "item.embedding"},
    tables=("i2i", "popular"),
    widths={"item.embedding": DIM, "user.embedding": DIM},
)


def step(role: str, name: str, use: str, settings: Mapping[str, Any] | None = None, **common: Any) -> StepConfig:
    """A step of a built-in component."""
    return StepConfig(role, name, REGISTRY.of(role)[use], settings or {}, **common)  # type: ignore[arg-type]


def home(**changes: Any) -> SceneConfig:
    """A scene with every kind of step but a model."""
    scene = SceneConfig(
        name="home",
        budget=5.0,
        recall=(
            step("recall", "recall.vector", "vector", {"index": "item_vectors", "query": "user.embedding", "k": 100}),
            step("recall", "recall.i2i", "item_to_item", {"table": "i2i", "triggers": "user.recent_items", "k": 50}),
            step("recall", "recall.popular", "popular", {"table": "popular", "by": "context.region", "k": 60}),
        ),
        filters=(
            step("filter", "filters.seen", "seen", on_fail="open"),
            step("filter", "filters.exclude", "exclude"),
            step("filter", "filters.sellable", "expression", {"condition": "item.stock > 0 and item.status == 'on'"}),
        ),
        pre_rank=step("pre_rank", "pre_rank.dot", "dot", {"user": "user.embedding", "item": "item.embedding"}, keep=80),
        re_rank=(
            step("re_rank", "re_rank.mmr", "mmr", {"similarity": "item.embedding", "relevance": 0.7}),
            step("re_rank", "re_rank.spread", "spread", {"by": "item.category", "max": 2, "within": 5}),
        ),
        returned=("title", "price"),
        fallback="popular",
        group="context.region",
    )
    return replace(scene, **changes)


class InPlace(Usual):
    """For a virtual clock, which other threads can't read: however the machine stalls, nothing moves to the pool."""

    def slow(self, step: Any) -> bool:
        return False


@dataclass
class Engine:
    """The funnel over the small release with an in-memory store."""

    loaded: LoadedRelease
    store: MemoryStore = field(init=False)
    live: Sequence[LiveView] = ()
    clock: Callable[[], float] = monotonic

    def __post_init__(self) -> None:
        self.outage: Exception | None = None
        self.store = MemoryStore(before=self._before)
        codes = event_codes(["purchase", "click"])
        self.behaviour = Behaviour(self.store, codes)
        features = FeatureStore(self.store, self.behaviour, lambda: NOW)
        loaded = self.loaded
        reader = UserReader(loaded.items, loaded.users, features, (), Recent("user.recent_items", 50))
        fetcher = ItemFetcher(loaded.items, features, {view.name: view for view in self.live})
        release = Release("r1", loaded.manifest.as_of, loaded.items, loaded.resident, loaded.derived)
        usual = InPlace() if self.clock is loop_time else Usual()
        pool = ThreadPoolExecutor(1)
        self.pipeline = Pipeline("c1", release, reader, fetcher, pool, self.clock, usual=usual)

    async def _before(self, commands: object) -> None:
        if self.outage is not None:
            raise self.outage

    def plan(self, scene: SceneConfig, values: Mapping[str, Sequence[Any]] | None = None) -> ScenePlan:
        """Compose a scene against this release."""
        resources = Resources(
            indexes=self.loaded.indexes,
            tables=self.loaded.tables,
            models=self.loaded.models,
            schema=SCHEMA,
            live={f"item.{f.name}": view.name for view in self.live for f in view.fields},
            reads=stored_reads(SPEC.derived),
            spaces=self.loaded.spaces,
        )
        return compose(scene, resources, values or {})

    def run(
        self,
        scene: SceneConfig | ScenePlan,
        *,
        params: Mapping[str, Any] | None = None,
        quality: Quality = FULL,
        **request: Any,
    ) -> tuple[Answer, Outcome]:
        """Answer one request on a loop of its own."""
        return asyncio.run(self.ask(scene, params=params, quality=quality, **request))

    async def ask(
        self,
        scene: SceneConfig | ScenePlan,
        *,
        params: Mapping[str, Any] | None = None,
        quality: Quality = FULL,
        **request: Any,
    ) -> tuple[Answer, Outcome]:
        """Answer one request on the running loop."""
        plan = scene if isinstance(scene, ScenePlan) else self.plan(scene)
        asked = Request(**{"scene": "home", "user_id": "u1", "size": 20, "request_id": "q", **request})
        now = self.clock()
        asked = replace(asked, arrived=now, deadline=now + plan.budget)
        return await self.pipeline.recommend(plan, asked, params or {}, {}, quality)

    def did(self, user: str, *items: str, event: str = "purchase", ts: float = NOW - 60) -> None:
        """Record events of a user."""
        events = [Event(user, name, event, ts + i) for i, name in enumerate(items)]
        asyncio.run(self.behaviour.append(events, timeout=1.0))

    def stock(self, **left: int) -> None:
        """Set the live stock of items, by id without its dash: `item_007=3`."""
        commands = [("HSET", f"stock:{name.replace('_', '-')}", "live_stock", str(n)) for name, n in left.items()]
        asyncio.run(self.store.execute(commands, timeout=1.0))


def live_stock() -> LiveView:
    """A live view of items' stock and looks over the shop's own hashes."""
    fields = (LiveField("live_stock", "i32", 0), LiveField("live_look", "f32[2]"))
    return LiveView("stock", KeyTemplate.compile("stock:{id}"), "hash", fields)


def live_price() -> LiveView:
    """Another live view, of prices."""
    return LiveView("price", KeyTemplate.compile("price:{id}"), "hash", (LiveField("live_price", "f32"),))


def load(root: Path) -> LoadedRelease:
    """Load the small release."""
    return load_release(root, SPEC)
