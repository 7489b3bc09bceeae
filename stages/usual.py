"""What steps usually take: an average that forgets, so that a step isn't started when its time won't fit."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Protocol

SLOW = 0.005
"""Seconds above which a step should not hold up an event loop."""
_STALL, _WARY = 0.05, 10.0  # a run so long makes a step count as slow for so long, however quick it is otherwise
_WEIGHT = 0.2
# One slow run (a stall of the machine) counts as at most four times the usual; a step that stays slow is known
# for it after some ten runs.
_MOST = 4.0
_SLACK = 0.001
PROBE = 16


class Costed(Protocol):
    """A step, as far as its time is concerned."""

    @property
    def name(self) -> str:
        """Unique in its scene."""

    @property
    def cost_ms(self) -> float:
        """What was measured before it ever served; 0 when nothing was."""


class Usual:
    """Seconds per step of one snapshot's plans, from the runs seen so far. O(1), a few numbers per step.

    Seen on the event loop; `fits` may be asked from the compute pool. `clock`: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._seconds: dict[str, float] = {}
        self._wary: dict[str, float] = {}
        self._refused: dict[str, int] = {}

    def of(self, step: Costed) -> float:
        """Seconds that the step usually takes; what was measured at load before its first run, else 0."""
        seconds = self._seconds.get(step.name)
        return step.cost_ms * 1e-3 if seconds is None else seconds

    def saw(self, name: str, seconds: float) -> None:
        """Take the time of one run."""
        if seconds >= _STALL:
            self._wary[name] = self._clock() + _WARY
        usual = self._seconds.get(name)
        if usual is None:
            self._seconds[name] = seconds
        else:
            self._seconds[name] = usual + _WEIGHT * (min(seconds, _MOST * usual + _SLACK) - usual)

    def slow(self, step: Costed) -> bool:
        """Whether the step usually takes longer than SLOW, or hung a moment ago: what hangs once does it again."""
        if self.of(step) > SLOW:
            return True
        until = self._wary.get(step.name)
        return until is not None and self._clock() < until

    def fits(self, step: Costed, left: float) -> bool:
        """Whether the step usually ends within `left` seconds.

        One in 16 that don't fit is started all the same: how else would a step that was slow for a while be seen
        to be quick again.
        """
        if self.of(step) <= left:
            return True
        refused = self._refused.get(step.name, 0) + 1
        self._refused[step.name] = refused
        return refused % PROBE == 0
