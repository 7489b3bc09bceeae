"""When to stop asking a dependency that fails, and when to ask again: a circuit breaker.

::

             half of the calls failed,          `pause` later, one call
             or several were late in a row      goes as a probe
    CLOSED ─────────────────────────────> OPEN ────────────────────────> HALF_OPEN
       ^                                    ^                              │    │
       │                                    └── failed, or nobody knows ───┘    │
       └────────────────────────────── answered ────────────────────────────────┘

The pattern is Nygard's (Release It!, 2nd ed., "Circuit Breaker"). This one does no I/O,
reads no clock, and holds a dozen numbers however many calls there are; every method is O(1).
"""

from enum import Enum, IntEnum


class State(IntEnum):
    """Where a breaker stands; the numbers are those of the gauge in `/metrics`."""

    CLOSED = 0
    HALF_OPEN = 1
    OPEN = 2


class Verdict(Enum):
    """What a call says about the dependency."""

    ANSWERED = "answered"
    FAILED = "failed"
    LATE = "late"
    """It failed by not answering: each such call costs its caller the whole timeout."""
    UNKNOWN = "unknown"
    """Nothing: the caller gave up too soon."""


# Python 3.11 finds an enum's member through a descriptor, 80 ns each time; a global costs 5.
CLOSED, HALF_OPEN, OPEN = State
ANSWERED, FAILED, LATE, UNKNOWN = Verdict


class Window:
    """Calls and failures of the last seconds, in two halves: from half of `seconds` to the whole."""

    def __init__(self, seconds: float) -> None:
        self._half = seconds / 2
        self._ends = float("-inf")
        self._calls, self._failures = 0, 0
        self._calls_before, self._failures_before = 0, 0

    def add(self, now: float, *, failed: bool) -> None:
        """Count a call."""
        if now >= self._ends:
            self._begin_half(now)
        self._calls += 1
        self._failures += failed

    def totals(self) -> tuple[int, int]:
        """Return calls, and failures among them."""
        return self._calls + self._calls_before, self._failures + self._failures_before

    def clear(self) -> None:
        """Forget everything."""
        self._ends = float("-inf")

    def _begin_half(self, now: float) -> None:
        gap = now >= self._ends + self._half
        self._calls_before, self._failures_before = (0, 0) if gap else (self._calls, self._failures)
        self._calls, self._failures = 0, 0
        self._ends = (now if gap else self._ends) + self._half


class Breaker:
    """A state machine: `admit` a call, `settle` what came of it, with times (seconds) that never go back.

    window        seconds that count: the last half of it to the whole
    least, share  it opens when of at least so many calls in the window this share failed
    late          it opens when so many calls in a row were late, however rare calls are
    pause         seconds from opening to the first probe; doubled after each failed probe,
    longest       but never longer than this, which therefore bounds how late a recovery is seen

    `state` is for reading; `opened` counts how often it opened.
    """

    def __init__(
        self,
        *,
        window: float = 1.0,
        least: int = 10,
        share: float = 0.5,
        late: int = 5,
        pause: float = 0.25,
        longest: float = 0.5,
    ) -> None:
        self.state: State = CLOSED
        self.opened = 0
        self._window = Window(window)
        self._late_in_a_row = 0
        self._least = least
        self._share = share
        self._late = late
        self._first = pause
        self._longest = longest
        # A ticket is the era it was given in: what was asked before the last turn has no say after it.
        self._era = 1
        self._asked = 0.0
        self._pause = pause

    def admit(self, now: float) -> int:
        """Return a ticket for one call, to be settled whatever becomes of it; 0 when it must not be made."""
        if self.state is CLOSED:
            return self._era
        if self.state is HALF_OPEN or now < self._asked + self._pause:
            return 0
        self._asked = now
        self._turn(HALF_OPEN)
        return self._era

    def settle(self, ticket: int, verdict: Verdict, now: float) -> None:
        """Take the verdict of an admitted call."""
        if ticket != self._era:
            return
        if self.state is CLOSED:
            self._count(verdict, now)
        elif verdict is ANSWERED:
            self.close()
        else:
            # Counting from when the probe was sent: one that hung doesn't put off the next.
            self._turn(OPEN)
            if verdict is not UNKNOWN:
                self._pause = min(2 * self._pause, self._longest)

    def close(self) -> None:
        """Close it with a clean slate: the dependency is known to answer."""
        if self.state is not CLOSED:
            self._window.clear()
            self._late_in_a_row = 0
            self._turn(CLOSED)

    def _count(self, verdict: Verdict, now: float) -> None:
        if verdict is ANSWERED:
            self._window.add(now, failed=False)
            self._late_in_a_row = 0
        elif verdict is not UNKNOWN:
            self._window.add(now, failed=True)
            self._late_in_a_row += verdict is LATE
            if self._late_in_a_row >= self._late or self._often():
                self.opened += 1
                self._asked, self._pause = now, self._first
                self._turn(OPEN)

    def _often(self) -> bool:
        calls, failures = self._window.totals()
        return calls >= self._least and failures >= self._share * calls

    def _turn(self, state: State) -> None:
        self.state = state
        self._era += 1
