"""Three times as many requests as the service can take at full quality."""

from __future__ import annotations

from app.faults.capacity import IN_TIME, measured
from app.faults.judge import recovery, window
from app.faults.procfs import held
from app.faults.requirements import flat, no_empty_list
from app.faults.scenario import Kit, Scenario, Verdict
from app.faults.stage import Stage, staged
from app.load.plan import Phase

TIMES = 3.0
CALM = 0.5
KEPT = 0.9
RECOVERY = 5.0
SETTLED = 2.0
CONNECTIONS = 1024


async def run(kit: Kit) -> Verdict:
    """One worker: its capacity is searched for, then it is offered three times that."""
    async with staged(kit) as stage:
        return await _played(stage)


async def _played(stage: Stage) -> Verdict:
    kit, verdict, workers = stage.kit, Verdict(), stage.server.workers
    capacity = await measured(stage)
    steady, over, after = 6.0, kit.seconds(30.0, 10.0), 10.0
    calm, many = CALM * capacity.rate, TIMES * capacity.rate
    phases = (Phase("steady", calm, steady), Phase("overload", many, over), Phase("after", calm, after))
    # All connections from the start: how many there are is the clients' doing, and what the workers hold is to be flat.
    async with stage.load(*phases, connections=CONNECTIONS, opened=CONNECTIONS) as load:
        kit.say(f"capacity {capacity.rate:.0f}/s; steady at {calm:.0f}/s")
        began = await load.until(steady)
        kit.say(f"{many:.0f}/s")
        await load.until(steady + SETTLED)
        before = [held(pid) for pid in workers]
        await load.until(steady + over - 0.5)
        during = [held(pid) for pid in workers]
        healed = await load.until(steady + over)
        kit.say("calm again")
        result = await load.result()
    took, end = recovery(result, healed, stage.budget), result.started + result.seconds
    calmed = verdict.steady(window(result, result.started, began), stage.budget)
    crowded = verdict.window("fault", window(result, began, healed))
    verdict.window("after", window(result, min(healed + (took or 0.0), end - 1.0), end))
    peak = max(capacity.peak(many), calmed.goodput)
    verdict.note("recovery_s", took)
    verdict.note("budget_ms", stage.budget * 1000)
    verdict.note("capacity", capacity.rate)
    verdict.note("offered", many)
    verdict.note("goodput_peak", peak)
    verdict.note("goodput", crowded.goodput)
    verdict.note("levels", {str(level): count for level, count in crowded.levels.items()})
    kept = crowded.goodput / peak
    verdict.must(kept >= KEPT, f"goodput {crowded.goodput:.0f}/s of {peak:.0f}/s at the peak: {kept:.1%}, at least 90%")
    p99, limit = crowded.latency.p99 * 1000, stage.budget * 1000
    verdict.must(p99 <= limit, f"served p99 {p99:.1f} ms within the budget, {limit:.0f} ms")
    wrong = crowded.sent - crowded.served - crowded.shed
    verdict.must(wrong == 0, f"what isn't served is refused: {wrong} were neither ({dict(crowded.outcomes)})")
    no_empty_list(verdict, result)
    said = "not seen" if took is None else f"{took:.2f} s"
    verdict.must(took is not None and took < RECOVERY, f"recovery {said}, under {RECOVERY:g} s")
    flat(verdict, before, during)
    await _beyond(stage, verdict, capacity.rate)
    return verdict


async def _beyond(stage: Stage, verdict: Verdict, capacity: float) -> None:
    """Three times what it takes at any quality: the peak that goodput is held against. Raises Discarded."""
    most = await measured(stage, IN_TIME, capacity)
    seconds, many = 10.0, TIMES * most.rate
    async with stage.load(Phase("beyond", many, seconds), connections=CONNECTIONS, opened=CONNECTIONS) as load:
        stage.kit.say(f"{many:.0f}/s, three times what it takes at any quality")
        result = await load.result()
    crowded = verdict.window("beyond", window(result, result.started, result.started + seconds))
    verdict.note("beyond_capacity", most.rate)
    verdict.note("beyond_goodput", crowded.goodput)
    peak = most.peak(many)
    verdict.note("beyond_peak", peak)
    kept = crowded.goodput / peak
    verdict.must(
        kept >= KEPT, f"goodput {crowded.goodput:.0f}/s of {peak:.0f}/s at any quality: {kept:.1%}, at least 90%"
    )


SCENARIO = Scenario(
    "overload_3x",
    "three times what is sustained at full quality, for 30 s (10 s)",
    "goodput at least 90% of the peak, served p99 within the budget, recovery under 5 s, memory flat",
    (220.0, 120.0),
    run,
)
