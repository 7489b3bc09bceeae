"""A scene, compiled: its steps with their variants, and the segments they are cut into."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from expression import Expression
from stages.roles import Component, Recaller, Table
from stages.scene import Priority
from stages.types import Scalar, View


@dataclass(frozen=True, slots=True)
class Variant:
    """A step's component for one choice of its parameters, how many candidates it keeps, and when it runs at all."""

    component: Component
    keep: int | None = None
    when: Expression | None = None

    @property
    def needs(self) -> frozenset[str]:
        """Columns that the component and `when` read."""
        return self.component.needs | (self.when.names if self.when is not None else frozenset())

    def applies(self, view: View) -> bool:
        """Whether `when` holds for this request."""
        return self.when is None or bool(self.when({name: view.get(name) for name in self.when.names}))


@dataclass(frozen=True)
class Step:
    """One step of a scene under the guard.

    `reads` names the experiment parameters it depends on; `variants` has an entry for every combination of
    their values that the configuration names: a request picks one, it never builds one. `behind`: the stored
    columns behind the derived ones it reads, so that a lost one is known to concern this step.
    `small`: what runs in its place at level 3 of the ladder.
    """

    role: str
    name: str
    variants: Mapping[tuple[Scalar, ...], Variant]
    reads: tuple[str, ...] = ()
    cap: float | None = None
    on_fail: str = "fail"
    at_least: int = 0
    behind: frozenset[str] = frozenset()
    small: Step | None = None

    def pick(self, params: Mapping[str, Scalar]) -> Variant:
        """The variant for a request's parameters."""
        return self.variants[tuple([params[name] for name in self.reads]) if self.reads else ()]

    def applies(self, view: View) -> bool:
        """Whether the picked variant runs for this request."""
        variant = self.pick(view.params)
        return variant.when is None or variant.applies(view)

    def passed_over(self, view: View) -> frozenset[str]:
        """Parameters that kept a step from running: those of its `when`, if it would have run for another value.

        They count as read, or an experiment that switches a step off would see only the other half of its users.
        """
        whens = [variant.when for variant in self.variants.values() if variant.applies(view)]
        return frozenset().union(*(when.params for when in whens if when is not None))

    @cached_property
    def needs(self) -> frozenset[str]:
        """Columns that any variant reads, and the stored ones behind derived ones."""
        small = frozenset() if self.small is None else self.small.needs
        return self.behind.union(small, *(v.needs for v in self.variants.values()))

    @cached_property
    def waits(self) -> bool:
        """Whether a recaller does I/O, and so runs as a task beside the others."""
        first = next(iter(self.variants.values())).component
        return isinstance(first, Recaller) and inspect.iscoroutinefunction(first.recall)

    @cached_property
    def cost_ms(self) -> float:
        """The slowest variant's measured time; 0 for a step that is only array work."""
        return max(float(getattr(v.component, "cost_ms", 0.0)) for v in self.variants.values())


@dataclass(frozen=True, slots=True)
class Segment:
    """Steps that run back to back, after one fetch of the live item columns in `fetch` by view."""

    steps: tuple[Step, ...]
    fetch: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class ScenePlan:
    """A scene ready to run. `returned` are full column names.

    `fallback` is the list that fills answers, `group` the column that names its group. `excludes`: whether a filter
    of the scene applies the request's `exclude`; the pipeline does where none does. `least` candidates are ranked
    at any level below 4; `slow` names the channels that are left out from level 2 on. `priority` is the class of
    requests that don't say one.
    """

    name: str
    budget: float
    recall: tuple[Step, ...]
    segments: tuple[Segment, ...]
    filters: tuple[Step, ...]
    limit: int
    returned: tuple[str, ...]
    fallback: Table | None
    group: str | None
    excludes: bool = True
    least: int = 0
    slow: frozenset[str] = frozenset()
    priority: Priority = "interactive"

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """Every step in the order of the funnel."""
        return (*self.recall, *(step for segment in self.segments for step in segment.steps))

    @cached_property
    def channels(self) -> tuple[str, ...]:
        """Channel names by source bit."""
        return tuple(step.name.removeprefix("recall.") for step in self.recall)

    @cached_property
    def at_least(self) -> Mapping[str, int]:
        """The channels whose best candidates survive the merge's limit."""
        return {name: s.at_least for name, s in zip(self.channels, self.recall, strict=True) if s.at_least}

    @cached_property
    def left_out(self) -> tuple[frozenset[str], ...]:
        """Names of the steps that each level of the ladder leaves out, by level."""
        rank = frozenset(step.name for step in self.steps if step.role == "rank")
        everything = frozenset(step.name for step in self.steps if step.role != "filter")
        return (frozenset(), frozenset(), self.slow, self.slow, self.slow | rank, everything)

    @cached_property
    def live(self) -> frozenset[str]:
        """Item columns that have to be fetched."""
        return frozenset(name for segment in self.segments for names in segment.fetch.values() for name in names)


def cut_segments(
    steps: Sequence[Step],
    live: Mapping[str, str],
    reads: Mapping[str, frozenset[str]],
    returned: frozenset[str] = frozenset(),
) -> tuple[Segment, ...]:
    """Cut `steps` wherever one needs a live view that has not been fetched yet.

    `live` maps a live item column to its view; `reads` maps a derived column to the stored ones it is made of.
    A fetch brings every column of its views that this or a later step reads, so that no view is read twice.
    What is only `returned` is fetched last, by a segment without steps.
    """
    wanted = [*(_live_columns(step.needs, live, reads) for step in steps), _live_columns(returned, live, reads)]
    segments: list[Segment] = []
    have: set[str] = set()
    start = 0
    fetch: dict[str, tuple[str, ...]] = {}
    for position, names in enumerate(wanted):
        new = {live[name] for name in names} - have
        if not new:
            continue
        if position > start:
            segments.append(Segment(tuple(steps[start:position]), fetch))
        later = frozenset().union(*wanted[position:])
        fetch = {view: tuple(sorted(n for n in later if live[n] == view)) for view in sorted(new)}
        start = position
        have |= new
    if steps[start:] or fetch:
        segments.append(Segment(tuple(steps[start:]), fetch))
    return tuple(segments)


def _live_columns(
    needs: frozenset[str], live: Mapping[str, str], reads: Mapping[str, frozenset[str]]
) -> frozenset[str]:
    names = set(needs)
    for name in needs:
        names |= reads.get(name, frozenset())
    return frozenset(name for name in names if name in live)
