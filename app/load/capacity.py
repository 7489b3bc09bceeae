"""How much a service can take, and what it does with more than that.

The capacity is searched for in steps of an open loop: doubling rates until one doesn't hold, then halving the gap.
A closed loop would be quicker, and blind: its clients wait while the server stalls.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from app.load.plan import MAX_REQUESTS, Phase, Plan
from app.load.result import Result
from app.load.summary import Summary

Offer = Callable[[Plan], Result]
"""Runs a plan: `run_elsewhere`, or a stand-in."""

Say = Callable[[str], None]

_REST, _SETTLE, _STEP = "rest", "settle", "step"


@dataclass(frozen=True)
class Criterion:
    """When a rate counts as sustained, as shares of the requests sent and of the served.

    At least `good` of them are answered within the budget, and at least `full` of the answers have full quality:
    a service that lets its lists get worse as load rises could otherwise take almost anything.
    """

    good: float = 0.99
    full: float = 0.9

    def holds(self, summary: Summary) -> bool:
        """Whether the service sustained what it was sent."""
        return summary.good >= self.good * summary.sent and summary.full_share >= self.full


@dataclass(frozen=True)
class Search:
    """How capacity is looked for: from `start` requests/s, doubling to `most` at the highest, then `halvings` times.

    Each step takes `rest` + `settle` + `seconds` seconds, of which only the last count: what an earlier step left
    behind is over by then, and limits that adapt have adapted.
    """

    start: float = 25.0
    most: float = 5_000.0
    halvings: int = 3
    seconds: float = 4.0
    settle: float = 1.0
    rest: float = 3.0

    @property
    def longest(self) -> float:
        """Seconds that a search takes at most, without the timeouts of last answers."""
        doublings = max(math.ceil(math.log2(max(self.most / self.start, 1.0))), 0) + 1
        return (doublings + self.halvings) * (self.rest + self.settle + self.seconds)


@dataclass(frozen=True)
class Step:
    """One rate that was tried: requests/s, whether it held, and what was seen."""

    rate: float
    holds: bool
    summary: Summary


@dataclass(frozen=True)
class Capacity:
    """The highest rate that held, requests/s; 0 when not even the first did. `why` says what ended the search."""

    rate: float
    why: str
    steps: tuple[Step, ...]

    def as_json(self) -> dict[str, Any]:
        """Without the steps' details."""
        steps = [
            {"rate": round(step.rate, 3), "holds": step.holds, "goodput": round(step.summary.goodput, 3)}
            for step in self.steps
        ]
        return {"rate": round(self.rate, 3), "why": self.why, "steps": steps}


def _silent(text: str) -> None:
    """Say nothing."""


def find_capacity(
    plan: Plan, offer: Offer, *, search: Search | None = None, criterion: Criterion | None = None, say: Say = _silent
) -> Capacity:
    """Search with the plan's classes; its phases are not used.

    A step in which the generator was late is repeated once, and ends the search when it is late again.
    """
    search, criterion = search or Search(), criterion or Criterion()
    steps: list[Step] = []
    low, high, rate = 0.0, math.inf, search.start
    why = f"{rate:g}/s, where the search starts, did not hold"
    halvings = 0
    while rate <= search.most and (math.isinf(high) or halvings < search.halvings):
        step = replace(plan, phases=_phases(search, rate), seed=plan.seed + len(steps))
        summary = offer(step).phase(_STEP)
        if summary.late:
            say(f"{rate:6.0f}/s once more, the generator was {summary.late_p99 * 1e3:.1f} ms late (p99)")
            summary = offer(step).phase(_STEP)
        if summary.late:
            return Capacity(low, f"the generator was late at {rate:.0f}/s", (*steps, Step(rate, False, summary)))
        holds = criterion.holds(summary)
        steps.append(Step(rate, holds, summary))
        say(f"{rate:6.0f}/s {'holds' if holds else 'does not hold'}: {one_line(summary)}")
        if not holds and not low:
            break
        halvings += not math.isinf(high)
        if holds:
            low, why = rate, f"{search.most:g}/s, the most that was to be tried, held"
        else:
            high = rate
        if not math.isinf(high):
            why = f"{high:.0f}/s did not hold"
        rate = low * 2.0 if math.isinf(high) else math.sqrt(low * high)
    return Capacity(low, why, tuple(steps))


def _phases(search: Search, rate: float) -> tuple[Phase, ...]:
    return (
        Phase(_REST, 0.0, search.rest),
        Phase(_SETTLE, rate, search.settle),
        Phase(_STEP, rate, search.seconds),
    )


@dataclass(frozen=True)
class Overload:
    """Runs at multiples of the capacity, in requests/s; `runs` maps each multiple to what was seen there."""

    capacity: float
    runs: Mapping[float, Summary]

    @property
    def peak(self) -> float:
        """The best goodput of all runs, answers/s."""
        return max((summary.goodput for summary in self.runs.values()), default=0.0)

    @property
    def kept(self) -> float:
        """Goodput at the largest multiple as a share of the peak."""
        return self.runs[max(self.runs)].goodput / self.peak if self.peak else 0.0

    @property
    def late(self) -> bool:
        """Whether the generator was late in any of them."""
        return any(summary.late for summary in self.runs.values())

    def as_json(self) -> dict[str, Any]:
        """Each run with its multiple and rate, the peak, and how much of it the largest multiple keeps."""
        runs = [
            {"times": times, "offered": round(times * self.capacity, 3), **summary.as_json()}
            for times, summary in self.runs.items()
        ]
        return {
            "capacity": round(self.capacity, 3),
            "peak": round(self.peak, 3),
            "kept": round(self.kept, 6),
            "runs": runs,
        }


def overload(
    plan: Plan,
    offer: Offer,
    capacity: float,
    multiples: Sequence[float],
    *,
    seconds: float,
    rest: float = 5.0,
    say: Say = _silent,
) -> Overload:
    """Run at each multiple of `capacity` for `seconds`, after `rest` seconds of nothing. Raises ValueError."""
    if not multiples or min(multiples) <= 0 or capacity <= 0 or max(multiples) * capacity * seconds > MAX_REQUESTS:
        raise ValueError(f"can't offer {list(multiples)} times {capacity:g} requests/s for {seconds:g} s")
    runs: dict[float, Summary] = {}
    for at, times in enumerate(multiples):
        phases = (Phase(_REST, 0.0, rest), Phase(_STEP, times * capacity, seconds))
        runs[times] = offer(replace(plan, phases=phases, seed=plan.seed + 100 + at)).phase(_STEP)
        say(f"{times:g} x capacity, {times * capacity:.0f}/s: {one_line(runs[times])}")
    return Overload(capacity, runs)


def one_line(summary: Summary) -> str:
    """The figures of a run that fit on a line."""
    latency = summary.latency
    text = (
        f"{summary.goodput:.0f}/s good, {summary.availability:.1%} served, {summary.full_share:.1%} of them full, "
        f"p50 {latency.p50 * 1e3:.1f} p99 {latency.p99 * 1e3:.1f} p99.9 {latency.p999 * 1e3:.1f} ms"
    )
    return f"{text} (the generator was late)" if summary.late else text
