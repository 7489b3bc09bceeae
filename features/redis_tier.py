"""Redis or Valkey over the network: the only file that knows the client library.

The library's defaults are those of a batch job (5 s timeouts, ten retries, a pool that
raises at its limit), so this file uses its connections (URLs, TLS, handshake, parsing)
and does the rest itself: a bounded stack of idle connections, one timer per call, no
retries. Three commands cost between a third and a half of the CPU time that
`redis.asyncio.Redis.pipeline` takes, and about two thirds of the library's blocking pool.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import hiredis
from redis.asyncio.connection import AbstractConnection, ConnectionPool
from redis.exceptions import RedisError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from features.commands import Command, Reply
from features.errors import CommandError, StoreError, StoreTimeout, StoreUnavailable

T = TypeVar("T")

# The package's type says "a tuple of one"; it packs a tuple of any length.
_pack: Callable[[Any], bytes] = hiredis.pack_command


class RedisTier:
    """`features.commands.Commands` over one server. Belongs to one event loop.

    url              redis://, rediss:// (TLS), unix://, and valkey:// spelled likewise
    timeout          seconds; no call waits longer, whatever its caller allows
    connect_timeout  seconds for a new connection, inside the call's own time
    connections      at most so many at once; callers beyond wait in line, inside their time

    observe          called with the outcome of every call: None, or what it raises; and with each
                     command that the server refused

    `opened` and `discarded` count connections. The constructor does no I/O; it raises
    ValueError for a URL that can't be used.
    """

    def __init__(
        self,
        url: str,
        *,
        timeout: float = 0.05,
        connect_timeout: float = 0.05,
        connections: int = 16,
        observe: Callable[[StoreError | None], None] = lambda _: None,
    ) -> None:
        if url.startswith("valkey"):
            url = "redis" + url.removeprefix("valkey")
        try:
            # RESP2 and no driver_info: a new connection is usable without a round trip.
            self._factory = ConnectionPool.from_url(
                url,
                protocol=2,
                driver_info=None,
                socket_timeout=None,
                socket_connect_timeout=connect_timeout,
                max_connections=connections,
            )
            self._connect()
        except (TypeError, AttributeError) as error:
            raise ValueError(f"the store's URL has a parameter that can't be used: {error}") from error
        self._timeout = timeout
        self._observe = observe
        self._slots = asyncio.Semaphore(self._factory.max_connections)
        self._idle: list[AbstractConnection] = []
        self._closed = False
        self.opened = 0
        self.discarded = 0

    async def execute(self, commands: Sequence[Command], *, timeout: float, atomic: bool = False) -> list[Reply]:
        """See `Commands.execute`."""
        if not commands:
            return []

        async def talk(connection: AbstractConnection) -> list[Reply]:
            if atomic:
                return await _transaction(connection, commands)
            return await _exchange(connection, commands, self._observe)

        return await self._with_connection(talk, timeout)

    async def trim(self, key: bytes, keep: int, *, timeout: float) -> bool:
        """See `Commands.trim`."""

        async def talk(connection: AbstractConnection) -> bool:
            _, tail = await _exchange(connection, [("WATCH", key), ("GETRANGE", key, -keep, -1)])
            if not isinstance(tail, bytes) or not tail:
                await _exchange(connection, [("UNWATCH",)])
                if isinstance(tail, CommandError):
                    raise tail
                return True
            return await _transaction(connection, [("SET", key, tail, "KEEPTTL")]) != []

        return await self._with_connection(talk, timeout)

    async def update(
        self, key: bytes, read: Command, change: Callable[[Reply], Sequence[Command]], *, timeout: float
    ) -> list[Reply] | None:
        """See `Commands.update`."""

        async def talk(connection: AbstractConnection) -> list[Reply] | None:
            _, found = await _exchange(connection, [("WATCH", key), read])
            wanted = change(found)
            if not wanted:
                await _exchange(connection, [("UNWATCH",)])
                return []
            return await _transaction(connection, wanted) or None

        return await self._with_connection(talk, timeout)

    async def close(self) -> None:
        """See `Commands.close`. Calls in flight finish; their connections close then."""
        self._closed = True
        while self._idle:
            await self._idle.pop().disconnect(nowait=True)

    async def _with_connection(self, talk: Callable[[AbstractConnection], Awaitable[T]], timeout: float) -> T:
        timeout = min(timeout, self._timeout)
        if self._closed:
            raise StoreUnavailable("the store's client is closed")
        if timeout <= 0:
            raise StoreTimeout("no time left to ask the store")
        try:
            async with asyncio.timeout(timeout), self._slots:
                connection = await self._take()
                try:
                    result = await talk(connection)
                except CommandError:
                    await self._give_back(connection)
                    raise
                except BaseException:
                    # A reply may still be on its way: the next user would read it as their own.
                    self.discarded += 1
                    await connection.disconnect(nowait=True)
                    raise
                await self._give_back(connection)
                self._observe(None)
                return result
        except CommandError as error:
            self._observe(error)
            raise
        except (TimeoutError, RedisTimeoutError) as error:
            late = StoreTimeout(f"the store did not answer within {timeout * 1000:.0f} ms")
            self._observe(late)
            raise late from error
        except (RedisError, OSError) as error:
            away = StoreUnavailable(f"{type(error).__name__}: {error}")
            self._observe(away)
            raise away from error

    async def _take(self) -> AbstractConnection:
        while self._idle:
            connection = self._idle.pop()
            # Readable while idle means that the server closed it (or talks out of turn).
            if not await connection.can_read():
                return connection
            self.discarded += 1
            await connection.disconnect(nowait=True)
        self.opened += 1
        return self._connect()

    async def _give_back(self, connection: AbstractConnection) -> None:
        if self._closed:
            await connection.disconnect(nowait=True)
        else:
            self._idle.append(connection)

    def _connect(self) -> AbstractConnection:
        connection: AbstractConnection = self._factory.connection_class(**self._factory.connection_kwargs)
        return connection


async def _exchange(
    connection: AbstractConnection,
    commands: Sequence[Command],
    refused: Callable[[CommandError], None] = lambda _: None,
) -> list[Reply]:
    packed = b"".join([_pack(command) for command in commands])
    try:
        await connection.send_packed_command(packed, check_health=False)
    except RuntimeError as error:
        # uvloop's word for a transport that the server has closed meanwhile.
        raise ConnectionResetError(f"the connection is closed: {error}") from error
    read = connection.read_response
    replies: list[Reply] = []
    for _ in commands:
        try:
            replies.append(await read())
        except ResponseError as error:
            refusal = CommandError(str(error))
            refused(refusal)
            replies.append(refusal)
    return replies


async def _transaction(connection: AbstractConnection, commands: Sequence[Command]) -> list[Reply]:
    """Return the replies of a MULTI block; an empty list when a watched key had changed."""
    answers = await _exchange(connection, [("MULTI",), *commands, ("EXEC",)])
    outcome: Any = answers.pop()
    refused = next((answer for answer in answers if isinstance(answer, CommandError)), None)
    if refused is not None or isinstance(outcome, CommandError):
        raise refused or outcome
    return [CommandError(str(o)) if isinstance(o, ResponseError) else o for o in outcome or ()]
