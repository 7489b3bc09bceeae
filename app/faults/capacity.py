"""How much a stage's service can take, before it is offered more."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
from collections.abc import Mapping
from dataclasses import dataclass

from app.faults.errors import CantPlay, Late
from app.faults.stage import PATIENCE, SEED, Stage
from app.load.capacity import Criterion, Search, find_capacity
from app.load.plan import Phase, Plan
from app.load.process import run_elsewhere

START = 50.0
LONG = Search(most=6_400.0, halvings=3, seconds=4.0, settle=1.0, rest=2.0)
SHORT = Search(most=6_400.0, halvings=2, seconds=2.0, settle=0.5, rest=1.0)

IN_TIME = Criterion(good=0.99, full=0.0)
"""Whatever the lists' quality."""
LADDER = 2.0
"""Seconds in which a service walks down its ladder: what it takes at any quality is seen only afterwards."""


@dataclass(frozen=True, slots=True)
class Measured:
    """`rate`: the highest one that was sustained, requests/s; `goodputs`: what each rate tried came to, lists/s."""

    rate: float
    goodputs: Mapping[float, float]

    def peak(self, most: float) -> float:
        """The best goodput of the rates up to `most`."""
        return max((goodput for rate, goodput in self.goodputs.items() if rate <= most), default=0.0)


async def measured(stage: Stage, criterion: Criterion | None = None, start: float = START) -> Measured:
    """Search for what is sustained in time and at full quality, or by `criterion`. Raises CantPlay, Late.

    Not even the first rate may be too much, and the generator has to keep up.
    """
    kit = stage.kit
    plan = Plan(
        stage.server.address, (stage.asking("interactive"),), (Phase("none", 0.0, 1.0),), SEED, timeout=PATIENCE
    )
    offer = functools.partial(run_elsewhere, cores=kit.spare)
    search = dataclasses.replace(SHORT if kit.short else LONG, start=start)
    if criterion is IN_TIME:
        search = dataclasses.replace(search, settle=LADDER)
    found = await asyncio.to_thread(lambda: find_capacity(plan, offer, search=search, criterion=criterion, say=kit.say))
    if found.steps[-1].summary.late:
        raise Late(f"the search for the capacity: {found.why}")
    if not found.rate:
        raise CantPlay(f"there is no capacity to be exceeded: {found.why}")
    return Measured(found.rate, {step.rate: step.summary.goodput for step in found.steps})
