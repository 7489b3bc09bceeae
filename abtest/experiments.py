"""The face of the room: a compiled, immutable set of experiments."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Self

from abtest.assign import Assignment, assign
from abtest.params import Param, Value
from abtest.plan import ScenePlan
from abtest.problems import Problem, Report
from abtest.ramp import refused_changes
from abtest.read import read_document


@dataclass(frozen=True, slots=True)
class Experiments:
    """Everything that one `abtest.yaml` says; make one with `compile`, and swap it by one reference."""

    scenes: Mapping[str, ScenePlan]
    params: Mapping[str, Param]

    @classmethod
    def compile(
        cls, document: Mapping[str, object], context: Mapping[str, str], scenes: Collection[str]
    ) -> tuple[Self | None, list[Problem]]:
        """Check a parsed `abtest.yaml` and compile it.

        `document` is plain nested data, `context` gives the type of each context attribute (`str`, `int`,
        `float`, `bool`, `semver`) that conditions may use as `context.name`, `scenes` names those that
        exist; one without experiments gets an empty plan. Returns every problem in one run, and an object
        only when there are none. Never raises for what stands in the document.
        """
        report = Report()
        plans, params = read_document(report, document, context, scenes)
        if report.problems:
            return None, report.problems
        return cls(MappingProxyType(plans), MappingProxyType(params)), []

    def assign(
        self,
        scene: str,
        units: Mapping[str, str | int | None],
        context: Mapping[str, object],
        now: float,
    ) -> Assignment:
        """Assign one request; pure, without I/O, a few microseconds.

        `units` holds what is known of `user_id`, `device_id`, `session_id`, `request_id`; a layer never
        falls back to another unit. `context` holds scalars; an absent or mistyped attribute meets no
        condition. `now` is in epoch seconds. In this order: the holdout beats everything, a whitelist beats
        slots, dates, conditions and a zero weight (not the pause or the end of its experiment), and then
        the slot decides. Raises KeyError for a scene that wasn't compiled.
        """
        return assign(self.scenes[scene], units, context, now)

    def values_of(self, param: str) -> tuple[Value, ...]:
        """Return every value that the configuration names for a parameter, the default first.

        Experiments of every status count, since a change of status must not need what isn't built. Raises
        KeyError for an undeclared parameter.
        """
        declared = self.params[param]
        values: dict[Value, None] = {declared.default: None}
        for layer in self.scenes[declared.scene].layers:
            for experiment in layer.experiments:
                for bucket in experiment.buckets:
                    if param in bucket.values:
                        values[bucket.values[param]] = None
        return tuple(values)

    def refuses(self, old: "Experiments") -> list[Problem]:
        """Return why this configuration may not replace `old` while experiments run; see `abtest.ramp`."""
        return refused_changes(old.scenes, self.scenes)
