"""A model returns NaN for half of its candidates."""

from __future__ import annotations

import asyncio

from app.faults.models import with_model
from app.faults.requirements import ridden_out
from app.faults.scenario import Kit, Scenario, Verdict
from app.faults.stage import staged
from app.faults.timeline import play

REASON = "invalid_output"


async def run(kit: Kit) -> Verdict:
    """One worker; the ranker's scores are spoilt while the switch is on."""
    switch, verdict = kit.folder / "nan", Verdict()
    seconds = kit.seconds(10.0, 4.0)
    async with staged(kit, edit=with_model("nan_model", switch)) as stage:

        async def fault() -> None:
            kit.say(f"the model returns NaN for {seconds:.0f} s")
            switch.touch()
            await asyncio.sleep(seconds)
            switch.unlink()

        played = await play(stage, verdict, fault, seconds, bugs=True)
    reasons = dict(played.result.reasons(played.began - played.result.started, played.healed - played.result.started))
    named = sum(count for reason, count in reasons.items() if reason.endswith(REASON))
    verdict.note("reasons", reasons)
    verdict.must(named >= 0.99 * played.fault.served, f"{named} of {played.fault.served} answers name {REASON}")
    ridden_out(verdict, played, stage.budget)
    return verdict


SCENARIO = Scenario(
    "nan_model",
    "the ranker's model returns NaN for 10 s (4 s)",
    "answers name it, served p99 within budget + 10 ms, no 5xx, no empty list, recovery under 2 s",
    (35.0, 28.0),
    run,
)
