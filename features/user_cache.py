"""Values read for a user, kept for a while: FIFO, a fixed number of bytes, a time to live."""

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from cachetools import FIFOCache

V = TypeVar("V")

ENTRY_OVERHEAD = 300
"""Bytes that an entry costs beside its value (key, tuple, dictionary slots), rounded up."""


class _Entry(NamedTuple, Generic[V]):
    expires: float
    size: int
    value: V


class UserCache(Generic[V]):
    """At most `capacity` bytes of values, each for at most `ttl` seconds of `clock` (monotonic).

    A dictionary does for users what a slab does for items: a request looks up one.
    Not thread-safe: belongs to the event loop. Values are shared between requests, so
    they must be immutable. `hits` and `misses` count look-ups.
    """

    def __init__(self, capacity: int, ttl: float, clock: Callable[[], float]) -> None:
        self._entries: FIFOCache[str, _Entry[V]] = FIFOCache(capacity, getsizeof=lambda entry: entry.size)
        self._ttl = ttl
        self._clock = clock
        self.hits = 0
        self.misses = 0

    def get(self, user_id: str) -> V | None:
        """Return the user's value, None when there is none or it is too old."""
        entry = self._entries.get(user_id)
        if entry is not None and entry.expires <= self._clock():
            del self._entries[user_id]
            entry = None
        if entry is None:
            self.misses += 1
            return None
        self.hits += 1
        return entry.value

    def put(self, user_id: str, value: V, size: int) -> None:
        """Keep a value of `size` bytes; the oldest give way. One larger than the cache isn't kept."""
        size += ENTRY_OVERHEAD + len(user_id)
        if size <= self._entries.maxsize:
            self._entries[user_id] = _Entry(self._clock() + self._ttl, size, value)
        else:
            # An older value under this id would otherwise outlive the newer one.
            self._entries.pop(user_id, None)

    def discard(self, user_id: str) -> None:
        """Forget a user."""
        self._entries.pop(user_id, None)

    @property
    def bytes(self) -> int:
        """How much of the capacity is taken."""
        return int(self._entries.currsize)

    def __len__(self) -> int:
        return len(self._entries)
