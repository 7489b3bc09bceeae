"""Peers that go away with a reset, in every state that a connection can be in."""

from __future__ import annotations

import asyncio
import json
import sys

from app.faults import resetter
from app.faults.procfs import held
from app.faults.requirements import flat, no_empty_list, no_error
from app.faults.scenario import Kit, Scenario, Verdict
from app.faults.stage import Stage, staged
from app.faults.timeline import play

SETTLE = 3.0
WARM = 1_000
TASKS = 8


async def run(kit: Kit) -> Verdict:
    """One worker, with load beside the resets."""
    async with staged(kit) as stage:
        return await _played(stage)


async def _played(stage: Stage) -> Verdict:
    kit, verdict, workers = stage.kit, Verdict(), stage.server.workers
    count = int(kit.seconds(100_000, 5_000))
    # The first ones fill free lists and buffers that are kept; what leaks goes on after them.
    await asyncio.gather(_reset(stage, WARM), stage.warm())
    await asyncio.sleep(SETTLE)
    before, tasks = [held(pid) for pid in workers], await _tasks(stage)
    made = 0

    async def fault() -> None:
        nonlocal made
        kit.say(f"{count} connections that are reset")
        made = await _reset(stage, count)
        await asyncio.sleep(SETTLE)

    played = await play(stage, verdict, fault, SETTLE + count / 1_000, after=4.0)
    await asyncio.sleep(SETTLE)
    verdict.note("resets", made)
    verdict.must(made >= count, f"{made} of {count} connections were made and reset")
    flat(verdict, before, [held(pid) for pid in workers])
    more = await _tasks(stage) - tasks
    verdict.note("tasks_more", more)
    verdict.must(more <= TASKS, f"tasks are flat: {more:.0f} more, at most {TASKS}")
    verdict.must(set(workers) == set(stage.server.workers), "no worker was replaced meanwhile")
    no_error(verdict, played.result)
    no_empty_list(verdict, played.result)
    return verdict


async def _tasks(stage: Stage) -> float:
    return (await stage.server.metrics()).get("recserve_worker_tasks", 0.0)


async def _reset(stage: Stage, count: int) -> int:
    host, port = stage.server.address
    body = json.dumps({"scene": stage.scene, "user_id": stage.users[0], "size": 5})
    words = [sys.executable, "-m", resetter.__name__, host, str(port), str(count), body]
    process = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
    try:
        said, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return int(said or 0)


SCENARIO = Scenario(
    "resets",
    "100,000 (5,000) connections reset by peers: idle, in a head, in a body, waiting for an answer, reading it",
    "descriptors, memory, threads and tasks flat, no error for anybody else",
    (150.0, 40.0),
    run,
)
