"""A model stops returning, and returns again later."""

from __future__ import annotations

import asyncio

from app.faults.models import with_model
from app.faults.requirements import ridden_out
from app.faults.scenario import Kit, Scenario, Verdict
from app.faults.stage import staged
from app.faults.timeline import play

USUALLY_MS = 5.0
"""Claimed by the model, as one that runs on the pool: one on the event loop's own thread can't be abandoned."""


async def run(kit: Kit) -> Verdict:
    """One worker; every run of the model waits until the switch is off."""
    switch, verdict = kit.folder / "hang", Verdict()
    seconds = kit.seconds(20.0, 6.0)
    async with staged(kit, edit=with_model("hanging_model", switch, usually=USUALLY_MS)) as stage:

        async def fault() -> None:
            kit.say(f"the model hangs for {seconds:.0f} s")
            switch.touch()
            await asyncio.sleep(seconds)
            switch.unlink()

        played = await play(stage, verdict, fault, seconds)
        verdict.note("reasons", dict(played.result.reasons()))
    named = sum(count for reason, count in played.result.reasons().items() if reason.startswith("rank"))
    verdict.must(named > 0, "answers name the ranker as degraded")
    ridden_out(verdict, played, stage.budget)
    return verdict


SCENARIO = Scenario(
    "hanging_model",
    "the ranker's model (on the pool) doesn't return for 20 s (6 s)",
    "answers say so, served p99 within budget + 10 ms, no 5xx, no empty list, recovery under 2 s",
    (45.0, 30.0),
    run,
)
