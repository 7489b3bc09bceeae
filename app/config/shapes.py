"""The shapes of the files: what may stand where. They are bound by `bind.py` and described by `schema.py`.

A shape holds checked plain values; names that refer to other files are still text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from app.config.quantities import Bytes
from stages.registry import AGE, Duration, Range
from stages.scene import Priority


@dataclass(frozen=True, slots=True)
class Doc:
    """A description for people's editors, in `Annotated[T, Doc(...)]`."""

    text: str


Version = Annotated[Literal[1], Doc("The version of the file's format.")]
Names = tuple[str, ...]
STORE_TIMEOUT = Duration(0.05)
ADMISSION_WAIT = Duration(0.02)
DRAIN = CANARY = Duration(10)
MEMORY = Range(256 << 20, 1 << 40)  # bytes: less holds no release, and would replace workers for ever


@dataclass(frozen=True)
class StoreShape:
    """Where Redis or Valkey is."""

    url: Annotated[str, Doc("redis:// or unix:// URL; empty: a private server.")] = ""
    timeout: Annotated[Duration, Doc("Of one command."), Range(0.001, 10)] = STORE_TIMEOUT
    connections: Annotated[int, Doc("Most connections of the pool."), Range(1, 1000)] = 16


@dataclass(frozen=True)
class AdmissionShape:
    """How much one worker takes on; what is above is refused at once."""

    limit: Annotated[int, Doc("Most requests at once in one worker."), Range(4, 4096)] = 64
    wait: Annotated[Duration, Doc("The wait for a worker's time that it aims below."), Range(0.001, 1)] = ADMISSION_WAIT


@dataclass(frozen=True)
class ClientShape:
    """Someone who may ask, by key."""

    key: Annotated[str, Doc("16 to 256 visible ASCII characters, out of the environment; empty: the client is off.")]
    rate: Annotated[float, Doc("Requests a second."), Range(0.01, 100_000)]
    burst: Annotated[
        int | None, Doc("Most requests at once after a pause; absent: those of one second."), Range(1, 100_000)
    ] = None


@dataclass(frozen=True)
class ExposuresShape:
    """The log of who was exposed to which experiment."""

    format: Annotated[Literal["jsonl", "parquet"], Doc("JSON lines as they come, or Parquet once a minute.")] = "jsonl"


@dataclass(frozen=True)
class PushShape:
    """How a new configuration or release gets to the workers."""

    watch: Annotated[bool, Doc("Follow changes of the files.")] = True
    canary: Annotated[Duration, Doc("How long a share of the workers tries it first."), Range(0, 3600)] = CANARY
    share: Annotated[float, Doc("That share of the workers; at least one."), Range(0.01, 1)] = 0.25


@dataclass(frozen=True)
class ServiceShape:
    """service.yaml."""

    version: Version
    store: StoreShape = StoreShape()
    releases: Annotated[str, Doc("Folder of the releases.")] = "var/releases"
    extensions: Annotated[Names, Doc("Importable packages whose components become names.")] = ()
    context: Annotated[
        Mapping[str, str],
        Doc("Attributes a request may carry: `type = default`; str, int, float, bool, semver."),
    ] = field(default_factory=dict)
    token: Annotated[str | None, Doc("Allows debug requests from elsewhere than loopback.")] = None
    workers: Annotated[int | None, Doc("Processes; absent: one for each core of the quota."), Range(1, 256)] = None
    memory: Annotated[
        Bytes | None, Doc("Of one worker; above it the worker is replaced. Absent: no ceiling."), MEMORY
    ] = None
    drain: Annotated[Duration, Doc("For requests in flight when a process ends."), Range(0, 600)] = DRAIN
    admission: AdmissionShape = AdmissionShape()
    clients: Annotated[
        Mapping[str, ClientShape], Doc("With any that is on, /recommend and /events want a client's key.")
    ] = field(default_factory=dict)
    push: PushShape = PushShape()
    exposures: ExposuresShape = ExposuresShape()


@dataclass(frozen=True)
class CacheShape:
    """Rows of a view kept in memory."""

    policy: Literal["fifo"]
    bytes: Bytes
    ttl: Duration | None = None


@dataclass(frozen=True)
class LiveShape:
    """Someone's own keys in the store."""

    key: Annotated[str, Doc("A template with {id} once: `u:{id}`.")]
    layout: Literal["hash", "protobuf"] = "hash"


