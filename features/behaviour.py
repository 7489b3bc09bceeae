"""Behaviour: what each user did, in the store, read fresh on every request.

Two string keys per user, both protobuf `History` in chunks of one length:

`history`  written whole by bootstrap's import, so importing again changes nothing
`events`   appended to by `POST /events`

A read takes both in the round trip that the request makes anyway, sorts by time and
drops repeats of (item, second, event): a retried write or a second import counts once.

Growth is bounded twice. A read asks for the last `cap` events of each key (GETRANGE
from the end), whatever lies there. A write that finds `events` longer than twice `cap`
cuts it back to `cap`, so cutting costs a fraction of a write. Both keys have a time to
live; appending renews that of `events`. These keys belong to no release.

What isn't ours under such a key would hide what is appended to it, so an append that
meets it moves it aside, to `events` of the version "malformed", and starts anew.
"""

import asyncio
import logging
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import mmh3
import numpy as np
from numpy.typing import NDArray

from features.commands import Command, Commands, Reply
from features.errors import CommandError, StoreError
from features.event_codec import CHUNK_BYTES, EVENT, MalformedHistoryError, decode_events, encode_events
from features.foreign import append_anew, is_foreign
from features.history import History
from features.ids import key_hash
from features.keys import OwnKey

logger = logging.getLogger("recserve.behaviour")

RowsOf = Callable[[NDArray[np.uint64]], NDArray[np.int32]]
"""Id hashes u64[m] to rows i32[m] of the pinned release (`IdTable.rows_of_keys`)."""

BATCH = 1000
TTL = 400 * 86400
_LARGEST = float(np.finfo(np.float32).max)
_HISTORY = OwnKey("history", "1")
_EVENTS = OwnKey("events", "1")
_MALFORMED = OwnKey("events", "malformed")


@dataclass(frozen=True, slots=True)
class Event:
    """Something that a user did to an item at `ts` (epoch seconds; the store keeps whole ones)."""

    user_id: str
    item_id: str
    event: str
    ts: float
    weight: float = 1.0


def event_code(name: str) -> int:
    """Return an event name's code in the store: the low 16 bits of murmur3_32, seed 0."""
    return int(mmh3.hash(name.encode(), 0, False)) & 0xFFFF


def event_codes(names: Iterable[str]) -> dict[str, int]:
    """Return name -> code of the declared events; ValueError when two names share a code."""
    codes: dict[str, int] = {}
    owners: dict[int, str] = {}
    for name in names:
        code = event_code(name)
        owner = owners.setdefault(code, name)
        if owner != name:
            raise ValueError(f"events {owner!r} and {name!r} have the same code, {code}. Rename one.")
        codes[name] = code
    return codes


def unique_events(parts: Sequence[NDArray[np.void]]) -> NDArray[np.void]:
    """Join records of EVENT, sort them by (ts, item, event), drop repeats (the first stays).

    O(m) when they are in order already, which is how writes leave them.
    """
    filled = [part for part in parts if len(part)]
    events = filled[0] if len(filled) == 1 else np.concatenate(filled or [np.empty(0, EVENT)])
    ts, item, code = events["ts"], events["item"], events["event"]
    if _ascending(ts, item, code).all():
        return events
    events = events[np.lexsort((code, item, ts))]
    fresh = np.ones(len(events), np.bool_)
    fresh[1:] = _ascending(events["ts"], events["item"], events["event"])
    return events[fresh]


@dataclass(slots=True)
class Counts:
    """What went wrong, since the process began: one object that a Behaviour hands on to what takes its place.

    `undecoded` counts values that don't decode (of which only what was appended counts),
    `untrimmed` cuts that didn't happen (the next write tries again), `displaced` keys that
    held something else and were moved aside.
    """

    undecoded: int = 0
    untrimmed: int = 0
    displaced: int = 0


