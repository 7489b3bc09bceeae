"""One row per request of a run, as columns; and what can be read off an answer without decoding it."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.load.plan import Schedule

# Outcomes without an HTTP status, which are 100 and more.
PENDING, TIMEOUT, RESET, REFUSED, UNSENT, GARBLED, LOCAL = 0, -1, -2, -3, -4, -5, -6
OUTCOMES = {
    TIMEOUT: "timeout",  # sent, no whole answer in time
    RESET: "reset",  # the connection broke before the answer was whole
    REFUSED: "refused",  # nobody accepted the connection
    UNSENT: "unsent",  # all connections were busy until it had timed out
    GARBLED: "garbled",  # an answer that isn't HTTP
    LOCAL: "local",  # this machine had no socket or port left
    PENDING: "pending",  # the run was stopped before
}
UNKNOWN_LEVEL = -1
_MAX_NAMES = 1024


@dataclass(frozen=True)
class Samples:
    """Columns over the run's n requests in the order of their intended times.

    `due` f64: intended time, seconds from the start. `late` f32: how much later the generator got to it, NaN if
    never. `latency` f64: seconds from the intended time to the whole answer, or to the failure. `outcome` i16: HTTP
    status or a name of OUTCOMES. `phase`, `kind` u8: positions in the plan. `level` i8: of the answer, -1 when it
    has none. `empty` u8: 1 for an answer without items. `degraded` i16: 0 for none, else 1 + its position in the
    result's `degraded`; `version` i16: 0 for none, else 1 + its position in `versions`.
    """

    due: NDArray[np.float64]
    late: NDArray[np.float32]
    latency: NDArray[np.float64]
    outcome: NDArray[np.int16]
    phase: NDArray[np.uint8]
    kind: NDArray[np.uint8]
    level: NDArray[np.int8]
    empty: NDArray[np.uint8]
    degraded: NDArray[np.int16]
    version: NDArray[np.int16]

    def __len__(self) -> int:
        return len(self.due)

    def take(self, where: NDArray[np.bool_]) -> Samples:
        """The rows where bool[n] is true. Copies."""
        return Samples(**{one.name: getattr(self, one.name)[where] for one in fields(self)})


class Names:
    """Numbers the distinct byte strings that it sees, from 1; past 1,023 of them all others count as one, ``b""``."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}

    def number(self, text: bytes) -> int:
        """The number of `text`."""
        known = self._numbers.get(text)
        if known is None:
            if len(self._numbers) >= _MAX_NAMES - 1 and text:
                return self.number(b"")
            known = self._numbers[text] = len(self._numbers) + 1
        return known

    def texts(self) -> tuple[bytes, ...]:
        """All that were seen, in the order of their numbers."""
        return tuple(self._numbers)


class Recorder:
    """Fills the samples while a run goes on. Plain arrays: storing a number takes a third of numpy's time."""

    def __init__(self, schedule: Schedule) -> None:
        n = len(schedule.due)
        self._schedule = schedule
        self.late = array("f", [float("nan")]) * n
        self.latency = array("d", [float("nan")]) * n
        self.outcome = array("h", [PENDING]) * n
        self.level = array("b", [UNKNOWN_LEVEL]) * n
        self.empty = array("B", [0]) * n
        self.degraded = array("h", [0]) * n
        self.version = array("h", [0]) * n
        self.reasons = Names()
        self.versions = Names()

    def read(self, request: int, body: bytes) -> None:
        """Note what an answer's JSON says, by searching its bytes (about 3 us for 20 items).

        The quote that ends a key can't stand unescaped inside a JSON string, so a title never matches; `level` and
        `degraded` follow the items, hence the search from the end.
        """
        at = body.find(b'"config":')
        if at >= 0:
            end = body.find(b',"items":', at)
            if end > at:
                self.version[request] = self.versions.number(body[at:end])
            self.empty[request] = body.startswith(b',"items":[]', end)
        at = body.rfind(b'"level":')
        if at >= 0 and (digit := body[at + 8 : at + 9]).isdigit():
            self.level[request] = int(digit)
        at = body.rfind(b'"degraded":[')
        if at >= 0 and body[at + 12 : at + 13] != b"]":
            self.degraded[request] = self.reasons.number(body[at + 11 : body.find(b"]", at) + 1])

    def samples(self) -> Samples:
        """All columns."""
        return Samples(
            due=self._schedule.due,
            late=_column(self.late, np.float32),
            latency=_column(self.latency, np.float64),
            outcome=_column(self.outcome, np.int16),
            phase=self._schedule.phase,
            kind=self._schedule.kind,
            level=_column(self.level, np.int8),
            empty=_column(self.empty, np.uint8),
            degraded=_column(self.degraded, np.int16),
            version=_column(self.version, np.int16),
        )


def _column(values: array[Any], kind: type[Any]) -> NDArray[Any]:
    return np.array(values, kind)
