"""API keys: who may ask, and how often. Without a configured client everybody may.

Keys are kept as digests only, so that none can reach a log, a problem or a traceback.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from app.headers import Headers
from app.problems import Problem


class ClientSetting(Protocol):
    """A configured client."""

    @property
    def name(self) -> str:
        """What metrics and problems call it."""

    @property
    def key(self) -> str:
        """Its secret. Empty: the client is off."""

    @property
    def rate(self) -> float:
        """Requests per second, of all workers together."""

    @property
    def burst(self) -> float:
        """Requests at once, of all workers together."""


class Clients:
    """The configured clients, each with a token bucket. Belongs to one event loop; its size is the configuration's.

    A worker grants its share: rate and burst are divided by `workers`, since a shared bucket would cost a round trip
    per request. With connections spread evenly the sum is the configured rate; one connection is one worker's.
    """

    def __init__(
        self, clients: Iterable[ClientSetting], workers: int = 1, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._buckets = [_Bucket(client, workers, clock()) for client in clients if client.key]
        self.unauthorized = 0

    def __bool__(self) -> bool:
        """Whether keys are asked for at all."""
        return bool(self._buckets)

    @property
    def limited(self) -> Mapping[str, float]:
        """Requests over the rate, by client."""
        return {bucket.name: float(bucket.limited) for bucket in self._buckets}

    def check(self, headers: Headers) -> None:
        """Take one request from the caller's rate. Raises Problem (401, 429)."""
        if not self._buckets:
            return
        bucket = self._find(headers.credential)
        if bucket is None:
            self.unauthorized += 1
            raise Problem(
                "unauthorized",
                "a valid key is needed, in x-recserve-key or as authorization: Bearer",
                headers={"www-authenticate": "Bearer"},
                field="x-recserve-key",
            )
        seconds = bucket.take(self._clock())
        if seconds:
            raise Problem(
                "rate-limited",
                bucket.said,
                headers={"retry-after": str(math.ceil(seconds))},
            )

    def _find(self, key: bytes | None) -> _Bucket | None:
        """The client that has this key. The time depends on the number of clients and on nothing else."""
        digest = _digest(key or b"")
        found = None
        for bucket in self._buckets:
            if hmac.compare_digest(bucket.digest, digest):
                found = bucket
        return found


class _Bucket:
    """A token bucket: `rate` tokens per second, at most `burst`."""

    __slots__ = ("_at", "_burst", "_rate", "_tokens", "digest", "limited", "name", "said")

    def __init__(self, client: ClientSetting, workers: int, now: float) -> None:
        self.name = client.name
        self.digest = _digest(client.key.encode())
        share = "" if workers == 1 else f"its share, in this worker {client.rate / workers:g}, of "
        self.said = f"client {client.name}: more than {share}{client.rate:g} requests per second"
        self.limited = 0
        self._rate = client.rate / workers
        # Below one token nothing would ever be let through.
        self._tokens = self._burst = max(client.burst / workers, 1.0)
        self._at = now

    def take(self, now: float) -> float:
        """Take a token: 0, or the seconds until there is one."""
        self._tokens = min(self._tokens + (now - self._at) * self._rate, self._burst)
        self._at = now
        if self._tokens >= 1.0:
            self._tokens -= 1.0
            return 0.0
        self.limited += 1
        return (1.0 - self._tokens) / self._rate


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()
