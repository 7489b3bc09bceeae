"""How long work waits before it runs: the event loop's lateness, requests' own waits, the pool's queue.

Admission and the ladder are driven by this and not by latency: a slow store makes requests long without making
anybody wait for the processor, and must shed nothing (the store has a breaker and caps of its own).
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable

BEAT = 0.01
_WEIGHT = 0.2  # of the newest sample: about 50 ms of heartbeats
_HOLD = 0.25  # seconds for which a source's last value stands; after them it fades
_FADE = 0.1


class _Source:
    __slots__ = ("at", "value")

    def __init__(self, now: float) -> None:
        self.value = 0.0
        self.at = now

    def saw(self, seconds: float, now: float) -> None:
        before = self.read(now)
        self.value = before + _WEIGHT * (seconds - before)
        self.at = now

    def read(self, now: float) -> float:
        silent = now - self.at - _HOLD
        return self.value if silent <= 0 else self.value * math.exp(-silent / _FADE)


class LoopLag:
    """The queue wait of one event loop, smoothed over about 50 ms. Belongs to that loop.

    Each source (the heartbeat's lateness, `request`, `turn`, `pool`) is smoothed for itself and the largest counts,
    so that an idle loop doesn't hide a full pool. `clock` is the loop's `time`, or one that agrees with it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._sources = {"loop": _Source(clock())}
        self._due: float | None = None
        self._worst = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin the heartbeat in the running loop: one wake-up every 10 ms, about 5 us each."""
        self._schedule(asyncio.get_running_loop())

    def stop(self) -> None:
        """End the heartbeat."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._due = None

    def beat(self) -> None:
        """The heartbeat: note how late it is."""
        late = self._late(self._clock())
        self._worst = max(self._worst, late)
        self.saw(late, "loop")
        self._due = self._clock() + BEAT

    def saw(self, seconds: float, source: str = "request") -> None:
        """Note how long something waited before it ran. `source` comes from a closed set: `request`, `turn`, `pool`."""
        now = self._clock()
        known = self._sources.get(source)
        if known is None:
            known = self._sources[source] = _Source(now)
        known.saw(max(seconds, 0.0), now)

    @property
    def wait(self) -> float:
        """Seconds that work waits now. A heartbeat that is overdue counts before it comes."""
        now = self._clock()
        return max(self._late(now), *(source.read(now) for source in self._sources.values()))

    def worst(self) -> float:
        """The latest heartbeat in seconds since this was last asked."""
        worst, self._worst = max(self._worst, self._late(self._clock())), 0.0
        return worst

    def _late(self, now: float) -> float:
        return 0.0 if self._due is None else max(now - self._due, 0.0)

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        def tick() -> None:
            self.beat()
            self._timer = loop.call_later(BEAT, tick)

        self._due = self._clock() + BEAT
        self._timer = loop.call_later(BEAT, tick)
