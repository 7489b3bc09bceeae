"""How much a stage's service can take, before it is offered more."""

from __future__ import annotations

import asyncio
import functools
from dataclasses import dataclass

from app.faults.errors import CantPlay
from app.faults.stage import PATIENCE, SEED, Stage
from app.load.capacity import Criterion, Search, find_capacity
from app.load.plan import Phase, Plan
from app.load.process import run_elsewhere

LONG = Search(start=50.0, most=6_400.0, halvings=3, seconds=4.0, settle=1.0, rest=2.0)
SHORT = Search(start=50.0, most=6_400.0, halvings=2, seconds=2.0, settle=0.5, rest=1.0)

IN_TIME = Criterion(good=0.99, full=0.0)
"""Whatever their quality: lists that get worse are how the service takes more, and more than that is overload."""


@dataclass(frozen=True, slots=True)
class Measured:
    """`rate`: the highest one that was sustained, requests/s; `peak`: the best goodput that was seen, lists/s."""

    rate: float
    peak: float


async def measured(stage: Stage) -> Measured:
    """Search. Raises CantPlay when not even the first rate is sustained."""
    kit = stage.kit
    plan = Plan(
        stage.server.address, (stage.asking("interactive"),), (Phase("none", 0.0, 1.0),), SEED, timeout=PATIENCE
    )
    offer = functools.partial(run_elsewhere, cores=kit.spare)
    found = await asyncio.to_thread(
        lambda: find_capacity(plan, offer, search=SHORT if kit.short else LONG, criterion=IN_TIME, say=kit.say)
    )
    if not found.rate:
        raise CantPlay(f"there is no capacity to be exceeded: {found.why}")
    return Measured(found.rate, max(step.summary.goodput for step in found.steps))