class Behaviour:
    """Reads and writes behaviour; holds no state but counters.

    codes   name -> code of the declared events (`event_codes`)
    cap     how many events of a user count, the newest
    ttl     seconds
    counts  where to go on counting; by default at zero
    """

    def __init__(
        self,
        commands: Commands,
        codes: Mapping[str, int],
        *,
        cap: int = 10_000,
        ttl: int = TTL,
        counts: Counts | None = None,
    ) -> None:
        self._commands = commands
        self._codes = codes
        self._cap = cap
        self._ttl = ttl
        self.counts = Counts() if counts is None else counts

    def read_commands(self, user_id: str) -> list[Command]:
        """Return the commands that read a user; their replies go to `decode`."""
        user, start = user_id.encode(), -self._cap * CHUNK_BYTES
        return [("GETRANGE", _HISTORY.key(user), start, -1), ("GETRANGE", _EVENTS.key(user), start, -1)]

    def decode(self, replies: Sequence[Reply], rows_of: RowsOf) -> History:
        """Return the history in the replies to `read_commands`; raises a CommandError among them."""
        events = unique_events([self._part(reply) for reply in replies])[-self._cap :]
        keys = np.ascontiguousarray(events["item"])
        return History(
            rows=rows_of(keys),
            keys=keys,
            ts=events["ts"].astype(np.float64),
            event=events["event"].astype(np.uint16),
            weight=np.ascontiguousarray(events["weight"]),
        )

    async def append(self, events: Sequence[Event], *, timeout: float) -> None:
        """Append at most 1,000 events of any users: all or nothing (MULTI).

        Raises ValueError, before anything is sent, for too many events, an undeclared
        event name, or a ts or weight that can't be stored; StoreError when it isn't
        certain that all were written. Sending them again does no harm.
        """
        if len(events) > BATCH:
            raise ValueError(f"{len(events)} events at once, at most {BATCH} are taken")
        by_user: dict[str, list[tuple[int, int, int, float]]] = defaultdict(list)
        for event in events:
            by_user[event.user_id].append(self._record(event))
        users = [user.encode() for user in by_user]
        values = [encode_events(unique_events([np.array(records, EVENT)])) for records in by_user.values()]
        batch = [part for user, value in zip(users, values, strict=True) for part in self._add(user, value)]
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        replies = await self._commands.execute(batch, timeout=timeout, atomic=True)
        for user, value, length in zip(users, values, replies[::2], strict=True):
            if is_foreign(length):
                await self._displace(user, value, deadline)
            elif isinstance(length, CommandError):
                raise length
            elif isinstance(length, int) and length > 2 * self._cap * CHUNK_BYTES:
                await self._trim(_EVENTS.key(user), deadline - loop.time())

    async def import_history(
        self,
        users: Iterable[tuple[str, NDArray[np.void]]],
        *,
        progress: Callable[[int], None] = lambda _: None,
        skip: int = 0,
        batch: int = 200,
        per_second: float = math.inf,
        timeout: float = 10.0,
    ) -> None:
        """Write each user's whole `history` key, replacing it: (user id, records of EVENT) pairs.

        Batches of `batch` users (fewer when they are long) in one round trip each, at
        most `per_second` users per second. After each, `progress` gets the number of
        users finished, `skip` included: passing that as `skip` resumes a broken import.
        `timeout` is seconds per batch; the store's own limit (`RedisTier.timeout`) must allow it.
        Raises StoreError.
        """
        loop = asyncio.get_running_loop()
        started, done, size = loop.time(), skip, 0
        pending: list[Command] = []

        async def flush() -> None:
            nonlocal done, size
            _raise_refused(await self._commands.execute(pending, timeout=timeout))
            done += len(pending)
            pending.clear()
            size = 0
            progress(done)
            await asyncio.sleep(started + (done - skip) / per_second - loop.time())

        for index, (user_id, records) in enumerate(users):
            if index < skip:
                continue
            value = encode_events(unique_events([records])[-self._cap :])
            pending.append(("SET", _HISTORY.key(user_id.encode()), value, "EX", self._ttl))
            size += len(value)
            if len(pending) >= batch or size >= 1 << 20:
                await flush()
        if pending:
            await flush()

    def _part(self, reply: Reply) -> NDArray[np.void]:
        if isinstance(reply, CommandError):
            raise reply
        value = reply if isinstance(reply, bytes) else b""
        try:
            return decode_events(value, tail=len(value) == self._cap * CHUNK_BYTES)
        except MalformedHistoryError:
            self.counts.undecoded += 1
        try:
            return decode_events(value, tail=True)  # what was appended to something foreign stands at its end
        except MalformedHistoryError:
            return np.empty(0, EVENT)

    def _record(self, event: Event) -> tuple[int, int, int, float]:
        code = self._codes.get(event.event)
        if code is None:
            raise ValueError(f"event {event.event!r} is not declared. Declared: {', '.join(self._codes)}")
        if not 0 <= event.ts < 2**32:
            raise ValueError(f"ts {event.ts!r} is not in 0 to 2**32 - 1 epoch seconds")
        if not abs(event.weight) <= _LARGEST:
            raise ValueError(f"weight {event.weight!r} is not a finite f32")
        return key_hash(event.item_id.encode()), int(event.ts), code, event.weight

    def _add(self, user: bytes, value: bytes) -> list[Command]:
        key = _EVENTS.key(user)
        return [("APPEND", key, value), ("EXPIRE", key, self._ttl)]

    async def _displace(self, user: bytes, value: bytes, deadline: float) -> None:
        key, aside, most = _EVENTS.key(user), _MALFORMED.key(user), 2 * self._cap * CHUNK_BYTES
        moved = await append_anew(self._commands, key, value, aside=aside, ttl=self._ttl, most=most, deadline=deadline)
        if moved:
            self.counts.displaced += 1
        if moved and self.counts.displaced == 1:
            logger.warning("%r held something that isn't behaviour. It is %r now; others are only counted.", key, aside)

    async def _trim(self, key: bytes, timeout: float) -> None:
        try:
            if not await self._commands.trim(key, self._cap * CHUNK_BYTES, timeout=timeout):
                self.counts.untrimmed += 1
        except StoreError:
            self.counts.untrimmed += 1


def _raise_refused(replies: Sequence[Reply]) -> None:
    for reply in replies:
        if isinstance(reply, CommandError):
            raise reply


def _ascending(ts: NDArray[np.uint32], item: NDArray[np.uint64], code: NDArray[np.uint32]) -> NDArray[np.bool_]:
    """Return bool[m - 1]: each (ts, item, code) is above the one before it."""
    later: NDArray[np.bool_] = ts[1:] > ts[:-1]
    if later.all():
        return later
    above: NDArray[np.bool_] = item[1:] > item[:-1]
    above |= (item[1:] == item[:-1]) & (code[1:] > code[:-1])
    above &= ts[1:] == ts[:-1]
    above |= later
    return above
