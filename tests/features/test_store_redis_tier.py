"""What only a network can do to a client: real sockets, real servers."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import uvloop

from features.commands import Command, Reply
from features.embedded import EmbeddedStore
from features.errors import StoreTimeout, StoreUnavailable
from features.redis_tier import RedisTier

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def listening(tmp_path: Path, handler: Handler) -> AsyncIterator[str]:
    tasks: list[asyncio.Task[None]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await handler(reader, writer)
        await reader.read()
        writer.close()
        await writer.wait_closed()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.append(asyncio.create_task(serve(reader, writer)))

    async with await asyncio.start_unix_server(accept, str(tmp_path / "s")):
        yield f"unix://{tmp_path / 's'}"
        await asyncio.gather(*tasks)


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


@asynccontextmanager
async def tier(url: str, **options: float) -> AsyncIterator[RedisTier]:
    made = RedisTier(url, **options)  # type: ignore[arg-type]  # one of the options is an int
    try:
        yield made
    finally:
        await made.close()


def test_silent_server_costs_no_more_than_the_caller_s_or_the_tier_s_time(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with listening(tmp_path, silent) as url, tier(url, timeout=0.02) as store:
            for allowed, at_most in ((0.005, 0.1), (30.0, 0.1)):
                began = asyncio.get_running_loop().time()
                with pytest.raises(StoreTimeout):
                    await store.execute([("PING",)], timeout=allowed)
                assert asyncio.get_running_loop().time() - began < at_most
            assert store.discarded == store.opened == 2

    asyncio.run(scenario())


def test_cancelled_command_s_reply_never_reaches_the_next_caller(valkey_url: str) -> None:
    async def scenario() -> None:
        async with tier(valkey_url, timeout=5.0) as store:
            await store.execute([("SET", "k", "mine")], timeout=5.0)
            for _ in range(20):
                task = asyncio.create_task(store.execute([("ECHO", "yours")], timeout=5.0))
                await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert await store.execute([("GET", "k")], timeout=5.0) == [b"mine"]
            assert store.discarded == 20

    asyncio.run(scenario())


def test_connections_are_bounded_and_waiting_for_one_is_inside_the_time(tmp_path: Path, valkey_url: str) -> None:
    async def scenario() -> None:
        async with tier(valkey_url, timeout=5.0, connections=3) as store:
            answers = await asyncio.gather(*[store.execute([("ECHO", i)], timeout=5.0) for i in range(50)])
            assert answers == [[str(i).encode()] for i in range(50)]
            assert store.opened == 3
        async with listening(tmp_path, silent) as url, tier(url, timeout=1.0, connections=1) as store:
            holding = asyncio.create_task(store.execute([("PING",)], timeout=1.0))
            await asyncio.sleep(0)
            with pytest.raises(StoreTimeout):
                await store.execute([("PING",)], timeout=0.01)
            holding.cancel()
            with pytest.raises(asyncio.CancelledError):
                await holding
            assert store.opened == 1

    asyncio.run(scenario())


def test_store_that_is_down_is_unavailable_and_one_that_came_back_answers_at_once(tmp_path: Path) -> None:
    store = EmbeddedStore(tmp_path / "store")

    async def scenario() -> None:
        url = store.start()
        async with tier(url, timeout=2.0) as client:
            assert await client.execute([("SET", "k", "v")], timeout=2.0) == [b"OK"]
            assert store.pid is not None
            os.kill(store.pid, signal.SIGKILL)
            outcomes: list[object] = []
            async with asyncio.timeout(5):
                while outcomes[-2:] != ["down", b"v"]:
                    try:
                        (value,) = await client.execute([("GET", "k")], timeout=2.0)
                        outcomes.append(value)
                    except StoreUnavailable:
                        outcomes.append("down")
                        await asyncio.sleep(0.005)

    try:
        asyncio.run(scenario())
    finally:
        store.stop()


def test_garbage_from_the_server_is_unavailable(tmp_path: Path) -> None:
    async def garbage(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"!garbage\r\n")

    async def scenario() -> None:
        async with listening(tmp_path, garbage) as url, tier(url, timeout=2.0) as store:
            with pytest.raises(StoreUnavailable):
                await store.execute([("PING",)], timeout=2.0)

    asyncio.run(scenario())


def test_trim_gives_way_to_a_writer_in_between(valkey_url: str) -> None:
    async def scenario() -> None:
        async with tier(valkey_url, timeout=5.0) as store, tier(valkey_url, timeout=5.0) as other:
            lost = 0
            await store.execute([("SET", "race", "")], timeout=5.0)
            for _ in range(100):
                trimmed, _ = await asyncio.gather(
                    store.trim(b"race", 10, timeout=5.0), other.execute([("APPEND", "race", "x" * 10)], timeout=5.0)
                )
                lost += not trimmed
            # Whoever won, no append was lost: what lies there is the end of what was appended.
            (length,) = await store.execute([("STRLEN", "race")], timeout=5.0)
            assert length in range(10, 10 * (lost + 3))

    asyncio.run(scenario())


def test_an_update_gives_way_to_a_writer_in_between(valkey_url: str) -> None:
    async def scenario() -> None:
        async with tier(valkey_url, timeout=5.0) as store:

            def more(found: Reply) -> list[Command]:
                return [("SET", "count", int(found) + 1 if isinstance(found, bytes) else 1)]

            updates = [store.update(b"count", ("GET", b"count"), more, timeout=5.0) for _ in range(50)]
            done = [replies for replies in await asyncio.gather(*updates) if replies is not None]
            assert await store.execute([("GET", "count")], timeout=5.0) == [str(len(done)).encode()]
            assert done

    asyncio.run(scenario())


@pytest.mark.parametrize("url", ["http://host", "redis://host/?no_such_option=1", "", "redis://host:port"])
def test_url_that_cannot_be_used_is_refused_at_once(url: str) -> None:
    with pytest.raises(ValueError):
        RedisTier(url)


def test_valkey_and_tls_urls_are_understood() -> None:
    for url in (
        "valkey://host:1/2",
        "valkeys://user:secret@host",
        "rediss://host?ssl_cert_reqs=none",
        "unix:///tmp/s?db=1",
    ):
        RedisTier(url)


def test_a_connection_that_broke_under_the_hand_is_an_outage_and_not_a_bug(tmp_path: Path) -> None:
    """uvloop raises RuntimeError when one writes to a transport that was closed a moment ago."""

    async def answering(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1 << 16)
        writer.write(b"+PONG\r\n")

    async def scenario() -> None:
        async with listening(tmp_path, answering) as url, tier(url, timeout=5.0) as store:
            await store.execute([("PING",)], timeout=5.0)
            [idle] = store._idle

            async def never() -> bool:
                return False

            idle.can_read = never  # type: ignore[assignment]  # it breaks between the look and the writing
            idle._writer.transport.abort()  # type: ignore[union-attr]
            await asyncio.sleep(0)
            with pytest.raises(StoreUnavailable):
                await store.execute([("PING",)], timeout=5.0)

    uvloop.run(scenario())
