"""A worker is stopped: its connections are open, and nobody answers on them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections import Counter

from app.faults import procfs
from app.faults.requirements import no_empty_list, recovered
from app.faults.scenario import Kit, Scenario, Verdict
from app.faults.stage import PROCESS_RATE, Stage, staged
from app.faults.timeline import play

PROBES_PER_SECOND = 20.0
PROBE_SECONDS = 2.0
REPLACED_SECONDS = 30.0
RECOVERY = 5.0


async def run(kit: Kit) -> Verdict:
    """Two workers, of which one gets SIGSTOP until its supervisor has replaced it."""
    async with staged(kit, workers=2) as stage:
        return await _played(stage)


async def _played(stage: Stage) -> Verdict:
    kit, verdict, server = stage.kit, Verdict(), stage.server
    loop = asyncio.get_running_loop()
    answers: Counter[str] = Counter()
    replaced = 0.0

    async def fault() -> None:
        nonlocal replaced
        victim = server.workers[-1]
        kit.say(f"SIGSTOP of worker {victim}")
        stopped, began = loop.time(), procfs.started(victim)
        os.kill(victim, signal.SIGSTOP)
        try:
            async with asyncio.TaskGroup() as probes, asyncio.timeout(REPLACED_SECONDS):
                while procfs.started(victim) == began:
                    probes.create_task(_probe(stage, answers))
                    await asyncio.sleep(1.0 / PROBES_PER_SECOND)
            replaced = loop.time() - stopped
            await server.all_ready(2, REPLACED_SECONDS, but=[victim])
        finally:
            if procfs.started(victim) == began:
                os.kill(victim, signal.SIGCONT)

    try:
        played = await play(stage, verdict, fault, REPLACED_SECONDS / 2, rate=PROCESS_RATE)
    except TimeoutError:
        verdict.must(False, f"a stopped worker is replaced within {REPLACED_SECONDS:.0f} s")
        return verdict
    summary = played.result.summary()
    verdict.note("new_connections", dict(answers))
    verdict.note("replaced_after_s", replaced)
    verdict.note("outcomes", dict(summary.outcomes))
    verdict.must(set(answers) == {"200"}, f"new connections are served by the others: {dict(answers)}")
    no_empty_list(verdict, played.result)
    recovered(verdict, played, RECOVERY)
    return verdict


async def _probe(stage: Stage, answers: Counter[str]) -> None:
    """One request on a connection of its own; its status is counted."""
    body = json.dumps({"scene": stage.scene, "user_id": stage.users[0], "size": 5}).encode()
    head = (
        f"POST /recommend HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    status = "none"
    with contextlib.suppress(OSError, TimeoutError, IndexError):
        async with asyncio.timeout(PROBE_SECONDS):
            reader, writer = await asyncio.open_connection(*stage.server.address)
            try:
                writer.write(head.encode() + body)
                status = (await reader.readline()).split()[1].decode()
            finally:
                writer.close()
    answers[status] += 1


SCENARIO = Scenario(
    "worker_stopped",
    "SIGSTOP of one of two workers, until its supervisor replaces it",
    "every new connection is served by the other one, the stopped worker is replaced, recovery under 5 s",
    (50.0, 50.0),
    run,
)
