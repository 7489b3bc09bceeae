"""The usual course of a scenario: steady load, a fault, and the time after it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from app.faults.judge import recovery, window
from app.faults.scenario import Verdict
from app.faults.stage import RATE, Stage
from app.load.plan import Phase
from app.load.result import Result
from app.load.summary import Summary

BUGS = "recserve_internal_errors_total"
STEADY_SECONDS, AFTER_SECONDS = 8.0, 8.0


@dataclass(frozen=True, slots=True)
class Played:
    """A run and its moments on the monotonic clock. `recovery` in seconds, None when it didn't come."""

    result: Result
    began: float
    healed: float
    end: float
    recovery: float | None
    steady: Summary
    fault: Summary
    after: Summary


async def play(
    stage: Stage,
    verdict: Verdict,
    fault: Callable[[], Awaitable[float | None]],
    seconds: float,
    *,
    rate: float = RATE,
    steady: float = STEADY_SECONDS,
    after: float = AFTER_SECONDS,
    bugs: bool = False,
) -> Played:
    """Load at one rate throughout, `fault` after `steady` seconds; windows and recovery go into the verdict.

    `fault` takes at most `seconds` and returns when it is healed, or the moment at which it was.
    `bugs`: what is broken counts as a bug of the service's own. Raises Discarded.
    """
    loop = asyncio.get_running_loop()
    async with stage.load(Phase("all", rate, steady + seconds + after)) as load:
        stage.kit.say("steady")
        began = await load.until(steady)
        healed = await fault() or loop.time()
        stage.kit.say("healed")
        result = await load.result()
    found = (await stage.server.metrics()).get(BUGS, 0.0)
    verdict.note("internal_errors", found)
    verdict.must(bugs or not found, f"no step fails by a bug (a traceback in the log): {found:.0f} did")
    end = result.started + result.seconds
    took = recovery(result, healed, stage.budget)
    verdict.note("recovery_s", took)
    verdict.note("budget_ms", stage.budget * 1000)
    return Played(
        result,
        began,
        healed,
        end,
        took,
        steady=verdict.steady(window(result, result.started, began), stage.budget),
        fault=verdict.window("fault", window(result, began, max(healed, began + 1.0))),
        after=verdict.window("after", window(result, min(healed + (took or 0.0), end - 1.0), end)),
    )
