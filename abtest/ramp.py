"""The ramp rule: once an experiment has run, its slots may only grow, and nothing else about it may change.

An experiment that runs or rests under the same name and version before and after a change keeps everybody
where they are. Ending it, taking it out and starting a new version are always allowed; so are changed
whitelists, which move only the units that they name. One that shrinks on purpose says so under `freed`.
See docs/adr/0020-the-ramp-rule.md.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from abtest.freed import tired_slots
from abtest.frozen import STATES, Change, refusal, reshuffle
from abtest.hashing import SLOTS
from abtest.plan import Experiment, Holdout, Layer, ScenePlan, Slots
from abtest.problems import Path, Problem
from abtest.slots import common, shown, size, without

_BEGUN: Final = ("running", "paused", "ended")
_LIVE: Final = ("running", "paused")
_DRAFT: Final = ("draft",)


@dataclass(slots=True)
class Verdict:
    """Why one configuration may not follow another, and what its author should know; paths are the new one's."""

    refusals: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)


def judge(
    old: Mapping[str, ScenePlan], new: Mapping[str, ScenePlan], now: float | None = None, *, shrink: bool = False
) -> Verdict:
    """Apply the rule. `now` is in epoch seconds; without it no start may be put off, and nothing is warned of.

    `shrink` makes a warning of slots that a running experiment gives up without saying so.
    """
    verdict = Verdict()
    for name, plan in new.items():
        if name in old:
            _Scene(old[name], plan, now, shrink, verdict).judge()
    return verdict


@dataclass(frozen=True, slots=True)
class _Scene:
    old: ScenePlan
    new: ScenePlan
    now: float | None
    shrink: bool
    verdict: Verdict

    def judge(self) -> None:
        before = {(layer.name, each.key): (layer, each) for layer, each in self._begun(_BEGUN)}
        refuse = self.verdict.refusals.extend
        kept: list[Experiment] = []
        for layer, experiment in _in(self.new, _LIVE):
            found = before.get((layer.name, experiment.key))
            if found is None:
                refuse(self._strayed(experiment))
            else:
                kept.append(experiment)
                change = Change(*found, layer, experiment)
                refuse(change.frozen(self.now))
                self._slots(change)
            if self.now is not None:
                taken = without(experiment.slots, found[1].slots if found else ())
                self.verdict.warnings += self._tired(experiment, taken, self.now)
        for layer, experiment in _in(self.new, _DRAFT):
            if (layer.name, experiment.key) in before:
                refuse(_drafted(before[layer.name, experiment.key][1], experiment))
        if kept:
            refuse(_holdout(self.old.holdout, self.new.holdout, ("scenes", self.new.name, "holdout")))
            refuse(self._domains(kept))

    def _begun(self, statuses: tuple[str, ...]) -> Iterator[tuple[Layer, Experiment]]:
        """Yield the old experiments of these statuses whose start has come."""
        for layer, each in _in(self.old, statuses):
            if self.now is None or each.start is None or each.start <= self.now:
                yield layer, each

    def _strayed(self, experiment: Experiment) -> Iterator[Problem]:
        """Report an experiment that was in another layer, and isn't there any longer."""
        still = {(layer.name, each.key) for layer, each in _in(self.new, _LIVE)}
        for layer, before in self._begun(_LIVE):
            if before.key == experiment.key and (layer.name, before.key) not in still:
                change = f"moved from the layer {layer.name} to {experiment.layer}"
                yield reshuffle(experiment.place, before, change, size(before.slots), "layer slots")

    def _slots(self, change: Change) -> None:
        """Judge the slots that were given up: those that a new entry of `freed` has are meant."""
        before, after = change.before, change.after
        lost = without(before.slots, after.slots)
        if not lost or not change.comparable:
            return
        fresh = [freed for freed in after.freed if freed not in before.freed]
        silent = without(lost, [pair for freed in fresh for pair in freed.slots])
        owned = common(lost, [pair for freed in fresh for pair in freed.slots])
        where = (*after.place, "slots")
        if silent and not self.shrink:
            fix = f'To shrink on purpose, write `freed` with the time: {{"...": {_written(silent)}}}.'
            count, moves = size(silent), self._moves(change.layer, after, silent)
            problem = refusal(where, before, "its slots shrank", count, change.what, moves)
            self.verdict.refusals.append(Problem(where, f"{problem.message} {fix}"))
        else:
            owned = lost
        if owned:
            moves = self._moves(change.layer, after, owned)
            wrong = f"{after.key} gives up {shown(owned)}: {size(owned)} of {SLOTS:,} {change.what} move users, {moves}"
            fix = f' A reload wants `freed` to say so: {{"...": {_written(silent)}}}.' if silent and self.shrink else ""
            self.verdict.warnings.append(Problem(where, f"{wrong}. They should rest for 14 days.{fix}"))

    def _moves(self, layer: Layer, after: Experiment, lost: Slots) -> str:
        domain = self.new.domain(after.domain)
        table = layer.table if domain is None else domain.table
        moved: Counter[str] = Counter()
        for low, high in lost:
            for holder in table[low:high]:
                moved["the defaults" if holder is None or holder.resting else holder.key] += 1
        return ", ".join(f"{count} from {after.key} to {target}" for target, count in moved.items())

    def _domains(self, kept: list[Experiment]) -> Iterator[Problem]:
        """Report domains that give up traffic in which an experiment runs."""
        old, new = self.old, self.new
        path: Path = ("scenes", new.name, "domains")
        if old.domains is not None and new.domains is not None and old.domains.unit != new.domains.unit:
            change = f"the unit of the domains changed from {old.domains.unit} to {new.domains.unit}"
            yield Problem(path, f"{change} while experiments run: it would move users. Expected {old.domains.unit}.")
            return
        for name in sorted({each.domain for each in kept}, key=str):
            lost = without(old.traffic(name), new.traffic(name))
            if lost:
                said = "the overlapping domain" if name is None else f"the domain {name}"
                wrong = f"{said} shrank while experiments run in it: {size(lost)} of {SLOTS:,} slots of the scene"
                fix = f"Expected at least {shown(old.traffic(name))}."
                yield Problem(path, f"{wrong} would move users to other domains. {fix}")

    def _tired(self, experiment: Experiment, taken: Slots, now: float) -> Iterator[Problem]:
        peers = [each for layer in self.new.layers for each in layer.experiments if _share(each, experiment)]
        yield from tired_slots(peers, experiment, taken, now)
        # What ran until this very change, and holds its slots no longer.
        live = {(layer.name, each.key): each for layer, each in _in(self.new, _LIVE)}
        for layer, before in _in(self.old, _LIVE):
            after = live.get((layer.name, before.key))
            if before.key != experiment.key and after is None and _share(before, experiment):
                said = any(each.key == before.key and each.end is not None for each in peers)
                shared = common(taken, before.slots)
                if shared and not said:
                    yield _just_freed(experiment, shared, before.key)


