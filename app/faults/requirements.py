"""Requirements that several scenarios share, in words with their figures."""

from __future__ import annotations

from collections.abc import Sequence

from app.faults.judge import errors
from app.faults.procfs import Held
from app.faults.scenario import Verdict
from app.faults.timeline import Played
from app.load.result import Result
from app.load.summary import Summary

OVER_BUDGET = 0.010
RECOVERY = 2.0
MEBIBYTE = 1 << 20
GROWTH_BYTES, GROWTH_SHARE = 8 * MEBIBYTE, 0.05
GROWTH_DESCRIPTORS, GROWTH_THREADS = 8, 2


def in_time(verdict: Verdict, name: str, part: Summary, budget: float, over: float = OVER_BUDGET) -> None:
    """The 99th percentile of the served within the budget and a little."""
    p99, limit = part.latency.p99 * 1000, (budget + over) * 1000
    verdict.must(part.served > 0 and p99 <= limit, f"{name}: served p99 {p99:.1f} ms within {limit:.0f} ms")


def no_error(verdict: Verdict, result: Result, *, shed: bool = False) -> None:
    """Every request is answered with a list, or (`shed`) refused."""
    every = result.summary()
    wrong = errors(every) + (0 if shed else every.shed)
    verdict.must(wrong == 0, f"no error: {dict(every.outcomes)}")


def no_empty_list(verdict: Verdict, result: Result) -> None:
    """Every list has items."""
    empty = result.summary().empty
    verdict.must(empty == 0, f"every list has items: {empty} had none")


def recovered(verdict: Verdict, played: Played, limit: float) -> None:
    """All answers are in time and of full quality soon after."""
    took = played.recovery
    said = "not seen" if took is None else f"{took:.2f} s"
    verdict.must(took is not None and took < limit, f"recovery {said}, under {limit:g} s")


def ridden_out(verdict: Verdict, played: Played, budget: float) -> None:
    """Answers in time during the fault, no error and no empty list at all, and all well within `RECOVERY` seconds."""
    in_time(verdict, "fault", played.fault, budget)
    no_error(verdict, played.result)
    no_empty_list(verdict, played.result)
    recovered(verdict, played, RECOVERY)


def flat(verdict: Verdict, before: Sequence[Held], after: Sequence[Held]) -> None:
    """Memory, descriptors and threads of the workers, added up, are what they were, but for noise."""
    sums = [Held(*(sum(getattr(one, name) for one in some) for name in Held.__slots__)) for some in (before, after)]
    was, now = sums
    for name in Held.__slots__:
        verdict.note(f"{name}_before", getattr(was, name))
        verdict.note(f"{name}_after", getattr(now, name))
    allowed = GROWTH_BYTES + GROWTH_SHARE * was.memory
    grown = now.memory - was.memory
    verdict.must(
        grown <= allowed, f"memory is flat: it grew by {grown / MEBIBYTE:.1f} MiB, at most {allowed / MEBIBYTE:.1f} MiB"
    )
    for name, most in (("descriptors", GROWTH_DESCRIPTORS), ("threads", GROWTH_THREADS)):
        more = getattr(now, name) - getattr(was, name)
        verdict.must(more <= most, f"{name} are flat: {more} more, at most {most}")