@dataclass(frozen=True)
class ViewShape:
    """A view: either of a release's artefact or of live keys."""

    fields: Annotated[Mapping[str, str], Doc("`name: type = default`.")]
    release: Annotated[str | None, Doc("An artefact of the release.")] = None
    live: LiveShape | None = None
    cache: CacheShape | None = None
    max_age: Annotated[Duration | None, Doc("Of the release, for filters that fail closed; absent: any."), AGE] = None


@dataclass(frozen=True)
class BehaviourShape:
    """The user's events."""

    events: Annotated[Names, Doc("Names of the events of interest.")]
    last: Annotated[int, Doc("The newest so many make `user.<as>`."), Range(1, 10_000)] = 50
    as_: Annotated[str, Doc("The column's short name.")] = "recent_items"


@dataclass(frozen=True)
class FeaturesShape:
    """features.yaml. Entries of `user` and `item` are ViewShape, and one `behaviour` of the user."""

    version: Version
    user: Mapping[str, Any] = field(default_factory=dict)
    item: Mapping[str, Any] = field(default_factory=dict)
    derived: Annotated[Mapping[str, Any], Doc("`item.name: {transform: [arguments]}`.")] = field(default_factory=dict)


@dataclass(frozen=True)
class SpaceShape:
    """An embedding space."""

    dim: Annotated[int, Range(1, 65535)]
    metric: Literal["ip", "cosine"] = "ip"


@dataclass(frozen=True)
class IndexShape:
    """A nearest-neighbour index."""

    over: Annotated[str, Doc("A vector field of the item.")]
    kind: Annotated[Literal["auto", "flat", "ivf_sq8"], Doc("auto: flat below 50,000 items.")] = "auto"
    recall_floor: Annotated[float, Doc("Least recall measured when built."), Range(0, 1)] = 0.9


@dataclass(frozen=True)
class TableShape:
    """Lists by item or by group."""

    items: Literal["item"] | None = None
    group: str | None = None


@dataclass(frozen=True)
class HistoryShape:
    """A sequence input."""

    gather: str
    by: str


@dataclass(frozen=True)
class InputsShape:
    """Inputs of a model with two sides."""

    user: Names = ()
    item: Names = ()
    history: HistoryShape | None = None


@dataclass(frozen=True)
class ModelShape:
    """A ranking model: `features` or `inputs`."""

    heads: Names
    features: Names | None = None
    inputs: InputsShape | None = None


@dataclass(frozen=True)
class ModelsShape:
    """models.yaml."""

    version: Version
    spaces: Mapping[str, SpaceShape] = field(default_factory=dict)
    indexes: Mapping[str, IndexShape] = field(default_factory=dict)
    tables: Mapping[str, TableShape] = field(default_factory=dict)
    models: Mapping[str, ModelShape] = field(default_factory=dict)


@dataclass(frozen=True)
class MergeShape:
    """How channels become one list."""

    limit: Annotated[int, Doc("Most candidates."), Range(1, 100_000)] = 1000


@dataclass(frozen=True)
class FallbackShape:
    """The list that answers when nothing else can."""

    table: Annotated[str, Doc("A table by group.")]
    by: Annotated[str | None, Doc("The column that names the group.")] = None


@dataclass(frozen=True)
class LadderShape:
    """What the scene gives up under load, step by step."""

    least: Annotated[int, Doc("Fewest candidates that are still ranked."), Range(1, 100_000)] = 100
    skip: Annotated[Names | None, Doc("Channels left out; absent: those that wait for something.")] = None
    model: Annotated[str | None, Doc("A smaller model with the heads that rank reads; absent: there is none.")] = None


@dataclass(frozen=True)
class SceneShape:
    """scenes/*.yaml. Steps are read by `steps.py`, with the settings of their components."""

    version: Version
    scene: str
    budget: Annotated[Duration, Range(0.001, 60)]
    recall: Mapping[str, Any]
    merge: MergeShape = MergeShape()
    filters: Mapping[str, Any] = field(default_factory=dict)
    pre_rank: Any = None
    rank: Any = None
    re_rank: Any = None
    return_: Annotated[Names, Doc("Short names of item fields in the answer.")] = ()
    fallback: str | FallbackShape | None = None
    ladder: LadderShape = LadderShape()
    priority: Annotated[Priority, Doc("Of requests that don't say one; prefetch and batch are shed first.")] = (
        "interactive"
    )