def _share(one: Experiment, two: Experiment) -> bool:
    return one.domain == two.domain and (one.domain is not None or one.layer == two.layer)


def _just_freed(experiment: Experiment, slots: Slots, by: str) -> Problem:
    wrong = f"{experiment.key} takes {shown(slots)}, which {by} gives up in the same change"
    fix = "Its units still carry what they saw; let them rest for 14 days."
    return Problem((*experiment.place, "slots"), f"{wrong}. {fix}")


def _in(plan: ScenePlan, statuses: tuple[str, ...]) -> Iterator[tuple[Layer, Experiment]]:
    for layer in plan.layers:
        for experiment in layer.experiments:
            if experiment.status in statuses:
                yield layer, experiment


def _drafted(before: Experiment, after: Experiment) -> Iterator[Problem]:
    """A draft is free to change: what has begun and becomes one could come back as something else."""
    wrong = f"{before.key} {STATES[before.status]} and became a draft, which may be changed"
    ways = "ended" if before.status == "ended" else "paused, or to ended"
    yield Problem((*after.place, "status"), f"{wrong}. Set the status to {ways}; a new version may be a draft.")


def _holdout(before: Holdout | None, after: Holdout | None, path: Path) -> Iterator[Problem]:
    """A holdout that grows takes enrolled units away; one that shrinks only lets new ones in."""
    if after is None:
        return
    grown = after.slots - (before.slots if before else 0)
    if before is not None and before.slots and after.slots and after.unit != before.unit:
        wrong = f"the unit of the holdout changed from {before.unit} to {after.unit} while experiments run"
        moves = f"{after.slots} of {SLOTS:,} slots would move users from their buckets to the holdout"
        yield Problem((*path, "unit"), f"{wrong}: {moves}. Expected {before.unit}.")
    elif grown > 0:
        wrong = "the holdout grew while experiments run"
        moves = f"{grown} of {SLOTS:,} slots would move users from their buckets to the holdout"
        yield Problem((*path, "slots"), f"{wrong}: {moves}. Expected at most {after.slots - grown}.")


def _written(slots: Slots) -> str:
    return str([list(pair) for pair in slots])
