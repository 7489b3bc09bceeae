"""The way to the store is bad in every other way: jitter, a trickle of bandwidth, resets, half-closed connections."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from app.faults.pipe import Faults
from app.faults.requirements import ridden_out
from app.faults.scenario import Kit, Scenario, Verdict
from app.faults.stage import Stage, staged
from app.faults.timeline import play

JITTER = 0.08
BANDWIDTH = 20_000.0
EVERY = 0.25


async def run(kit: Kit) -> Verdict:
    """One worker; one fault after the other, and all connections new after each."""
    async with staged(kit) as stage:
        return await _played(stage)


async def _played(stage: Stage) -> Verdict:
    kit, verdict, proxy = stage.kit, Verdict(), stage.proxy
    seconds = kit.seconds(10.0, 3.0)

    async def jitter() -> None:
        proxy.set(down=Faults(jitter=JITTER))
        await asyncio.sleep(seconds)

    async def trickle() -> None:
        proxy.set(up=Faults(bandwidth=BANDWIDTH), down=Faults(bandwidth=BANDWIDTH))
        await asyncio.sleep(seconds)

    async def resets() -> None:
        for _ in range(int(seconds / EVERY)):
            await proxy.reset()
            await asyncio.sleep(EVERY)

    async def half_closes() -> None:
        for at in range(int(seconds / EVERY)):
            proxy.half_close(down=at % 2 == 0)
            await asyncio.sleep(EVERY)

    async def deaf() -> None:
        await proxy.stop_accepting()
        await proxy.reset()
        await asyncio.sleep(seconds)

    courses: dict[str, Callable[[], Awaitable[None]]] = {
        "up to 80 ms of jitter": jitter,
        "20 kB/s": trickle,
        "a reset of all connections every 250 ms": resets,
        "a half-close of all connections every 250 ms": half_closes,
        "connections are not accepted": deaf,
    }

    async def fault() -> None:
        for what, course in courses.items():
            kit.say(what)
            await course()
            proxy.heal()

    played = await play(stage, verdict, fault, seconds * len(courses))
    verdict.note("connections_accepted", proxy.accepted)
    verdict.note("connections_reset", proxy.resets)
    verdict.note("reasons", dict(played.result.reasons()))
    ridden_out(verdict, played, stage.budget)
    return verdict


SCENARIO = Scenario(
    "store_flaky",
    "the store behind jitter, 20 kB/s, resets, half-closes, a listener that doesn't accept: 10 s (3 s) each",
    "served p99 within budget + 10 ms, no 5xx, no empty list, recovery under 2 s",
    (75.0, 40.0),
    run,
)
