"""The store answers half a second late, and then not at all."""

from __future__ import annotations

import asyncio

from app.faults.judge import window
from app.faults.pipe import Faults
from app.faults.requirements import RECOVERY, in_time, no_empty_list, no_error, recovered
from app.faults.scenario import Kit, Scenario, Verdict
from app.faults.stage import Stage, staged
from app.faults.timeline import play

LATENCY = 0.5
RETRY_SHARE = 0.1
CALLS, RETRIES = "recserve_store_calls_total", "recserve_store_retries_total"


async def run(kit: Kit) -> Verdict:
    """One worker; the proxy holds every reply back, then swallows everything."""
    async with staged(kit) as stage:
        return await _played(stage)


async def _played(stage: Stage) -> Verdict:
    kit, verdict = stage.kit, Verdict()
    slow, hole = kit.seconds(15.0, 5.0), kit.seconds(60.0, 10.0)
    loop = asyncio.get_running_loop()
    holed = 0.0

    async def fault() -> None:
        nonlocal holed
        kit.say(f"every reply of the store {LATENCY * 1000:.0f} ms late")
        stage.proxy.set(down=Faults(latency=LATENCY))
        await asyncio.sleep(slow)
        kit.say(f"the store in a black hole for {hole:.0f} s")
        holed = loop.time()
        stage.proxy.set(up=Faults(hole=True), down=Faults(hole=True))
        await asyncio.sleep(hole)
        stage.proxy.heal()

    before = await stage.server.metrics()
    played = await play(stage, verdict, fault, slow + hole)
    since = await stage.server.metrics()
    for name, start, end in (("slow", played.began, holed), ("black_hole", holed, played.healed)):
        in_time(verdict, name, verdict.window(name, window(played.result, start, end)), stage.budget)
    no_error(verdict, played.result)
    no_empty_list(verdict, played.result)
    recovered(verdict, played, RECOVERY)
    calls, retries = (since.get(name, 0.0) - before.get(name, 0.0) for name in (CALLS, RETRIES))
    verdict.note("store_calls", calls)
    verdict.note("store_retries", retries)
    verdict.note("reasons", dict(played.result.reasons()))
    words = f"{retries:.0f} retries of {calls:.0f} calls, under {RETRY_SHARE:.0%}"
    verdict.must(calls > 0 and retries < RETRY_SHARE * calls, words)
    return verdict


SCENARIO = Scenario(
    "store_slow_then_black_hole",
    "every reply of the store 500 ms late, then a black hole for 60 s (10 s)",
    "served p99 within budget + 10 ms, no 5xx, no empty list, recovery under 2 s, retries under 10%",
    (100.0, 40.0),
    run,
)
