"""All workers are replaced one by one, and the configuration is loaded anew, under load."""

from __future__ import annotations

import os
import signal

from app.faults.requirements import in_time, no_empty_list, no_error
from app.faults.scenario import Kit, Scenario, Verdict
from app.faults.stage import PROCESS_RATE, Stage, staged
from app.faults.timeline import play

ROLL_SECONDS = 30.0


async def run(kit: Kit) -> Verdict:
    """Two workers; SIGUSR1 to the supervisor, then `/admin/reload`."""
    async with staged(kit, workers=2) as stage:
        return await _played(stage)


async def _played(stage: Stage) -> Verdict:
    kit, verdict, server = stage.kit, Verdict(), stage.server
    rolls = int(kit.seconds(3, 1))
    done = 0

    async def fault() -> None:
        nonlocal done
        for _ in range(rolls):
            old = server.workers
            kit.say("rolling restart")
            os.kill(server.pid, signal.SIGUSR1)
            await server.all_ready(2, ROLL_SECONDS, but=old)
            done += 1
        status, content = await server.ask("POST", "/admin/reload")
        verdict.must(status == 200, f"the reload is taken: {status} {content[:200]!r}")

    try:
        played = await play(stage, verdict, fault, ROLL_SECONDS * rolls / 2, rate=PROCESS_RATE)
    except TimeoutError:
        verdict.must(False, f"all workers are replaced within {ROLL_SECONDS:.0f} s")
        return verdict
    dropped = played.result.connections.dropped
    verdict.note("rolls", done)
    verdict.note("connections_dropped", dropped)
    no_error(verdict, played.result)
    no_empty_list(verdict, played.result)
    verdict.must(dropped == 0, f"no connection with a request on it is dropped: {dropped} were")
    pairs = played.result.pairs()
    verdict.must(len(pairs) == 1, f"one configuration and release answers: {dict(pairs)}")
    in_time(verdict, "fault", played.fault, stage.budget)
    return verdict


SCENARIO = Scenario(
    "rolling_reload",
    "SIGUSR1: all workers are replaced one by one, three times (once), then a reload",
    "no error, no dropped connection, answers of one configuration, served p99 within budget + 10 ms",
    (75.0, 45.0),
    run,
)
