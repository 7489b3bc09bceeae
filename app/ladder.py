"""The ladder: how much of each scene's quality the load allows, moved smoothly and with hysteresis.

A scene's factor lies in [0, 1]. It falls quickly while work waits too long or answers come close to their budget,
stands still in a dead zone, and rises slowly below it. Its bands are the levels of stages.types.Quality.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from stages.types import Quality

# Below these a factor is on level 1, 2, 3, 4, 5; it leaves a level again this much higher.
_DOWN = (0.9, 0.6, 0.45, 0.3, 0.15)
_HYSTERESIS = 0.06
# Of the admission's target and of a budget: pressure 1, above which quality falls.
_WAIT_SHARE = 0.5
_BUDGET_SHARE = 0.8
_CALM = 0.6  # pressure below which quality rises
_FALL = 1.0  # of the factor, per second and unit of pressure above 1
_STEEPEST = 2.0
_RISE = 0.4  # of the factor, per second
_LATENCY_SECONDS = 0.3
_RATE_SECONDS = 1.0
# A climb has failed when the level is lost again this soon; it is then not tried for a while, unless traffic fell.
_PROBATION = 3.0
_HOLDS = (1.0, 8.0)
_LESS_TRAFFIC = 0.75
# Seconds that one observation may stand for: a fall must not hang on a single one when traffic is thin.
_LONGEST_FALL, _LONGEST_RISE = 0.05, 0.5


class Ladder:
    """Quality by scene. Belongs to one event loop.

    `lag_wait` is the queue wait now in seconds (LoopLag.wait), `target` what admission aims below: quality is given
    up at half of it, so before anybody is refused. Scenes are few and configured, so their states are kept.
    """

    def __init__(self, clock: Callable[[], float], lag_wait: Callable[[], float], target: float = 0.01) -> None:
        self._clock = clock
        self._wait = lag_wait
        self._target = target * _WAIT_SHARE
        self._rungs: dict[str, _Rung] = {}
        self._rate = _Rate(clock())

    def quality(self, scene: str) -> Quality:
        """What a request of this scene may cost now."""
        now = self._clock()
        self._rate.count(now)
        rung = self._rungs.get(scene)
        if rung is None:
            rung = self._rungs[scene] = _Rung(now)
        return rung.move(now, self._wait() / self._target, self._rate.per_second(now))

    def saw(self, scene: str, seconds: float, budget: float) -> None:
        """Note how long an answer took, from arrival to encoding, of its scene's budget (both in seconds)."""
        rung = self._rungs.get(scene)
        if rung is not None and budget > 0:
            rung.took(self._clock(), seconds / budget / _BUDGET_SHARE)

    def levels(self) -> dict[str, int]:
        """Each scene's level, for metrics and people."""
        return {scene: rung.level for scene, rung in self._rungs.items()}


class _Rate:
    """Requests per second, smoothed over a second."""

    def __init__(self, now: float) -> None:
        self._weight = 0.0
        self._at = now

    def count(self, now: float) -> None:
        self._weight = self.per_second(now) + 1 / _RATE_SECONDS
        self._at = now

    def per_second(self, now: float) -> float:
        return self._weight * math.exp((self._at - now) / _RATE_SECONDS)


class _Rung:
    """One scene's factor and level, and what was learnt from climbs that failed."""

    def __init__(self, now: float) -> None:
        self.level = 0
        self._factor = 1.0
        self._moved = now
        self._latency = 0.0
        self._took = now
        self._climbed = -math.inf
        self._hold = _HOLDS[0]
        self._held_until = -math.inf
        self._rate_then = 0.0

    def took(self, now: float, pressure: float) -> None:
        weight = 1 - math.exp(-max(now - self._took, 0.01) / _LATENCY_SECONDS)
        self._latency += weight * (pressure - self._latency)
        self._took = now

    def move(self, now: float, wait: float, rate: float) -> Quality:
        step = now - self._moved
        self._moved = now
        # Without answers there is nothing to hold against a scene.
        latency = self._latency * math.exp(-max(now - self._took - 1.0, 0.0) / _LATENCY_SECONDS)
        pressure = max(wait, latency)
        if pressure > 1:
            fall = min(step, _LONGEST_FALL) * _FALL * min(pressure - 1, _STEEPEST)
            self._factor = max(self._factor - fall, 0.0)
            while self.level < len(_DOWN) and self._factor < _DOWN[self.level]:
                self._descend(now, rate)
        elif pressure < _CALM:
            self._rise(now, min(step, _LONGEST_RISE), rate)
        return self._quality()

    def _rise(self, now: float, step: float, rate: float) -> None:
        self._factor = min(self._factor + step * _RISE, 1.0)
        if not self.level:
            if now - self._climbed > _HOLDS[1]:
                self._hold = _HOLDS[0]
            return
        top = min(_DOWN[self.level - 1] + _HYSTERESIS, 1.0)
        if self._factor < top:
            return
        if now < self._held_until and rate > _LESS_TRAFFIC * self._rate_then:
            self._factor = top
            return
        self.level -= 1
        self._climbed = now

    def _descend(self, now: float, rate: float) -> None:
        if now - self._climbed < _PROBATION:
            self._held_until = now + self._hold
            self._hold = min(self._hold * 2, _HOLDS[1])
            self._rate_then = rate
        self.level += 1

    def _quality(self) -> Quality:
        if not self.level:
            return Quality()
        low, high = _DOWN[1], _DOWN[0]
        share = min(max((self._factor - low) / (high - low), 0.0), 1.0) if self.level == 1 else 0.0
        return Quality(self.level, share)
