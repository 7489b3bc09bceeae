"""The store's process is killed, comes back by its watchdog, and is stopped for a while."""

from __future__ import annotations

import asyncio
import os
import signal

from app.faults.judge import recovery
from app.faults.requirements import RECOVERY, ridden_out
from app.faults.scenario import Kit, Scenario, Verdict
from app.faults.stage import Stage, staged
from app.faults.timeline import play
from app.faults.waiting import until

RETURN_SECONDS = 20.0


async def run(kit: Kit) -> Verdict:
    """One worker, which reaches the store without the proxy: a killed server refuses connections."""
    async with staged(kit, direct=True) as stage:
        return await _played(stage)


async def _played(stage: Stage) -> Verdict:
    kit, verdict = stage.kit, Verdict()
    stopped, between = kit.seconds(15.0, 5.0), 5.0
    loop = asyncio.get_running_loop()
    returned = 0.0

    async def fault() -> None:
        nonlocal returned
        kit.say("SIGKILL of the store")
        restarts = stage.store.restarts
        os.kill(_pid(stage), signal.SIGKILL)
        await until(lambda: stage.store.restarts > restarts and stage.store.pid is not None, RETURN_SECONDS)
        returned = loop.time()
        await asyncio.sleep(between)
        kit.say(f"SIGSTOP of the store for {stopped:.0f} s")
        pid = _pid(stage)
        os.kill(pid, signal.SIGSTOP)
        try:
            await asyncio.sleep(stopped)
        finally:
            os.kill(pid, signal.SIGCONT)

    played = await play(stage, verdict, fault, stopped + between + RETURN_SECONDS / 4)
    after_kill = recovery(played.result, returned, stage.budget)
    verdict.note("recovery_after_kill_s", after_kill)
    ridden_out(verdict, played, stage.budget)
    said = "not seen" if after_kill is None else f"{after_kill:.2f} s"
    words = f"recovery after SIGKILL {said}, under {RECOVERY:g} s from the server's return"
    verdict.must(after_kill is not None and after_kill < RECOVERY, words)
    return verdict


def _pid(stage: Stage) -> int:
    pid = stage.store.pid
    assert pid is not None, "the store runs"
    return pid


SCENARIO = Scenario(
    "store_killed",
    "SIGKILL of the store, which its watchdog starts again, then SIGSTOP for 15 s (5 s)",
    "served p99 within budget + 10 ms, no 5xx, no empty list, recovery under 2 s from its return",
    (60.0, 45.0),
    run,
)
