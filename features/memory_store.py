"""A store in memory that answers like Redis, for tests, demos and notebooks.

It knows the commands that recserve sends (the keys of `MemoryStore.handlers`), with
their types, errors and times to live on an injected clock. Faults and delays come in
through `before`, so nothing needs patching.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from features.commands import Argument, Command, Reply
from features.errors import CommandError, StoreTimeout, StoreUnavailable

Before = Callable[[Sequence[Command]], Awaitable[None]]
_WRONG_TYPE = "WRONGTYPE Operation against a key holding the wrong kind of value"


class MemoryStore:
    """`features.commands.Commands` in memory.

    clock   epoch seconds, for times to live
    before  awaited before each round trip with its commands; may sleep, or raise a StoreError

    `round_trips` counts calls that reached the store, `commands` the commands in them.
    """

    def __init__(self, clock: Callable[[], float] = time.time, before: Before | None = None) -> None:
        self._clock = clock
        self.before = before
        self.round_trips = 0
        self.commands = 0
        self._values: dict[bytes, bytes | dict[bytes, bytes]] = {}
        self._expires: dict[bytes, float] = {}
        self._closed = False
        self.handlers: dict[str, Callable[..., Reply]] = {
            "PING": lambda: b"PONG",
            "GET": self._string,
            "MGET": self._mget,
            "SET": self._set,
            "APPEND": self._append,
            "GETRANGE": self._getrange,
            "STRLEN": lambda key: len(self._string(key) or b""),
            "HSET": self._hset,
            "HGET": lambda key, name: self._hash(key).get(name),
            "HMGET": lambda key, *names: [self._hash(key).get(name) for name in names],
            "HGETALL": lambda key: [part for pair in self._hash(key).items() for part in pair],
            "EXISTS": lambda *keys: sum(self._live(key) is not None for key in keys),
            "EXPIRE": self._expire,
            "TTL": self._ttl,
            "RENAME": self._rename,
            "DEL": self._delete,
            "UNLINK": self._delete,
        }

    async def execute(self, commands: Sequence[Command], *, timeout: float, atomic: bool = False) -> list[Reply]:
        """See `Commands.execute`."""
        if not commands:
            return []
        await self._arrive(commands, timeout)
        unknown = [command for command in commands if _name(command) not in self.handlers]
        if atomic and unknown:
            raise CommandError(f"ERR unknown command '{_name(unknown[0])}'")
        return [self._answer(command) for command in commands]

    async def trim(self, key: bytes, keep: int, *, timeout: float) -> bool:
        """See `Commands.trim`."""
        await self._arrive([("GETRANGE", key, -keep, -1)], timeout)
        value = self._string(key)
        if value:
            self._values[key] = value[-keep:]
        return True

    async def update(
        self, key: bytes, read: Command, change: Callable[[Reply], Sequence[Command]], *, timeout: float
    ) -> list[Reply] | None:
        """See `Commands.update`. Nobody can write in between here."""
        await self._arrive([read], timeout)
        wanted = change(self._answer(read))
        return await self.execute(wanted, timeout=timeout, atomic=True)

    async def close(self) -> None:
        """See `Commands.close`."""
        self._closed = True

    async def _arrive(self, commands: Sequence[Command], timeout: float) -> None:
        if self._closed:
            raise StoreUnavailable("the store's client is closed")
        if timeout <= 0:
            raise StoreTimeout("no time left to ask the store")
        if self.before is not None:
            try:
                async with asyncio.timeout(timeout):
                    await self.before(commands)
            except TimeoutError as error:
                raise StoreTimeout(f"the store did not answer within {timeout * 1000:.0f} ms") from error
        self.round_trips += 1
        self.commands += len(commands)

    def _answer(self, command: Command) -> Reply:
        handler = self.handlers.get(_name(command))
        if handler is None:
            return CommandError(f"ERR unknown command '{_name(command)}'")
        try:
            return handler(*[_bytes(argument) for argument in command[1:]])
        except CommandError as error:
            return error
        except (TypeError, ValueError) as error:
            return CommandError(f"ERR wrong arguments for '{_name(command)}': {error}")

    def _live(self, key: bytes) -> bytes | dict[bytes, bytes] | None:
        if self._expires.get(key, float("inf")) <= self._clock():
            self._delete(key)
        return self._values.get(key)

    def _string(self, key: bytes) -> bytes | None:
        value = self._live(key)
        if isinstance(value, dict):
            raise CommandError(_WRONG_TYPE)
        return value

    def _hash(self, key: bytes) -> dict[bytes, bytes]:
        value = self._live(key)
        if isinstance(value, bytes):
            raise CommandError(_WRONG_TYPE)
        return value or {}

    def _mget(self, *keys: bytes) -> list[Reply]:
        values = [self._live(key) for key in keys]
        return [value if isinstance(value, bytes) else None for value in values]

    def _set(self, key: bytes, value: bytes, *options: bytes) -> bytes:
        seconds: float | None = None
        match [option.upper() for option in options]:
            case [b"EX", count]:
                seconds = int(count)
            case []:
                pass
            case _:
                raise CommandError("ERR syntax error")
        self._delete(key)
        self._values[key] = value
        if seconds is not None:
            self._expires[key] = self._clock() + seconds
        return b"OK"

    def _append(self, key: bytes, value: bytes) -> int:
        joined = (self._string(key) or b"") + value
        self._values[key] = joined
        return len(joined)

    def _getrange(self, key: bytes, start: bytes, end: bytes) -> bytes:
        value = self._string(key) or b""
        first, last = int(start), int(end)
        first = max(first + len(value), 0) if first < 0 else first
        last = last + len(value) if last < 0 else last
        return value[first : last + 1] if last >= first else b""

    def _hset(self, key: bytes, *pairs: bytes) -> int:
        if not pairs or len(pairs) % 2:
            raise CommandError("ERR wrong number of arguments for 'hset' command")
        fields = self._hash(key)
        before = len(fields)
        fields.update(zip(pairs[::2], pairs[1::2], strict=True))
        self._values[key] = fields
        return len(fields) - before

    def _expire(self, key: bytes, seconds: bytes) -> int:
        if self._live(key) is None:
            return 0
        self._expires[key] = self._clock() + int(seconds)
        return 1

    def _ttl(self, key: bytes) -> int:
        if self._live(key) is None:
            return -2
        expires = self._expires.get(key)
        return -1 if expires is None else round(expires - self._clock())

    def _rename(self, key: bytes, new: bytes) -> bytes:
        value, expires = self._live(key), self._expires.get(key)
        if value is None:
            raise CommandError("ERR no such key")
        self._delete(key, new)
        self._values[new] = value
        if expires is not None:
            self._expires[new] = expires
        return b"OK"

    def _delete(self, *keys: bytes) -> int:
        removed = 0
        for key in keys:
            removed += self._values.pop(key, None) is not None
            self._expires.pop(key, None)
        return removed


def _name(command: Command) -> str:
    name: Any = command[0]
    return (name.decode() if isinstance(name, bytes) else str(name)).upper()


def _bytes(argument: Argument) -> bytes:
    return argument if isinstance(argument, bytes) else str(argument).encode()
