"""The face of the room: a compiled, immutable set of experiments."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Self

from abtest.assign import assign
from abtest.condition import Context
from abtest.decision import Assignment
from abtest.explain import Explanation, explain
from abtest.freed import recently_freed
from abtest.params import Param, Value
from abtest.plan import ScenePlan
from abtest.problems import Problem, Report
from abtest.ramp import judge
from abtest.read import read_document

_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
_NO_DEFAULTS: Final[Mapping[str, object]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Experiments:
    """Everything that one `abtest.yaml` says; make one with `compile`, and swap it by one reference."""

    scenes: Mapping[str, ScenePlan]
    params: Mapping[str, Param]

    @classmethod
    def compile(
        cls,
        document: Mapping[str, object],
        context: Mapping[str, str],
        scenes: Collection[str],
        defaults: Mapping[str, object] = _NO_DEFAULTS,
    ) -> tuple[Self | None, list[Problem]]:
        """Check a parsed `abtest.yaml` and compile it.

        `document` is plain nested data, `context` gives the type of each context attribute (`str`, `int`,
        `float`, `bool`, `semver`) that conditions may use as `context.name`, `scenes` names those that
        exist; one without experiments gets an empty plan. `defaults` are the values that the caller fills in for
        attributes which a request doesn't send: changing one moves users too, and is refused like a changed
        condition. Returns every problem in one run, and an object only when there are none. Never raises for what
        stands in the document.
        """
        report = Report()
        plans, params = read_document(report, document, Context(context, defaults), scenes)
        if report.problems:
            return None, report.problems
        return cls(MappingProxyType(plans), MappingProxyType(params)), []

    def assign(
        self,
        scene: str,
        units: Mapping[str, str | int | None],
        context: Mapping[str, object],
        now: float,
        forced: Mapping[str, str] = _NOTHING,
    ) -> Assignment:
        """Assign one request; pure, without I/O, a few microseconds.

        `units` holds what is known of `user_id`, `device_id`, `session_id`, `request_id`; a layer never
        falls back to another unit. `context` holds scalars; an absent or mistyped attribute is missing, and
        every comparison with it is false (so that `not (context.x > 3)` holds). `now` is in epoch seconds. In
        this order: the holdout beats everything, a whitelist beats slots, dates, conditions and a zero weight
        (not the pause or the end of its experiment), and then the slots decide, of the domains first where
        there are any. Launches move the defaults of those who aren't held out.

        `forced` (layer to `experiment@version/bucket`, or to `default`) beats all that, whatever the status;
        it is for debug requests whose sender is authorised, and every decision that it makes is marked. Raises
        KeyError for a scene that wasn't compiled, ValueError for a forced layer or bucket that isn't there.
        """
        return assign(self.scenes[scene], units, context, now, forced)

    def values_of(self, param: str) -> tuple[Value, ...]:
        """Return every value that the configuration names for a parameter, the default first.

        Experiments of every status count, since a change of status must not need what isn't built. Raises
        KeyError for an undeclared parameter.
        """
        declared = self.params[param]
        values: dict[Value, None] = {declared.default: None}
        for layer in self.scenes[declared.scene].layers:
            for launch in layer.launches:
                if param in launch.values:
                    values[launch.values[param]] = None
            for experiment in layer.experiments:
                for bucket in experiment.buckets:
                    if param in bucket.values:
                        values[bucket.values[param]] = None
        return tuple(values)

    def refuses(self, old: "Experiments", now: float | None = None) -> list[Problem]:
        """Return why this configuration may not replace `old`; see `abtest.ramp`.

        `now` is in epoch seconds; without it a start that is put off is refused even where it hasn't come yet.
        """
        return judge(old.scenes, self.scenes, now).refusals

    def recently_freed(self, now: float) -> list[Problem]:
        """Return a warning for each experiment in slots that another gave up under 14 days before `now`."""
        return [problem for plan in self.scenes.values() for problem in recently_freed(plan, now)]

    def explain(
        self,
        scene: str,
        units: Mapping[str, str | int | None],
        context: Mapping[str, object],
        now: float,
        forced: Mapping[str, str] = _NOTHING,
    ) -> Explanation:
        """Assign one request as `assign` does, and show every salt, hash, slot, condition and source of a value."""
        return explain(self.scenes[scene], units, context, now, forced)
