"""Slots that were given up lately rest: their units still carry what they saw, and would carry it into the next.

The memory lies in the document, with the experiment: one that has ended gave up its slots at its `end`, one
that shrank while it ran says so under `freed` (time to slots).
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from abtest.plan import Experiment, Freed, ScenePlan, Slots
from abtest.problems import Problem
from abtest.slots import common, outside, shown, size, without

REST: Final = 14 * 86_400.0
"""For how many seconds freed slots rest."""


def free_slots(plan: ScenePlan, layer: str, count: int, now: float, domain: str | None = None) -> list[tuple[int, int]]:
    """Return the lowest free ranges that have `count` slots together, rested ones first.

    Those of the exclusive `domain` if one is named, else the layer's own. Slots freed under 14 days before
    `now` (epoch seconds) are taken only where the others don't suffice. Raises KeyError for a layer or domain
    that isn't there, ValueError where too few are free.
    """
    if domain is None or plan.domain(domain) is None:
        experiments = [each for each in plan.layer(layer).experiments if each.domain is None]
    else:
        plan.layer(layer)
        experiments = [each for one in plan.layers for each in one.experiments if each.domain == domain]
    free = outside(pair for each in experiments if each.status != "ended" for pair in each.slots)
    if size(free) < count:
        raise ValueError(f"{count} slots are wanted and {size(free)} are free: {shown(free)}.")
    tired = [pair for each in experiments for freed in given_up(each, now) for pair in freed.slots]
    taken = _lowest(without(free, tired), count)
    taken += _lowest(common(free, tired), count - size(taken))
    return list(outside(outside(taken)))


def given_up(experiment: Experiment, now: float) -> Iterator[Freed]:
    """Yield what an experiment gave up under 14 days before `now`."""
    for freed in experiment.freed:
        if now - freed.at < REST:
            yield freed
    if experiment.status == "ended" and experiment.end is not None:
        at = min(experiment.end, now)
        if now - at < REST:
            yield Freed(experiment.slots, experiment.key, at)


def tired_slots(peers: Sequence[Experiment], experiment: Experiment, slots: Slots, now: float) -> Iterator[Problem]:
    """Yield a warning for each of `peers` that gave up some of `slots`, which `experiment` takes, too lately."""
    for peer in peers:
        if peer is experiment:
            continue
        for freed in given_up(peer, now):
            shared = common(slots, freed.slots)
            if shared:
                yield too_early(experiment, shared, peer.key, freed.at)


def too_early(experiment: Experiment, slots: Slots, by: str, at: float) -> Problem:
    """Return the warning about one experiment that takes `slots` freed by another."""
    when = datetime.fromtimestamp(at, UTC)
    rested = datetime.fromtimestamp(at + REST, UTC)
    wrong = f"{experiment.key} takes {shown(slots)}, which {by} gave up on {when:%Y-%m-%d}, under 14 days ago"
    fix = f"Its units still carry what they saw; the slots have rested on {rested:%Y-%m-%d}."
    return Problem((*experiment.place, "slots"), f"{wrong}. {fix}")


def recently_freed(plan: ScenePlan, now: float) -> Iterator[Problem]:
    """Yield a warning for each experiment, not yet ended, in slots that another gave up too lately."""
    for peers in spaces(plan):
        for experiment in peers:
            if experiment.status != "ended":
                yield from tired_slots(peers, experiment, experiment.slots, now)


def spaces(plan: ScenePlan) -> Iterator[list[Experiment]]:
    """Yield the experiments that share 10,000 slots: those of a layer, and those of an exclusive domain."""
    for layer in plan.layers:
        yield [each for each in layer.experiments if each.domain is None]
    for domain in plan.domains.each if plan.domains else ():
        if domain.exclusive:
            yield [each for layer in plan.layers for each in layer.experiments if each.domain == domain.name]


def _lowest(slots: Slots, count: int) -> list[tuple[int, int]]:
    taken: list[tuple[int, int]] = []
    for low, high in slots:
        if count <= 0:
            break
        taken.append((low, min(high, low + count)))
        count -= high - low
    return taken
