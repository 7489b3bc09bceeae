"""Load for a long while: nothing may grow."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass

from app.faults import control
from app.faults.judge import window
from app.faults.procfs import Held, held
from app.faults.requirements import flat, in_time, no_empty_list, no_error
from app.faults.scenario import Kit, Scenario, Verdict
from app.faults.stage import RATE, Stage, staged
from app.load.plan import Phase

SETTLE, EVERY = 10.0, 1.0
TASKS = 8
LAG = "recserve_loop_lag_seconds"
WORKER_TASKS = "recserve_worker_tasks"


@dataclass(frozen=True, slots=True)
class Look:
    """The workers at one moment; `lag` is the worst lateness of a loop of late, in seconds."""

    held: list[Held]
    tasks: float
    lag: float


async def run(kit: Kit) -> Verdict:
    """As many workers as there are cores for; an idle process beside them on the same cores."""
    async with staged(kit) as stage:
        return await _played(stage)


async def _played(stage: Stage) -> Verdict:
    kit, verdict = stage.kit, Verdict()
    seconds = kit.seconds(600.0, 60.0)
    gaps: list[float] = []
    looks: list[Look] = []
    async with _idle(kit, gaps), stage.load(Phase("all", RATE, SETTLE + seconds)) as load:
        kit.say(f"{seconds:.0f} s")
        began = await load.until(SETTLE)
        workers = stage.server.workers
        for at in range(int(seconds / EVERY)):
            looks.append(await _look(stage, workers))
            await load.until(SETTLE + (at + 1) * EVERY)
        verdict.must(workers == stage.server.workers, "no worker was replaced meanwhile")
        result = await load.result()
    steady = verdict.window("steady", window(result, began, result.started + result.seconds))
    verdict.note("budget_ms", stage.budget * 1000)
    verdict.note("worst_loop_gap_ms", max(look.lag for look in looks) * 1000)
    verdict.note("idle_process_gap_ms", max(gaps, default=float("nan")) * 1000)
    # Each end's least: what stays, and not what was there for a moment.
    part = max(1, len(looks) // 6)
    early, late = looks[:part], looks[-part:]
    flat(verdict, _least(early), _least(late))
    more = min(look.tasks for look in late) - min(look.tasks for look in early)
    verdict.note("tasks_more", more)
    verdict.must(more <= TASKS, f"tasks are flat: {more:.0f} more, at most {TASKS}")
    no_error(verdict, result)
    no_empty_list(verdict, result)
    in_time(verdict, "steady", steady, stage.budget)
    return verdict


async def _look(stage: Stage, workers: list[int]) -> Look:
    counts = await stage.server.peaks()
    return Look([held(pid) for pid in workers], counts.get(WORKER_TASKS, 0.0), counts.get(LAG, 0.0))


def _least(looks: list[Look]) -> list[Held]:
    """Each worker's least of each."""
    return [
        Held(*(min(getattr(one, name) for one in worker) for name in Held.__slots__))
        for worker in zip(*(look.held for look in looks), strict=True)
    ]


@contextlib.asynccontextmanager
async def _idle(kit: Kit, gaps: list[float]) -> AsyncIterator[None]:
    """An idle process on the service's cores; its worst gap in seconds is appended on leaving."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", control.__name__, stdin=pipe, stdout=pipe)
    try:
        os.sched_setaffinity(process.pid, kit.cores)
        yield
        said, _ = await process.communicate(b"")
        gaps.append(float(said))
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


SCENARIO = Scenario(
    "soak",
    "load for 10 minutes (1 minute)",
    "no growth of memory, descriptors, threads or tasks; no error; the worst loop gap beside an idle process's",
    (625.0, 85.0),
    run,
)
