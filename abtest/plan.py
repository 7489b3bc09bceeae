"""The compiled plan: immutable, flat, and laid out for assignment in microseconds.

Its parts compare by identity, since what is compared are always parts of one plan.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from abtest.condition import Condition
from abtest.hashing import SLOTS
from abtest.params import Value

UNITS: Final = ("user_id", "device_id", "session_id", "request_id")
"""What can be randomised."""

Slots = tuple[tuple[int, int], ...]
"""Half-open ranges within [0, 10000), ascending and disjoint."""


@dataclass(frozen=True, slots=True, eq=False)
class Bucket:
    """One arm: `label` is `experiment@version/bucket`, `weight` is out of 10,000.

    `settings` is `values` as a plain dictionary, which assignment merges in less time.
    """

    name: str
    label: str
    weight: int
    control: bool
    values: Mapping[str, Value]
    settings: dict[str, Value]


@dataclass(frozen=True, slots=True)
class Freed:
    """Slots that the experiment `by` gave up at `at` (epoch seconds): they rest for a while."""

    slots: Slots
    by: str
    at: float


@dataclass(frozen=True, slots=True, eq=False)
class Experiment:
    """One version of an experiment.

    `domain` is the exclusive domain in whose slots it lies, None in the overlapping one. `buckets` are in the
    order of their names; `split[slot]` is the index of the bucket that has a slot of the second hash. `start`
    and `end` are epoch seconds, half-open. `every` is the length of a time slice in seconds: then all of its
    units share a bucket for that long. `testers` maps encoded units (see `encode_unit`) to the buckets that
    the whitelist gives them. `freed` are the slots that it gave up while it ran. `resting` is the reason why
    nobody is enrolled, None while it runs; `steady` says that it runs, and that neither time nor condition is
    to be looked at.
    """

    scene: str
    layer: str
    key: str
    owner: str
    description: str
    status: str
    domain: str | None
    slots: Slots
    salt: str
    prefix: bytes
    when: Condition | None
    buckets: tuple[Bucket, ...]
    split: Sequence[int] = field(repr=False)
    testers: Mapping[bytes, Bucket] = field(repr=False)
    freed: tuple[Freed, ...]
    start: float | None
    end: float | None
    every: int | None
    resting: str | None
    steady: bool

    @property
    def name(self) -> str:
        """The name without its version."""
        return self.key.partition("@")[0]

    @property
    def version(self) -> int:
        """The number after the `@`."""
        return int(self.key.partition("@")[2])

    @property
    def place(self) -> tuple[str | int, ...]:
        """Where it stands in the document."""
        return ("scenes", self.scene, "layers", self.layer, "experiments", self.key)


@dataclass(frozen=True, slots=True, eq=False)
class Launch:
    """Changed defaults of a layer, off for the holdout; `start` and `end` are epoch seconds, half-open."""

    key: str
    description: str
    when: Condition | None
    start: float | None
    end: float | None
    values: Mapping[str, Value]
    settings: dict[str, Value]

    @property
    def always(self) -> bool:
        """Whether it holds for every request."""
        return self.when is None and self.start is None and self.end is None

    def holds(self, context: Mapping[str, object], now: float) -> bool:
        """Say whether it is in force for this request."""
        if self.start is not None and now < self.start:
            return False
        if self.end is not None and now >= self.end:
            return False
        return self.when is None or self.when.holds(context, now)


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """One orthogonal layer: `table[slot]` is the experiment of the overlapping domain that holds a slot.

    `testers` maps encoded units to the experiment and bucket of the whitelists in force; `experiments` are
    those of all domains.
    """

    scene: str
    name: str
    unit: str
    salt: str
    prefix: bytes
    launches: tuple[Launch, ...] = field(repr=False)
    experiments: tuple[Experiment, ...] = field(repr=False)
    table: tuple[Experiment | None, ...] = field(repr=False)
    testers: Mapping[bytes, tuple[Experiment, Bucket]] = field(repr=False)

    @property
    def place(self) -> tuple[str | int, ...]:
        """Where it stands in the document."""
        return ("scenes", self.scene, "layers", self.name)


@dataclass(frozen=True, slots=True, eq=False)
class Domain:
    """A part of the scene's traffic.

    In the overlapping domain every layer runs. An exclusive one has 10,000 slots of its own for experiments
    of any layer: `table[slot]` is the holder, so that a unit is in one experiment at most.
    """

    scene: str
    name: str
    slots: Slots
    exclusive: bool
    salt: str
    prefix: bytes
    table: tuple[Experiment | None, ...] = field(repr=False)

    @property
    def place(self) -> tuple[str | int, ...]:
        """Where it stands in the document."""
        return ("scenes", self.scene, "domains", self.name)


@dataclass(frozen=True, slots=True, eq=False)
class Domains:
    """How a scene's traffic is cut: `table[slot]` is the domain of a slot under `salt`, or None.

    `testers` maps encoded units of the whitelists in force to the domain of their experiment, and to the
    experiment and bucket where that is an exclusive one.
    """

    unit: str
    salt: str
    prefix: bytes
    each: tuple[Domain, ...]
    table: tuple[Domain | None, ...] = field(repr=False)
    testers: Mapping[bytes, tuple[Domain, tuple[Experiment, Bucket] | None]] = field(repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Holdout:
    """Units whose slot under `salt` is below `slots` get the defaults in every layer."""

    slots: int
    unit: str
    salt: str
    prefix: bytes


@dataclass(frozen=True, slots=True, eq=False)
class ScenePlan:
    """All of one scene.

    `defaults` holds every parameter that its layers own, `launched` the same with the launches that always
    hold; `launches` are the others. `domains` is None where one overlapping domain has all slots. `units` are
    the types of units by which anything here is decided.
    """

    name: str
    holdout: Holdout | None
    domains: Domains | None
    layers: tuple[Layer, ...]
    defaults: Mapping[str, Value]
    launched: Mapping[str, Value]
    launches: tuple[Launch, ...]
    units: tuple[str, ...]

    def layer(self, name: str) -> Layer:
        """Return the layer of that name. Raises KeyError."""
        for layer in self.layers:
            if layer.name == name:
                return layer
        raise KeyError(name)

    def domain(self, name: str | None) -> Domain | None:
        """Return the exclusive domain of that name, None for the overlapping one. Raises KeyError."""
        if name is None:
            return None
        for domain in self.domains.each if self.domains else ():
            if domain.name == name:
                return domain if domain.exclusive else None
        raise KeyError(name)

    def traffic(self, domain: str | None) -> Slots:
        """Return the slots of the scene that a domain has (None: the overlapping one)."""
        if self.domains is None:
            return ((0, SLOTS),) if domain is None else ()
        for each in self.domains.each:
            if (each.name if each.exclusive else None) == domain:
                return each.slots
        return ()
