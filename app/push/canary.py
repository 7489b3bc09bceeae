"""The judge of a push: do the workers that try it fail more often than the others, beyond chance?

Counts are compared by Fisher's exact test (R. A. Fisher, Statistical Methods for Research Workers, 1934, section
21.02), not by a normal approximation: at 50 answers of which one in a hundred fails, three deviations are
crossed by chance once in seventy pushes.
"""

from __future__ import annotations

import math
import operator
from typing import NamedTuple

LEAST = 50  # answers on either side
RISE = 0.02  # a rise below two in a hundred answers stops no push
CHANCE = 0.00135  # of three standard deviations, one-sided
EARLY = CHANCE / 10  # for looks before the end, so that looking often doesn't find by chance


class Counts(NamedTuple):
    """Answers of one worker or several: all, the errors, those that named a degraded step, those without any item."""

    requests: int = 0
    errors: int = 0
    degraded: int = 0
    empty: int = 0

    def plus(self, other: Counts) -> Counts:
        """Both together."""
        return Counts(*map(operator.add, self, other))

    def since(self, before: Counts) -> Counts:
        """What came after `before`; all of it when counting has started again since."""
        came = Counts(*map(operator.sub, self, before))
        return self if min(came) < 0 else came


def enough(trying: Counts, others: Counts) -> bool:
    """Whether there are answers enough on both sides to tell anything."""
    return min(trying.requests, others.requests) >= LEAST


def worse(trying: Counts, others: Counts, *, last: bool = True) -> str | None:
    """Which rate has risen, as a sentence; None when none has, or there are too few answers to tell.

    `last` is False for a look before the end of the trial, which needs stronger evidence.
    """
    if not enough(trying, others):
        return None
    level = CHANCE if last else EARLY
    for what, bad, bad_of_others in (
        ("failed", trying.errors, others.errors),
        ("were degraded", trying.degraded, others.degraded),
        ("were empty", trying.empty, others.empty),
    ):
        # A request counts when it begins and its failure when it ends: one of before may end in this time.
        bad, bad_of_others = min(bad, trying.requests), min(bad_of_others, others.requests)
        here, there = bad / trying.requests, bad_of_others / others.requests
        if here - there > RISE and chance(bad, trying.requests, bad_of_others, others.requests) < level:
            return (
                f"{here:.1%} of {trying.requests:,} answers {what} with it, "
                f"{there:.1%} of {others.requests:,} without it."
            )
    return None


def chance(bad: int, all_: int, bad_of_others: int, all_of_others: int) -> float:
    """Probability of at least `bad` bad ones among `all_` answers when both sides are alike (hypergeometric tail)."""
    total, marked = all_ + all_of_others, bad + bad_of_others
    most = min(all_, marked)
    if bad <= max(0, marked - all_of_others):
        return 1.0
    log = _choose(marked, bad) + _choose(total - marked, all_ - bad) - _choose(total, all_)
    term = math.exp(log)
    tail = 0.0
    for k in range(bad, most + 1):
        tail += term
        term *= (marked - k) * (all_ - k) / ((k + 1) * (total - marked - all_ + k + 1))
        if term < tail * 1e-12:
            break
    return min(tail, 1.0)


def _choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
