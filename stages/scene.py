"""A scene as configured: plain values, checked, before anything of a release is bound to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from stages.roles import Component

Role = Literal["recall", "filter", "pre_rank", "rank", "re_rank"]
Priority = Literal["interactive", "prefetch", "batch"]
OnFail = Literal["skip", "keep_order", "default", "open", "closed", "fail"]


@dataclass(frozen=True, slots=True)
class Param:
    """A setting written `$name`: the value comes from the experiment parameter of that name."""

    name: str


@dataclass(frozen=True, slots=True)
class StepConfig:
    """One step of a scene.

    `name` is unique in the scene: `recall.vector`, `filters.seen`, `pre_rank.dot`, `rank.model`, `re_rank.mmr`.
    `settings` holds what YAML gave (and the implied `table`): checked values, Param for `$name`,
    text for an Expression, a name for a Ref[T], tuples for lists. Absent ones have the component's default.
    `cap` (seconds) and `on_fail` None: the role's default. `when`: text of a bool expression.
    """

    role: Role
    name: str
    component: type[Component]
    settings: Mapping[str, Any] = field(default_factory=dict)
    cap: float | None = None
    on_fail: OnFail | None = None
    when: str | None = None
    at_least: int | None = None
    keep: int | Param | None = None
    path: tuple[str | int, ...] = ()

    @property
    def label(self) -> str:
        """The name without its role: the channel's name for a recall step."""
        return self.name.split(".", 1)[1]


@dataclass(frozen=True, slots=True)
class LadderConfig:
    """What a scene gives up under load, step by step.

    `least`: the fewest candidates that are ranked; `skip`: names of the channels that are left out (None: those that
    wait for something); `small`: the rank step with a smaller model (None: there is none).
    """

    least: int = 100
    skip: tuple[str, ...] | None = None
    small: StepConfig | None = None


@dataclass(frozen=True, slots=True)
class SceneConfig:
    """A scene. `budget` in seconds; `limit`: most candidates after the merge.

    `returned`: short names of item columns in the answer.
    `group`: the column that picks the fallback table's group (None: the table's first group or `all`).
    `priority`: the class of its requests that don't say one themselves.
    """

    name: str
    budget: float
    recall: tuple[StepConfig, ...]
    limit: int = 1000
    filters: tuple[StepConfig, ...] = ()
    pre_rank: StepConfig | None = None
    rank: StepConfig | None = None
    re_rank: tuple[StepConfig, ...] = ()
    returned: tuple[str, ...] = ()
    fallback: str | None = None
    group: str | None = None
    ladder: LadderConfig = LadderConfig()
    priority: Priority = "interactive"
    path: tuple[str | int, ...] = ()

    @property
    def steps(self) -> tuple[StepConfig, ...]:
        """Every step in the order of the funnel."""
        single = tuple(step for step in (self.pre_rank, self.rank) if step is not None)
        return (*self.recall, *self.filters, *single, *self.re_rank)
