"""Requests take turns on the event loop, so that those who have begun aren't held up by those who begin.

If everybody read their user at once, each would then wait for the lists of all the others to be computed. The wait
is the same either way, but there it lies between a request and its features: it looks like a slow store, and uses up
the store's timeout.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

# Two: one can wait for the store while the other computes.
MOST = 2
# Seconds after which a turn is over: whoever waits for a slow store or for the pool holds nobody up.
LONGEST = 0.001


class Turns:
    """At most `most` requests have their turn, first come, first served. Belongs to one event loop.

    A turn ends with its request or `longest` seconds after it began, whichever is first. `waited` is told how long
    each waited for its turn, in seconds. How many wait is bounded by admission: they hold places.
    """

    def __init__(
        self, waited: Callable[[float], object] = lambda _: None, *, most: int = MOST, longest: float = LONGEST
    ) -> None:
        self._waited = waited
        self._free = most
        self._longest = longest
        self._waiting: deque[asyncio.Future[None]] = deque()

    def __len__(self) -> int:
        """How many wait."""
        return len(self._waiting)

    async def begin(self) -> Turn:
        """Wait for a turn. Whoever has it calls its `end`, whatever happens."""
        loop = asyncio.get_running_loop()
        if self._free:
            self._free -= 1
            self._waited(0.0)
        else:
            came = loop.time()
            place = loop.create_future()
            self._waiting.append(place)
            try:
                await place
            except asyncio.CancelledError:
                if place.done() and not place.cancelled():
                    self._pass_on()
                raise
            self._waited(loop.time() - came)
        return Turn(loop, self._longest, self._pass_on)

    def _pass_on(self) -> None:
        """A turn has ended: whoever waits longest has it."""
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(None)
                return
        self._free += 1


class Turn:
    """One request's turn."""

    __slots__ = ("_pass_on", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop, longest: float, pass_on: Callable[[], None]) -> None:
        self._pass_on = pass_on
        self._timer: asyncio.TimerHandle | None = loop.call_later(longest, self.end)

    def end(self) -> None:
        """It is over; the first of these calls counts."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._pass_on()
