"""Whether the store answers: for the log, `/admin/status` and metrics. Degraded answers alone don't say why."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from app.observe import Metrics
from features.errors import CommandError, StoreError
from features.resilient import Resilient

PING_SECONDS = 5.0
# At most one line of the log about the store's state in this time.
QUIET_SECONDS = 10.0
# A request that has little time left may time out while the store is well.
_TIMEOUTS = 3

logger = logging.getLogger("recserve.store")


class StoreWatch:
    """The store's state, from what its client saw (`seen`) and from a ping now and then. Belongs to the event loop.

    The first failure, one that isn't a timeout, or the third timeout in a row make the store down; a success
    makes it up. A refused command is counted and shown, and changes nothing: the store answered.
    """

    def __init__(
        self, url: str, metrics: Metrics, *, clock: Callable[[], float] = time.time, quiet: float = QUIET_SECONDS
    ) -> None:
        self.up: bool | None = None
        self.errors: Counter[str] = Counter()
        self._metrics = metrics
        self._address = address(url)
        self._secrets = _secrets(url)
        self._tls = url.startswith(("rediss:", "valkeys:"))
        self._clock = clock
        self._quiet = quiet
        self._since = clock()
        self._timeouts = 0
        self._refused = False
        self._last: tuple[float, str] | None = None
        self._told: bool | None = None
        self._told_at = float("-inf")
        metrics.gauge("store_up", "1 while the store answers.", lambda: float(bool(self.up)))
        metrics.counters("store_errors", "What the store failed to do.", "reason", lambda: self.errors)

    def seen(self, error: StoreError | None) -> None:
        """Take the outcome of one call."""
        if error is None:
            self._timeouts = 0
            if self.up is not True or self._told is not True:
                self._turn(up=True)
            return
        self.errors[error.reason] += 1
        words = str(error)
        for secret in self._secrets:
            words = words.replace(secret, "***")
        if error.reason == "timeout" and self.up is None and self._tls:
            words += ", as one without TLS doesn't (rediss:// speaks TLS)"
        self._last = (self._clock(), words)
        if isinstance(error, CommandError):
            return
        self._timeouts += error.reason == "timeout"
        if self.up is not True or error.reason != "timeout" or self._timeouts >= _TIMEOUTS:
            self._turn(up=False)

    async def ping(self, store: Resilient) -> None:
        """Ask once, whatever the breaker says. Never raises a StoreError: the outcome is this object's state."""
        try:
            reply = await store.ping(timeout=1.0)
        except StoreError:
            return  # the client has told us
        if isinstance(reply, CommandError):
            self._refused = True
            logger.warning("store %s refuses PING, only requests show its state: %s", self._address, reply)

    async def run(self, store: Resilient) -> None:
        """Ping until cancelled or refused, so that the state is right without requests too. Shows the breaker."""
        self._show(store)
        while not self._refused:
            await asyncio.sleep(PING_SECONDS)
            await self.ping(store)

    def status(self) -> Mapping[str, Any]:
        """Address, state and the last error, without secrets; times in epoch seconds."""
        return {
            "address": self._address,
            "state": {True: "up", False: "down", None: "not asked yet"}[self.up],
            "since": self._since,
            "last_error": None if self._last is None else {"at": self._last[0], "message": self._last[1]},
            "errors": dict(self.errors),
        }

    def _show(self, store: Resilient) -> None:
        counter = self._metrics.counter
        state = "0 closed: the store is asked; 1 half-open: one call tries it; 2 open: it is left alone."
        self._metrics.gauge("store_breaker_state", state, lambda: float(store.state))
        counter("store_breaker_opened", "Times that the store failed too often to be asked.", lambda: store.opened)
        counter("store_calls", "Calls sent to the store, repeats not counted.", lambda: store.calls)
        counter("store_retries", "Calls sent to the store a second time.", lambda: store.retries)
        counter("store_shunned", "Calls not sent, the breaker being open.", lambda: store.shunned)

    def _turn(self, *, up: bool) -> None:
        now = self._clock()
        if up is not self.up:
            self.up, self._since = up, now
        if up is self._told or now - self._told_at < self._quiet:
            return
        expected = up and self._told is None
        self._told = up
        if expected:
            return
        self._told_at = now
        if up:
            logger.warning("store %s answers again", self._address)
        else:
            words = self._last[1] if self._last else "no answer"
            logger.warning("store %s is down, answers do without it: %s", self._address, words)


def address(url: str) -> str:
    """A store's URL without user, password and parameters."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _secrets(url: str) -> list[str]:
    """Passwords in a URL, as written and as sent."""
    parts = urlsplit(url)
    found = [parts.password or "", unquote(parts.password or ""), *parse_qs(parts.query).get("password", ())]
    return sorted({secret for secret in found if secret}, key=len, reverse=True)
