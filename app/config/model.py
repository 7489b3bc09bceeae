"""The parsed configuration: frozen, complete (defaults filled in), and free of YAML.

Every reference in it has been checked against the other files; what a release must hold (artefacts,
spaces, model signatures) is checked by the build. Scenes and steps are in `stages.scene`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from abtest import Experiments
from app.config.problems import Mark, Path, Problem, spelled
from stages.scene import SceneConfig
from stages.types import Scalar

Entity = Literal["user", "item"]
ViewKind = Literal["release", "live", "behaviour"]


@dataclass(frozen=True, slots=True)
class ContextField:
    """A declared attribute of the request's context. `default` None: absent means missing."""

    type: str
    default: Scalar | None = None


@dataclass(frozen=True, slots=True)
class Client:
    """Someone who may ask. `rate` in requests a second, `burst` requests at once; `key` is a secret."""

    name: str
    key: str = field(repr=False)
    rate: float
    burst: int


@dataclass(frozen=True, slots=True)
class Service:
    """service.yaml. `store_url` empty: a private server; `timeout` of one store command in seconds.

    `workers` None: one for each core of the quota. `memory` of one worker in bytes, None: no ceiling. `drain`,
    `admission_wait` and `push_canary` in seconds. `clients` are those whose key isn't empty; none: anybody may ask.
    """

    store_url: str = field(default="", repr=False)
    store_timeout: float = 0.05
    store_connections: int = 16
    releases: str = "var/releases"
    extensions: tuple[str, ...] = ()
    context: Mapping[str, ContextField] = field(default_factory=dict)
    token: str | None = field(default=None, repr=False)
    workers: int | None = None
    memory: int | None = None
    drain: float = 10.0
    admission_limit: int = 64
    admission_wait: float = 0.02
    clients: Mapping[str, Client] = field(default_factory=dict)
    push_watch: bool = True
    push_canary: float = 10.0
    push_share: float = 0.25
    exposures_format: Literal["jsonl", "parquet"] = "jsonl"


@dataclass(frozen=True, slots=True)
class FieldConfig:
    """A field of a view. `width`: d of `f32[d]`. `default`: as text (`mean`, `other`, `0`)."""

    name: str
    type: str
    width: int | None = None
    default: str | None = None


@dataclass(frozen=True, slots=True)
class CacheConfig:
    """Rows kept in memory: at most `bytes`, none older than `ttl` seconds (None: never too old)."""

    policy: Literal["fifo"]
    bytes: int
    ttl: float | None = None


@dataclass(frozen=True, slots=True)
class ViewConfig:
    """A view of an entity. `artefact` is set for release views, `key` (a template with {id}) for live ones.

    A release view without `cache` is resident. `fields` are by short name, in YAML order. `max_age` of the release
    in seconds: when it is older, filters that fail closed may not read the view (None: any age will do).
    """

    name: str
    entity: Entity
    kind: ViewKind
    artefact: str | None = None
    key: str | None = None
    layout: Literal["hash", "protobuf"] | None = None
    cache: CacheConfig | None = None
    fields: Mapping[str, FieldConfig] = field(default_factory=dict)
    max_age: float | None = None


@dataclass(frozen=True, slots=True)
class BehaviourConfig:
    """The user's behaviour: events of interest, how many the column `user.<name>` holds at most."""

    view: str
    events: tuple[str, ...]
    last: int
    name: str

    @property
    def column(self) -> str:
        """Full name of the bounded history column, such as `user.recent_items`."""
        return f"user.{self.name}"


@dataclass(frozen=True, slots=True)
class DerivedConfig:
    """A derived column `item.trend: {ratio: [item.a, item.b]}`: a transform's name and its arguments.

    `args` are for the transform's parameters that configuration gives, in their order: names of columns, and
    numbers for constants; trailing ones with a default may be absent.
    """

    name: str
    transform: str
    args: tuple[Any, ...]


@dataclass(frozen=True)
class Features:
    """features.yaml."""

    entities: Mapping[str, Mapping[str, ViewConfig]] = field(default_factory=dict)
    behaviour: BehaviourConfig | None = None
    derived: Mapping[str, DerivedConfig] = field(default_factory=dict)

    def views(self) -> Iterator[ViewConfig]:
        """All views, users' first."""
        for entity in ("user", "item"):
            yield from self.entities.get(entity, {}).values()

    @cached_property
    def fields(self) -> Mapping[str, tuple[ViewConfig, FieldConfig]]:
        """Every stored field by full name (`item.price`) with its view."""
        return {f"{view.entity}.{name}": (view, found) for view in self.views() for name, found in view.fields.items()}


@dataclass(frozen=True, slots=True)
class SpaceConfig:
    """An embedding space."""

    name: str
    dim: int
    metric: Literal["ip", "cosine"] = "ip"


@dataclass(frozen=True, slots=True)
class IndexConfig:
    """A nearest-neighbour index over a vector column. `auto` is flat below 50,000 items."""

    name: str
    over: str
    kind: Literal["auto", "flat", "ivf_sq8"] = "auto"
    recall_floor: float = 0.9


@dataclass(frozen=True, slots=True)
class TableConfig:
    """Lists of items: one for each item (`keyed` items) or for each group (`of` names what groups mean)."""

    name: str
    keyed: Literal["items", "group"]
    of: str


@dataclass(frozen=True, slots=True)
class HistoryInput:
    """A sequence input: `gather` this item column over the items of `by`, a history column of the user."""

    gather: str
    by: str


@dataclass(frozen=True, slots=True)
class ModelInputs:
    """Named groups of inputs for a model that splits its user side from its item side."""

    user: tuple[str, ...] = ()
    item: tuple[str, ...] = ()
    history: HistoryInput | None = None


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """A ranking model: either `features` (one f32[n, F], in this order) or `inputs`; names of its heads."""

    name: str
    heads: tuple[str, ...]
    features: tuple[str, ...] | None = None
    inputs: ModelInputs | None = None

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of every column the model reads."""
        if self.inputs is None:
            return self.features or ()
        history = self.inputs.history
        return (*self.inputs.user, *self.inputs.item, *((history.gather, history.by) if history else ()))


@dataclass(frozen=True, slots=True)
class Models:
    """models.yaml."""

    spaces: Mapping[str, SpaceConfig] = field(default_factory=dict)
    indexes: Mapping[str, IndexConfig] = field(default_factory=dict)
    tables: Mapping[str, TableConfig] = field(default_factory=dict)
    models: Mapping[str, ModelConfig] = field(default_factory=dict)


@dataclass(frozen=True)
class Config:
    """A whole, checked configuration. `id`: 12 hex digits over what decides answers (not places, keys or processes).

    `positions` maps (file, *path) to its Mark; `documents` are the plain values of each file by name.
    """

    directory: str
    service: Service
    features: Features
    models: Models
    scenes: Mapping[str, SceneConfig]
    experiments: Experiments
    experiments_document: Mapping[str, Any]
    id: str
    positions: Mapping[Path, Mark] = field(default_factory=dict, repr=False)
    documents: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def problem(self, path: Path, message: str) -> Problem:
        """A Problem at `path` (file name first), at the nearest position known; for checks made later."""
        for end in range(len(path), 0, -1):
            mark = self.positions.get(path[:end])
            if mark is not None:
                return Problem(mark, spelled(path[1:]), message)
        return Problem(Mark(self.directory, 0), spelled(path), message)
