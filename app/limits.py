"""The two controls under admission: a concurrency limit that follows the queue wait, and CoDel."""

from __future__ import annotations

import math
from collections.abc import Callable

_SMOOTH = 0.5
_ENOUGH, _NEWER = 5, 0.3
_USED = 0.8


class AdaptiveLimit:
    """A limit between `floor` and `ceiling` that follows a gradient (after Netflix' concurrency-limits, Gradient2).

    At the end of each window: limit <- limit * clamp(target / wait, 0.5, 1) + sqrt(limit). The square root is the queue
    that is allowed to stand; it also lets the limit grow again, which it does only while it is used. Growth is
    smoothed, a fall is not: the first windows of an overload are those in which answers come late. Where it isn't
    used it goes back to `rest`, at which it also begins (None: the ceiling).
    """

    __slots__ = ("ceiling", "floor", "rest", "value")

    def __init__(self, floor: int, ceiling: int, rest: int | None = None) -> None:
        self.floor = floor
        self.ceiling = max(ceiling, floor)
        self.rest = self.ceiling if rest is None else min(max(rest, floor), self.ceiling)
        self.value = float(self.rest)

    def follow(self, wait: float, target: float) -> None:
        """Take one step by the window's mean wait (seconds)."""
        gradient = min(max(target / wait, 0.5), 1.0) if wait > 0 else 1.0
        wanted = self.value * gradient + math.sqrt(self.value)
        value = min(wanted, self.value + _SMOOTH * (wanted - self.value))
        self.value = min(max(value, self.floor), self.ceiling)

    def settle(self) -> None:
        """Take one step towards `rest`."""
        step = _SMOOTH * math.sqrt(self.value)
        self.value = max(self.value - step, self.rest) if self.value > self.rest else min(self.value + step, self.rest)

    def used(self, peak: int) -> bool:
        """Whether a window with `peak` requests in flight came near the limit."""
        return peak >= _USED * self.value


class WorkAhead:
    """How many requests may stand before the processor so that the last one is through within `horizon` seconds.

    A gradient learns from waits that have come about: of a sudden overload it lets in as many as the limit was, and
    at five milliseconds each the last of 64 is answered after a third of a second. What a request costs is known
    beforehand: of the processor's seconds, which `cpu` counts, those while requests were in flight. What a process
    does at its start, or alone at night, is no request's cost.
    """

    __slots__ = ("_answered", "_began", "_cost", "_cpu", "_horizon", "_in_flight", "_seconds")

    def __init__(self, cpu: Callable[[], float], horizon: float) -> None:
        self._cpu = cpu
        self._horizon = horizon
        self._cost = 0.0
        self._in_flight = self._answered = 0
        self._began = self._seconds = 0.0

    @property
    def most(self) -> float:
        """So many requests; as many as you like before anything is known."""
        return self._horizon / self._cost if self._cost else math.inf

    def entered(self) -> None:
        """A request was let in."""
        if not self._in_flight:
            self._began = self._cpu()
        self._in_flight += 1

    def left(self) -> None:
        """A request that was let in is through."""
        self._in_flight -= 1
        self._answered += 1
        if not self._in_flight:
            self._seconds += self._cpu() - self._began

    def look(self) -> None:
        """Learn what a request costs, once some were answered."""
        if self._answered < _ENOUGH:
            return
        if self._in_flight:
            now = self._cpu()
            self._seconds += now - self._began
            self._began = now
        cost = self._seconds / self._answered
        self._cost = cost if not self._cost else self._cost + _NEWER * (cost - self._cost)
        self._seconds, self._answered = 0.0, 0


class CoDel:
    """Controlled delay (Nichols and Jacobson, RFC 8289), applied where requests enter in place of where they leave.

    When the wait has stood above `target` for `interval`, one request is due to be refused, the next after
    interval / sqrt(2), and so on until the wait falls below the target.
    """

    __slots__ = ("_above", "_count", "_dropping", "_next", "interval", "target")

    def __init__(self, target: float, interval: float = 0.1) -> None:
        self.target = target
        self.interval = interval
        self._above = math.inf
        self._dropping = False
        self._next = 0.0
        self._count = 0

    def due(self, now: float, wait: float) -> bool:
        """Whether a request should be refused now; `refused` must be called when one is."""
        if wait < self.target:
            self._above, self._dropping = math.inf, False
            return False
        if self._above == math.inf:
            self._above = now
        if self._dropping:
            return now >= self._next
        return now - self._above >= self.interval

    def refused(self, now: float) -> None:
        """A request was refused because it was due."""
        if self._dropping:
            self._count += 1
        else:
            # What was learnt a moment ago still holds (RFC 8289, section 5.4).
            recent = now - self._next < 16 * self.interval
            self._count = self._count - 2 if recent and self._count > 2 else 1
            self._dropping = True
        self._next = now + self.interval / math.sqrt(self._count)
