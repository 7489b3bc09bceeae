"""One server behind an admission, in simulated time: Poisson arrivals, exponential service, one queue."""

from __future__ import annotations

import heapq
import itertools
import random
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from app.admission import Admission
from app.lag import LoopLag
from stages.scene import Priority

Loads = Mapping[Priority, float]


@dataclass
class Simulated:
    """Offered and admitted requests by class, and the waits (seconds) of those that were served, by class."""

    admission: Admission
    offered: Counter[Priority] = field(default_factory=Counter)
    admitted: Counter[Priority] = field(default_factory=Counter)
    waits: list[tuple[float, float]] = field(default_factory=list)
    busy: float = 0.0
    seconds: float = 0.0

    @property
    def utilisation(self) -> float:
        """Share of the time for which the server worked."""
        return self.busy / self.seconds

    def admitted_share(self, priority: Priority) -> float:
        """Of what was offered."""
        return self.admitted[priority] / self.offered[priority]

    def waited(self, share: float, after: float = 1.0) -> float:
        """A quantile of the waits that began after so many seconds."""
        waits = sorted(wait for at, wait in self.waits if at > after)
        return waits[int(len(waits) * share)]


class Queue:
    """The server. `cost(wait)` is told a request's wait when it starts and gives its service time in seconds.

    `away`: seconds that a served request goes on holding its place without the server (it waits for a store).
    """

    def __init__(
        self,
        *,
        limit: int = 64,
        target: float = 0.01,
        service: float = 0.003,
        away: float = 0.0,
        seed: int = 0,
        cost: Callable[[float], float] | None = None,
        done: Callable[[float], None] = lambda _: None,
    ) -> None:
        self.now = 0.0
        self.lag = LoopLag(lambda: self.now)
        self.admission = Admission(limit, target=target, clock=lambda: self.now, wait=lambda: self.lag.wait)
        self._service = service
        self._away = away
        self._random = random.Random(seed)
        self._cost = cost or (lambda _: self._random.expovariate(1 / service))
        self._done = done
        self._events: list[tuple[float, int, str, Priority]] = []
        self._numbers = itertools.count()
        self._waiting: deque[tuple[Priority, float]] = deque()
        self._serving: float | None = None
        self.result = Simulated(self.admission)

    def run(self, loads: Callable[[float], Loads] | Loads, seconds: float) -> Simulated:
        """Offer `loads` (of the server's capacity at full cost, by class; may depend on the time) for so long."""
        at = loads if callable(loads) else lambda _: loads
        end = self.now + seconds
        for priority in at(self.now):
            self._arrival(at, priority)
        while self._events and self._events[0][0] <= end:
            self.now, _, kind, priority = heapq.heappop(self._events)
            if kind == "arrives":
                self._arrival(at, priority)
                self._arrives(priority)
            elif kind == "served":
                self._served(priority)
            else:
                self.admission.leave()
        self.result.seconds += seconds
        return self.result

    def _arrival(self, loads: Callable[[float], Loads], priority: Priority) -> None:
        gap = self._random.expovariate(max(loads(self.now)[priority], 1e-9) / self._service)
        self._push(gap, "arrives", priority)

    def _push(self, after: float, kind: str, priority: Priority) -> None:
        heapq.heappush(self._events, (self.now + after, next(self._numbers), kind, priority))

    def _arrives(self, priority: Priority) -> None:
        self.result.offered[priority] += 1
        if self.admission.full or not self.admission.try_enter(priority):
            return
        self.result.admitted[priority] += 1
        self._waiting.append((priority, self.now))
        if self._serving is None:
            self._start()

    def _start(self) -> None:
        priority, self._serving = self._waiting.popleft()
        wait = self.now - self._serving
        self.lag.saw(wait)
        self.result.waits.append((self.now, wait))
        cost = self._cost(wait)
        self.result.busy += cost
        self._push(cost, "served", priority)

    def _served(self, priority: Priority) -> None:
        assert self._serving is not None
        self._done(self.now - self._serving)
        self._serving = None
        if self._away:
            self._push(self._away, "leaves", priority)
        else:
            self.admission.leave()
        if self._waiting:
            self._start()
