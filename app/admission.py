"""Who is let in: an adaptive limit on requests in flight, CoDel on their wait, and what is shed first.

Queueing inside a process only adds latency to every later request (16 queued requests: p99 298 ms).
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Mapping

from app.limits import AdaptiveLimit, CoDel, WorkAhead
from app.problems import Problem, unavailable
from stages.scene import Priority

# Of the limit, how much may be taken when a request of this class enters; what lies above is kept for the others.
SHARES: Mapping[Priority, float] = {"interactive": 1.0, "prefetch": 0.6, "batch": 0.3}
_FLOORS: Mapping[Priority, int] = {"interactive": 4, "prefetch": 2, "batch": 1}
# Where the limits of the lower classes begin: a flood of them must not make everybody wait until they have learnt.
# That of interactive requests begins at the top, so that a store that turns slow sheds none.
_RESTS: Mapping[Priority, int] = {"prefetch": 8, "batch": 4}
_UPWARDS: tuple[Priority, ...] = ("batch", "prefetch", "interactive")
# Refused while its body was on its way, and so its class unknown.
UNREAD = "unread"
WINDOW = 0.1
# Seconds for which a class that was let in is held to be what makes others wait.
_LATELY = 1.0


class Admission:
    """At most `limit` requests in flight, fewer when work waits longer than `target`. Belongs to one event loop.

    limit      the most in flight, and where the adaptive limit begins
    target     seconds of queue wait that it aims below
    clock      seconds, monotonic
    wait       the queue wait now in seconds (LoopLag.wait); without one the limit stands still
    abandoned  how much work outlived its request and still runs: it takes places too
    ahead      how many may stand before the processor (the last one is to be answered in time as well)

    Each class has a limit of its own on all that is in flight, whoever it belongs to. When work waits too long, the
    limit that yields is that of the lowest class that was let in lately: prefetching is pushed back until it makes
    nobody wait before an interactive request is refused.
    """

    def __init__(
        self,
        limit: int = 64,
        retry_after: int = 1,
        *,
        target: float = 0.01,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[], float] = lambda: 0.0,
        abandoned: Callable[[], int] = lambda: 0,
        ahead: WorkAhead | None = None,
    ) -> None:
        if limit < 1:
            raise ValueError("the limit must be at least 1")
        self.most = limit
        self.retry_after = retry_after
        self.shed: dict[str, int] = {**dict.fromkeys(SHARES, 0), UNREAD: 0}
        self._entered = 0
        self._target = target
        self._clock = clock
        self._wait = wait
        self._abandoned = abandoned
        self._ahead = ahead
        self._limits = {
            name: AdaptiveLimit(min(_FLOORS[name], limit), max(int(limit * share), 1), _RESTS.get(name))
            for name, share in SHARES.items()
        }
        self._codel = CoDel(target)
        self._entered_at = dict.fromkeys(SHARES, -math.inf)
        self._window_ends = clock() + WINDOW
        self._waits = self._asked = self._peak = 0.0
        self._refused: set[Priority] = set()

    @property
    def in_flight(self) -> int:
        """Requests that hold a place, and work that outlived its request."""
        return self._entered + self._abandoned()

    @property
    def limit(self) -> int:
        """The limit now."""
        return self.limit_of("interactive")

    @property
    def full(self) -> bool:
        """Whether not even an interactive request can be let in."""
        return self.in_flight >= self.limit

    def turns_away(self, priority: Priority, coming: int = 0) -> bool:
        """Whether a request would find no place, when `coming` others will take theirs first. Nothing is counted."""
        return self.in_flight + coming >= self.limit_of(priority)

    def turned_away(self, priority: Priority | None) -> None:
        """Count a request that was refused before it asked; None: nobody knows its class."""
        if priority is not None:
            self._refused.add(priority)
        self.shed[priority or UNREAD] += 1

    def limit_of(self, priority: Priority) -> int:
        """How many may be in flight, of all classes, for a request of this one to be let in."""
        interactive = self._limits["interactive"]
        most = interactive.value if self._ahead is None else min(interactive.value, self._ahead.most)
        share = SHARES[priority] * max(most, interactive.floor)
        return max(int(min(self._limits[priority].value, share)), 1)

    def try_enter(self, priority: Priority = "interactive") -> bool:
        """Take a place; False, and counted as shed, when there is none."""
        now, wait, in_flight = self._clock(), self._wait(), self.in_flight
        self._waits += wait
        self._asked += 1
        if now >= self._window_ends:
            self._adjust(now)
        if in_flight >= self.limit_of(priority):
            self.turned_away(priority)
            return False
        if self._codel.due(now, wait) and self._may_drop(priority, in_flight, now):
            self._codel.refused(now)
            self.turned_away(priority)
            return False
        self._entered += 1
        if self._ahead is not None:
            self._ahead.entered()
        self._entered_at[priority] = now
        self._peak = max(self._peak, in_flight + 1)
        return True

    def leave(self) -> None:
        """Give the place back. Exactly once after each successful `try_enter`."""
        self._entered -= 1
        if self._ahead is not None:
            self._ahead.left()

    @contextlib.contextmanager
    def place(self, priority: Priority) -> Iterator[None]:
        """Hold a place for the block. Raises Problem (503) when there is none."""
        if not self.try_enter(priority):
            raise self.refusal(priority)
        try:
            yield
        finally:
            self.leave()

    def refusal(self, priority: Priority = "interactive") -> Problem:
        """The 503 for a request that found no place."""
        detail = f"{priority} requests are refused: {self.in_flight} are in flight, {self.limit_of(priority)} may be"
        return unavailable("overloaded", detail, retry_after=self.retry_after, priority=priority)

    def _may_drop(self, priority: Priority, in_flight: int, now: float) -> bool:
        if in_flight < self._limits["interactive"].floor:
            return False  # a queue this short must not run dry
        return not any(self._lately(name, now) for name in _UPWARDS[: _UPWARDS.index(priority)])

    def _lately(self, priority: Priority, now: float) -> bool:
        return now - self._entered_at[priority] < _LATELY

    def _adjust(self, now: float) -> None:
        """A window has ended: the limits follow its mean wait, and what its requests cost."""
        if self._ahead is not None:
            self._ahead.look()
        wait, peak = self._waits / self._asked, int(self._peak)
        if wait > self._target:
            for name in _UPWARDS:
                limit = self._limits[name]
                if self._lately(name, now) and limit.value > limit.floor:
                    limit.value = min(limit.value, max(self.limit_of(name), limit.floor))
                    limit.follow(wait, self._target)
                    break
        else:
            for name, limit in self._limits.items():
                if name in self._refused or limit.used(peak):
                    limit.follow(wait, self._target)
                elif wait < self._target / 2:
                    limit.settle()
        self._window_ends = now + WINDOW
        self._waits = self._asked = 0.0
        self._peak = self.in_flight
        self._refused.clear()
