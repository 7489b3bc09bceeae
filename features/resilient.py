"""A store that is left alone while it is down, and asked once more when that is cheap.

Without a breaker every request waits out the store's timeout for as long as the store is
away; without a budget, retries double the load on a store that is already too slow. The
budget is a token bucket that calls fill (as in Finagle's RetryBudget, there by time too).
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from features.breaker import ANSWERED, CLOSED, FAILED, LATE, UNKNOWN, Breaker, State, Verdict
from features.commands import Command, Commands, Reply
from features.errors import CommandError, StoreError, StoreShunned, StoreTimeout, StoreUnavailable

T = TypeVar("T")

READS = frozenset({"GET", "MGET", "GETRANGE", "STRLEN", "HGET", "HMGET", "HGETALL", "EXISTS", "TTL", "PING"})
"""Commands that may be sent twice: they change nothing, and their reply can't tell."""


class RetryBudget:
    """Allows one retry for every `every` calls. What isn't used is saved, up to `burst` retries. Exact: no floats."""

    def __init__(self, *, every: int = 10, burst: int = 10) -> None:
        self._every = every
        self._most = every * burst
        self._saved = 0

    def earn(self) -> None:
        """Count one call."""
        if self._saved < self._most:
            self._saved += 1

    def spend(self) -> bool:
        """Take one retry, if there is one."""
        if self._saved < self._every:
            return False
        self._saved -= self._every
        return True


class Resilient:
    """`features.commands.Commands` over another one, with a breaker and a budget of retries. Belongs to one event loop.

    fair   seconds in which a store that is well answers. A call that had less time proves nothing by
           running out of it, is no probe, and isn't worth a retry. Below the inner store's own timeout.
    clock  seconds that never go back

    While the breaker is open, calls raise StoreShunned at once. A call is sent a second
    time at most, when the store was late or unavailable, the budget allows it, at least
    `fair` seconds are left, and all its commands are READS.

    `calls` counts those that were sent, `retries` those of them that were sent twice,
    `shunned` those that weren't sent. Costs about 1.3 us per call.
    """

    def __init__(self, inner: Commands, *, fair: float = 0.025, clock: Callable[[], float] = time.monotonic) -> None:
        self._inner = inner
        self._fair = fair
        self._clock = clock
        self._breaker = Breaker()
        self._budget = RetryBudget()
        self.calls = 0
        self.retries = 0
        self.shunned = 0

    @property
    def state(self) -> State:
        """Where the breaker stands."""
        return self._breaker.state

    @property
    def opened(self) -> int:
        """How often the breaker opened."""
        return self._breaker.opened

    async def execute(self, commands: Sequence[Command], *, timeout: float, atomic: bool = False) -> list[Reply]:
        """See `Commands.execute`; also raises StoreShunned."""
        if not commands:
            return []

        def send(timeout: float) -> Awaitable[list[Reply]]:
            return self._inner.execute(commands, timeout=timeout, atomic=atomic)

        began = self._clock()
        ticket = self._enter(timeout, began)
        try:
            return await self._send(ticket, send, timeout, began)
        except (StoreTimeout, StoreUnavailable):
            now = self._clock()
            left = began + timeout - now
            if not self._may_send_again(commands, left):
                raise
        self.retries += 1
        return await self._send(self._breaker.admit(now), send, left, now)

    async def trim(self, key: bytes, keep: int, *, timeout: float) -> bool:
        """See `Commands.trim`; also raises StoreShunned. A write: never sent twice."""

        def send(timeout: float) -> Awaitable[bool]:
            return self._inner.trim(key, keep, timeout=timeout)

        now = self._clock()
        return await self._send(self._enter(timeout, now), send, timeout, now)

    async def update(
        self, key: bytes, read: Command, change: Callable[[Reply], Sequence[Command]], *, timeout: float
    ) -> list[Reply] | None:
        """See `Commands.update`; also raises StoreShunned. A write: never sent twice."""

        def send(timeout: float) -> Awaitable[list[Reply] | None]:
            return self._inner.update(key, read, change, timeout=timeout)

        now = self._clock()
        return await self._send(self._enter(timeout, now), send, timeout, now)

    async def ping(self, *, timeout: float) -> Reply:
        """Send PING past the breaker, which an answer closes. Raises like `execute`, but never StoreShunned."""
        [reply] = await self._inner.execute([("PING",)], timeout=timeout)
        self._breaker.close()
        return reply

    async def close(self) -> None:
        """See `Commands.close`."""
        await self._inner.close()

    def _enter(self, timeout: float, now: float) -> int:
        """Count a call in; return its ticket. Raises StoreShunned."""
        breaker = self._breaker
        ticket = breaker.admit(now) if breaker.state is CLOSED or timeout >= self._fair else 0
        if not ticket:
            self.shunned += 1
            raise StoreShunned("the store has just failed too often to be asked")
        self.calls += 1
        self._budget.earn()
        return ticket

    async def _send(self, ticket: int, send: Callable[[float], Awaitable[T]], timeout: float, began: float) -> T:
        """Send once. Whatever becomes of it settles the ticket: a probe left open would shut the breaker for good."""
        try:
            result = await send(timeout)
        except BaseException as error:
            now = self._clock()
            self._breaker.settle(ticket, self._verdict(error, timeout, now - began), now)
            raise
        self._breaker.settle(ticket, ANSWERED, self._clock())
        return result

    def _verdict(self, error: BaseException, timeout: float, waited: float) -> Verdict:
        match error:
            case CommandError():
                return ANSWERED
            case StoreTimeout():
                return LATE if timeout >= self._fair else UNKNOWN
            case StoreError():
                return FAILED
            case asyncio.CancelledError():
                return LATE if waited >= self._fair else UNKNOWN
            case _:
                return UNKNOWN

    def _may_send_again(self, commands: Sequence[Command], left: float) -> bool:
        return (
            left >= self._fair
            and self._breaker.state is CLOSED
            and all(_name(command) in READS for command in commands)
            and self._budget.spend()
        )


def _name(command: Command) -> str:
    name = command[0]
    return (name.decode() if isinstance(name, bytes) else str(name)).upper()
