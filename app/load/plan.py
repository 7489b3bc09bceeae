"""What a run sends: classes of requests, phases of arrival rates, and the moments that come of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

# A run's samples take about 40 bytes each in its memory; ten minutes at 5,000 requests/s is 3 million.
MAX_REQUESTS = 5_000_000
_MAX_CONNECTIONS = 10_000
# Phases and classes are kept as u8.
_MAX_NAMES = 255


@dataclass(frozen=True)
class RequestClass:
    """Requests that are counted together: a scene, a priority. `requests` are whole HTTP requests, used in turn.

    `weight` is its share of the arrivals beside the other classes'; `budget` in seconds makes an answer a good one.
    """

    name: str
    requests: tuple[bytes, ...]
    weight: float = 1.0
    budget: float = 0.12


@dataclass(frozen=True)
class Phase:
    """`seconds` of Poisson arrivals at `rate` per second, all classes together; `weights` replaces classes' weights."""

    name: str
    rate: float
    seconds: float
    weights: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """A whole run against one address; the same seed gives the same arrivals. Raises ValueError when it can't be.

    At most `connections` are open at once, `opened` of them from the start. A request that has no whole answer
    `timeout` seconds after its intended time has failed, so a run ends at most `timeout` after its last phase.
    """

    address: tuple[str, int]
    classes: tuple[RequestClass, ...]
    phases: tuple[Phase, ...]
    seed: int = 0
    connections: int = 256
    opened: int = 16
    timeout: float = 2.0

    def __post_init__(self) -> None:
        for what in (self.classes, self.phases):
            names = [one.name for one in what]
            if not 1 <= len(names) == len(set(names)) <= _MAX_NAMES:
                raise ValueError(f"expected 1 to {_MAX_NAMES} classes and phases, each with its own name, not {names}")
        if not all(one.requests for one in self.classes):
            raise ValueError("a class has no requests")
        numbers = [self.timeout, *(one.seconds for one in self.phases), *(one.budget for one in self.classes)]
        if not all(math.isfinite(number) and number > 0 for number in numbers):
            raise ValueError("expected seconds, budgets and the timeout to be positive")
        if not all(math.isfinite(one.rate) and one.rate >= 0 for one in self.phases):
            raise ValueError("expected rates to be 0 or more")
        if not 1 <= self.connections <= _MAX_CONNECTIONS:
            raise ValueError(f"expected 1 to {_MAX_CONNECTIONS} connections, not {self.connections}")
        if sum(one.rate * one.seconds for one in self.phases) > MAX_REQUESTS:
            raise ValueError(f"more than {MAX_REQUESTS} requests: lower the rate or the seconds")
        for phase in self.phases:
            shares(self, phase)

    @property
    def seconds(self) -> float:
        """How long requests are sent for."""
        return sum(phase.seconds for phase in self.phases)

    @property
    def longest(self) -> float:
        """Seconds after which the run has ended, whatever the server does."""
        return self.seconds + self.timeout


@dataclass(frozen=True)
class Schedule:
    """Intended times in seconds from the start, ascending f64[n]; each one's phase and class by position, u8[n]."""

    due: NDArray[np.float64]
    phase: NDArray[np.uint8]
    kind: NDArray[np.uint8]


def shares(plan: Plan, phase: Phase) -> NDArray[np.float64]:
    """Each class's share of a phase's arrivals, f64[classes]. Raises ValueError for unknown names and no weight."""
    if unknown := phase.weights.keys() - {one.name for one in plan.classes}:
        raise ValueError(f"phase {phase.name}: no class {sorted(unknown)}")
    weights = np.array([phase.weights.get(one.name, one.weight) for one in plan.classes], np.float64)
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.sum() > 0):
        raise ValueError(f"phase {phase.name}: expected weights of 0 or more, not all 0")
    return np.asarray(weights / weights.sum(), np.float64)


def schedule(plan: Plan) -> Schedule:
    """Draw the arrivals: in each phase a Poisson number of moments, uniform over it, which is a Poisson process."""
    rng = np.random.default_rng([plan.seed, 5])
    due, phases, kinds = [], [], []
    start = 0.0
    for at, phase in enumerate(plan.phases):
        count = int(rng.poisson(phase.rate * phase.seconds))
        due.append(start + np.sort(rng.uniform(0.0, phase.seconds, count)))
        phases.append(np.full(count, at, np.uint8))
        kinds.append(rng.choice(len(plan.classes), count, p=shares(plan, phase)).astype(np.uint8))
        start += phase.seconds
    return Schedule(np.concatenate(due), np.concatenate(phases), np.concatenate(kinds))
