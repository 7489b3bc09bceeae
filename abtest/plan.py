"""The compiled plan: immutable, flat, and laid out for assignment in microseconds.

Its parts compare by identity, since what is compared are always parts of one plan.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from abtest.condition import Condition
from abtest.params import Value

UNITS: Final = ("user_id", "device_id", "session_id", "request_id")
"""What can be randomised."""

Slots = tuple[tuple[int, int], ...]
"""Half-open ranges within [0, 10000), ascending and disjoint."""


@dataclass(frozen=True, slots=True, eq=False)
class Bucket:
    """One arm: `label` is `experiment@version/bucket`, `weight` is out of 10,000."""

    name: str
    label: str
    weight: int
    control: bool
    values: Mapping[str, Value]


@dataclass(frozen=True, slots=True, eq=False)
class Experiment:
    """One version of an experiment.

    `buckets` are in the order of their names; `bounds[i]` is the slot at which bucket i ends. `start` and
    `end` are epoch seconds, half-open. `testers` maps encoded units (see `encode_unit`) to the buckets that
    the whitelist gives them. `resting` is the reason why nobody is enrolled, None while it runs.
    """

    scene: str
    layer: str
    key: str
    owner: str
    description: str
    status: str
    slots: Slots
    salt: str
    prefix: bytes
    when: Condition | None
    buckets: tuple[Bucket, ...]
    bounds: tuple[int, ...]
    testers: Mapping[bytes, Bucket] = field(repr=False)
    start: float | None
    end: float | None
    resting: str | None

    @property
    def name(self) -> str:
        """The name without its version."""
        return self.key.partition("@")[0]

    @property
    def version(self) -> int:
        """The number after the `@`."""
        return int(self.key.partition("@")[2])


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """One orthogonal layer: `table[slot]` is the experiment that holds a slot.

    `testers` maps encoded units to the experiment and bucket of the whitelists in force.
    """

    scene: str
    name: str
    unit: str
    salt: str
    prefix: bytes
    experiments: tuple[Experiment, ...] = field(repr=False)
    table: tuple[Experiment | None, ...] = field(repr=False)
    testers: Mapping[bytes, tuple[Experiment, Bucket]] = field(repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Holdout:
    """Units whose slot under `salt` is below `slots` get the defaults in every layer."""

    slots: int
    unit: str
    salt: str
    prefix: bytes


@dataclass(frozen=True, slots=True, eq=False)
class ScenePlan:
    """All of one scene; `defaults` holds every parameter that its layers own."""

    name: str
    holdout: Holdout | None
    layers: tuple[Layer, ...]
    defaults: Mapping[str, Value]
