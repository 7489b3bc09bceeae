"""What a run saw: every request, and summaries of any stretch, phase or class of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

import msgspec
import numpy as np
from numpy.typing import NDArray

from app.load.samples import Samples
from app.load.summary import Summary


@dataclass(frozen=True)
class Connections:
    """`opened`, of which `refused` never were; `dropped` broke with a request on them, `idle` without one."""

    opened: int
    refused: int
    dropped: int
    idle: int


@dataclass(frozen=True)
class Second:
    """One second of the time series, by intended time. `p99` in seconds, of the served; None when none was."""

    at: int
    sent: int
    served: int
    good: int
    p99: float | None

    def as_json(self) -> dict[str, Any]:
        """The same with milliseconds."""
        p99 = None if self.p99 is None else round(self.p99 * 1e3, 3)
        return {"at": self.at, "sent": self.sent, "served": self.served, "good": self.good, "p99_ms": p99}


@dataclass(frozen=True)
class Result:
    """A finished run.

    `started` is on the machine's monotonic clock, the same in every process, and `Samples.due` counts from it.
    `classes` maps names to budgets in seconds, `phases` names to [start, end) in seconds. `cpu` is the CPU time in
    seconds that the generator took, over `wall` seconds. `versions` are the distinct beginnings of answers (config
    and release), `degraded` the distinct lists of degraded steps, both as JSON.
    """

    started: float
    wall: float
    cpu: float
    classes: Mapping[str, float]
    phases: Mapping[str, tuple[float, float]]
    samples: Samples
    versions: tuple[bytes, ...]
    degraded: tuple[bytes, ...]
    connections: Connections

    @property
    def seconds(self) -> float:
        """How long requests were sent for."""
        return max(end for _, end in self.phases.values())

    def summary(self) -> Summary:
        """Everything."""
        return self.between(0.0, self.seconds)

    def between(self, start: float, end: float, kind: str | None = None) -> Summary:
        """The requests, of one class or of all, that were meant for [start, end) seconds from the start."""
        due = self.samples.due
        inside = (due >= start) & (due < end)
        if kind is not None:
            inside &= self.samples.kind == list(self.classes).index(kind)
        return Summary.of(self.samples.take(inside), tuple(self.classes.values()), end - start)

    def phase(self, name: str, kind: str | None = None) -> Summary:
        """One phase, of one class or of all."""
        return self.between(*self.phases[name], kind)

    def pairs(self, start: float = 0.0, end: float = np.inf) -> Mapping[tuple[str, str], int]:
        """How many answers came from each (config, release), of requests meant for [start, end)."""
        counts: Counter[tuple[str, str]] = Counter()
        for text, count in self._counted(self.samples.version, self.versions, start, end):
            document = _loaded(b"{" + text + b"}", {})
            counts[str(document.get("config")), str(document.get("release"))] += count
        return counts

    def reasons(self, start: float = 0.0, end: float = np.inf) -> Mapping[str, int]:
        """How many answers named each degraded `step: reason`, of requests meant for [start, end)."""
        counts: Counter[str] = Counter()
        for text, count in self._counted(self.samples.degraded, self.degraded, start, end):
            for one in _loaded(text, [{"step": "other", "reason": "other"}]):
                counts[f"{one.get('step')}: {one.get('reason')}"] += count
        return counts

    def series(self) -> tuple[Second, ...]:
        """Second by second. A last one that isn't whole counts as one."""
        samples = self.samples
        served = (samples.outcome >= 200) & (samples.outcome < 300)
        good = served & (samples.latency <= np.array(list(self.classes.values()))[samples.kind])
        edges = np.searchsorted(samples.due, np.arange(int(np.ceil(self.seconds)) + 1))
        seconds = []
        for at, (low, high) in enumerate(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)):
            latency = samples.latency[low:high][served[low:high]]
            p99 = float(np.quantile(latency, 0.99)) if len(latency) else None
            seconds.append(Second(at, high - low, len(latency), int(good[low:high].sum()), p99))
        return tuple(seconds)

    def as_json(self) -> dict[str, Any]:
        """The whole, each phase, each class, the time series, who answered, and what was degraded."""
        pairs = [{"config": c, "release": r, "answers": n} for (c, r), n in self.pairs().items()]
        return {
            "wall_seconds": round(self.wall, 3),
            "generator_cpu_seconds": round(self.cpu, 3),
            **self.summary().as_json(),
            "phases": {name: self.phase(name).as_json() for name in self.phases},
            "classes": {name: self.between(0.0, self.seconds, name).as_json() for name in self.classes},
            "series": [second.as_json() for second in self.series()],
            "served_by": pairs,
            "degraded": dict(self.reasons()),
            "connections": msgspec.to_builtins(self.connections),
        }

    def pack(self) -> bytes:
        """As bytes for a pipe; `unpack` is the way back."""
        return msgspec.msgpack.encode(self, enc_hook=_array_out)

    @classmethod
    def unpack(cls, packed: bytes) -> Result:
        """What `pack` made. Raises msgspec.DecodeError."""
        return msgspec.msgpack.decode(packed, type=cls, dec_hook=_array_in)

    def _counted(
        self, column: NDArray[np.int16], texts: tuple[bytes, ...], start: float, end: float
    ) -> list[tuple[bytes, int]]:
        due = self.samples.due
        numbers = column[(due >= start) & (due < end)]
        counts = np.bincount(numbers, minlength=len(texts) + 1)[1:]
        return [(text, count) for text, count in zip(texts, counts.tolist(), strict=True) if count]


def _loaded(text: bytes, otherwise: Any) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return otherwise


def _array_out(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tobytes()
    raise TypeError(f"{type(value).__name__} is not part of a result")


def _array_in(kind: Any, value: Any) -> Any:
    """The annotation is `NDArray[scalar]`, which is `ndarray[shape, dtype[scalar]]`."""
    return np.frombuffer(value, get_args(get_args(kind)[1])[0])
