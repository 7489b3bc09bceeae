"""Twelve times as many prefetch requests as usual beside people's own."""

from __future__ import annotations

from app.faults.capacity import measured
from app.faults.judge import recovery, window
from app.faults.scenario import Kit, Scenario, Verdict
from app.faults.stage import Stage, staged
from app.load.plan import Phase

SPIKE = 12.0
SHARE = 0.2
"""Of the capacity: as much each of interactive and of prefetch requests, so that the spike alone is far above it."""
AVAILABLE = 0.99
CONNECTIONS = 1024


async def run(kit: Kit) -> Verdict:
    """One worker; interactive requests go on at their rate."""
    async with staged(kit) as stage:
        return await _played(stage)


async def _played(stage: Stage) -> Verdict:
    kit, verdict = stage.kit, Verdict()
    capacity = await measured(stage)
    steady, spike, after = 6.0, kit.seconds(20.0, 8.0), 8.0
    usual = SHARE * capacity.rate
    classes = (stage.asking("interactive"), stage.asking("prefetch", priority="prefetch"))
    phases = (
        Phase("steady", 2 * usual, steady),
        Phase("spike", (1 + SPIKE) * usual, spike, {"prefetch": SPIKE}),
        Phase("after", 2 * usual, after),
    )
    async with stage.load(*phases, classes=classes, connections=CONNECTIONS) as load:
        kit.say(f"capacity {capacity.rate:.0f}/s; {usual:.0f}/s of both kinds")
        began = await load.until(steady)
        kit.say(f"{SPIKE * usual:.0f}/s of prefetch")
        healed = await load.until(steady + spike)
        kit.say("calm again")
        result = await load.result()
    end = result.started + result.seconds
    verdict.steady(window(result, result.started, began, "interactive"), stage.budget)
    moments = {"fault": (began, healed), "after": (healed + 2.0, end)}
    for name, (start, stop) in moments.items():
        verdict.window(name, window(result, start, stop, "interactive"))
    people, machines = (window(result, began, healed, one.name) for one in classes)
    verdict.window("prefetch", machines)
    verdict.note("recovery_s", recovery(result, healed, stage.budget))
    verdict.note("budget_ms", stage.budget * 1000)
    verdict.note("capacity", capacity.rate)
    verdict.note("offered", (1 + SPIKE) * usual)
    verdict.note("interactive_levels", {str(level): count for level, count in people.levels.items()})
    share = people.availability
    verdict.must(share >= AVAILABLE, f"{share:.2%} of the interactive requests are served, at least {AVAILABLE:.0%}")
    in_budget = people.good / people.sent if people.sent else 0.0
    verdict.note("interactive_in_budget", in_budget)
    wrong = sum(part.sent - part.served - part.shed for part in (people, machines))
    verdict.must(wrong == 0, f"what isn't served is refused: {wrong} were neither")
    return verdict


SCENARIO = Scenario(
    "prefetch_spike",
    "twelve times the usual prefetch requests for 20 s (8 s)",
    "at least 99% of the interactive requests are served",
    (100.0, 60.0),
    run,
)
