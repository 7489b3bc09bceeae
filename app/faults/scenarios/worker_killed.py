"""Workers are killed in the middle of their work."""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import dataclass

import numpy as np

from app.faults import procfs
from app.faults.requirements import no_empty_list, recovered
from app.faults.scenario import Kit, Scenario, Verdict
from app.faults.stage import PROCESS_RATE, Stage, staged
from app.faults.timeline import play
from app.faults.waiting import until
from app.load.result import Result

BACK_SECONDS = 30.0
RECOVERY = 5.0
_POLL = 0.0005


@dataclass(frozen=True, slots=True)
class Death:
    """From the signal to the moment at which the kernel had closed all that the worker held."""

    killed: float
    gone: float


async def run(kit: Kit) -> Verdict:
    """Two workers, of which one is killed, some times over."""
    async with staged(kit, workers=2) as stage:
        return await _played(stage)


async def _played(stage: Stage) -> Verdict:
    kit, verdict, server = stage.kit, Verdict(), stage.server
    deaths: list[Death] = []

    async def fault() -> float:
        for _ in range(int(kit.seconds(5, 2))):
            victim = server.workers[-1]
            kit.say(f"SIGKILL of worker {victim}")
            deaths.append(await _kill(victim))
            await server.all_ready(2, BACK_SECONDS, but=[victim])
            await asyncio.sleep(1.0)
        return deaths[-1].gone

    try:
        played = await play(stage, verdict, fault, kit.seconds(60.0, 25.0), rate=PROCESS_RATE)
    except TimeoutError:
        verdict.must(False, f"a killed worker is replaced within {BACK_SECONDS:.0f} s")
        return verdict
    failures, held = _failures(played.result, deaths)
    verdict.note("kills", len(deaths))
    verdict.note("failures", failures)
    verdict.note("held_by_all_workers", held)
    verdict.note("restarts", (await server.status()).get("restarts"))
    summary = played.result.summary()
    verdict.must(failures <= held, f"{failures} failures, no more than the {held} requests held when it was killed")
    elsewhere = summary.sent - summary.served - failures
    verdict.must(elsewhere == 0, f"no request failed that wasn't in flight at a kill: {elsewhere} did")
    no_empty_list(verdict, played.result)
    recovered(verdict, played, RECOVERY)
    return verdict


async def _kill(pid: int) -> Death:
    loop = asyncio.get_running_loop()
    killed = loop.time()
    os.kill(pid, signal.SIGKILL)
    await until(lambda: procfs.started(pid) is None, BACK_SECONDS, _POLL)
    return Death(killed, loop.time())


def _failures(result: Result, deaths: list[Death]) -> tuple[int, int]:
    """Failed requests that were in flight when a worker died, and all that were, on any worker."""
    samples = result.samples
    sent, ended = samples.due + result.started, samples.due + samples.latency + result.started
    flying = np.zeros(len(samples), np.bool_)
    for death in deaths:
        flying |= (sent <= death.gone) & (ended >= death.killed)
    return int((flying & (samples.outcome != 200)).sum()), int(flying.sum())


SCENARIO = Scenario(
    "worker_killed",
    "SIGKILL of one of two workers, five times (twice)",
    "no more failures than requests that it held, every later request is answered, recovery under 5 s",
    (85.0, 50.0),
    run,
)
