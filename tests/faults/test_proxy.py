"""The proxy over real sockets: bytes arrive as they were sent, later, or not at all, as its faults say."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.faults.pipe import Faults
from app.faults.proxy import Proxy
from tests.waiting import comes

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
PATIENCE = 10.0


@contextlib.asynccontextmanager
async def echoing(path: Path | None = None) -> AsyncIterator[str]:
    """A server that sends back what it gets; its upstream name."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        writer.close()

    if path is None:
        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        name = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    else:
        server = await asyncio.start_unix_server(echo, path)
        name = f"unix://{path}"
    try:
        yield name
    finally:
        server.close()


@contextlib.asynccontextmanager
async def proxied(upstream: str, **options: Any) -> AsyncIterator[tuple[Proxy, Callable[[], Awaitable[Streams]]]]:
    proxy = Proxy(upstream, **options)
    port = await proxy.start()
    opened: list[asyncio.StreamWriter] = []

    async def connect() -> Streams:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        opened.append(writer)
        return reader, writer

    try:
        yield proxy, connect
    finally:
        await proxy.stop()
        for writer in opened:
            writer.transport.abort()
        await asyncio.sleep(0)


def soon(work: Awaitable[Any]) -> Awaitable[Any]:
    return asyncio.wait_for(work, PATIENCE)


async def echoed(streams: Streams, data: bytes) -> bytes:
    streams[1].write(data)
    return bytes(await soon(streams[0].readexactly(len(data))))


async def silent(reader: asyncio.StreamReader) -> bool:
    """Nothing comes; a loop turn or two is enough on one machine, a little more is given."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(0.05):
            await reader.read(1)
            return False
    return True


def run(work: Awaitable[None]) -> None:
    async def main() -> None:
        await work

    asyncio.run(main())


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    chunks=st.lists(st.binary(min_size=1, max_size=3000), min_size=1, max_size=8),
    faults=st.lists(
        st.builds(
            Faults, latency=st.floats(0, 0.004), jitter=st.floats(0, 0.004), bandwidth=st.sampled_from([1e6, 1e7, 1e9])
        ),
        min_size=1,
        max_size=4,
    ),
    buffer=st.sampled_from([1, 1000, 1 << 20]),
)
def test_late_and_slow_bytes_arrive_complete_and_in_order(
    chunks: list[bytes], faults: list[Faults], buffer: int
) -> None:
    async def work() -> None:
        async with echoing() as upstream, proxied(upstream, buffer=buffer) as (proxy, connect):
            reader, writer = await connect()
            for at, chunk in enumerate(chunks):
                proxy.set(up=faults[at % len(faults)], down=faults[(at + 1) % len(faults)])
                writer.write(chunk)
                await writer.drain()
            writer.write_eof()
            assert await soon(reader.read(-1)) == b"".join(chunks)
            assert proxy.up.received == proxy.up.sent == proxy.down.sent == sum(map(len, chunks))
            await comes(lambda: proxy.connections == 0, "its end")
            assert (proxy.up.held, proxy.down.held, proxy.unreachable) == (0, 0, 0)

    run(work())


def test_latency_holds_every_reply_and_is_switched_on_an_open_connection(tmp_path: Path) -> None:
    async def work() -> None:
        loop = asyncio.get_running_loop()
        async with echoing(tmp_path / "s") as upstream, proxied(upstream) as (proxy, connect):
            streams = await connect()
            assert await echoed(streams, b"before") == b"before"
            proxy.set(down=Faults(latency=0.05))
            for _ in range(2):
                started = loop.time()
                assert await echoed(streams, b"late") == b"late"
                assert loop.time() - started >= 0.05  # a lower bound: nothing is ever sent early
            proxy.heal()
            assert await echoed(streams, b"after") == b"after"

    run(work())


def test_jitter_is_the_same_for_the_same_seed() -> None:
    def delays(seed: int) -> list[float]:
        way = Proxy("127.0.0.1:1", seed=seed).down
        way.faults = Faults(latency=1.0, jitter=0.5)
        return [way.delay() for _ in range(20)]

    assert delays(3) == delays(3) != delays(4)
    assert all(1.0 <= delay <= 1.5 for delay in delays(3))


def test_a_black_hole_takes_bytes_and_its_connections_stay_silent_while_new_ones_work_after_it() -> None:
    async def work() -> None:
        async with echoing() as upstream, proxied(upstream) as (proxy, connect):
            old, untouched = await connect(), await connect()
            assert await echoed(old, b"x") == await echoed(untouched, b"x") == b"x"
            proxy.set(down=Faults(hole=True))
            old[1].write(b"lost")
            await comes(lambda: proxy.down.swallowed == 4, "the bytes")
            proxy.heal()
            old[1].write(b"more")
            await comes(lambda: proxy.down.swallowed == 8, "the bytes")
            assert await silent(old[0])
            assert await echoed(untouched, b"whole") == b"whole"
            assert await echoed(await connect(), b"new") == b"new"
            old[1].write_eof()
            await comes(lambda: proxy.connections == 2, "its end")  # given up by its client: closed on both sides

    run(work())


def test_what_was_on_its_way_when_the_hole_opened_is_lost_too() -> None:
    async def work() -> None:
        async with echoing() as upstream, proxied(upstream) as (proxy, connect):
            _, writer = await connect()
            proxy.set(up=Faults(latency=0.02))
            writer.write(b"under way")
            await comes(lambda: proxy.up.held == 9, "the bytes")
            proxy.set(up=Faults(hole=True))
            await comes(lambda: proxy.up.swallowed == 9, "the bytes")
            assert (proxy.up.sent, proxy.up.held) == (0, 0)

    run(work())


def test_a_reset_is_seen_as_one() -> None:
    async def work() -> None:
        async with echoing() as upstream, proxied(upstream) as (proxy, connect):
            streams = await connect()
            assert await echoed(streams, b"x") == b"x"
            assert await proxy.reset() == 1
            with pytest.raises(ConnectionResetError):
                await soon(streams[0].read(1))
            assert (proxy.resets, proxy.connections, proxy.unreachable) == (1, 0, 0)
            assert await echoed(await connect(), b"x") == b"x"

    run(work())


def test_a_half_closed_connection_still_takes_bytes_the_other_way() -> None:
    async def work() -> None:
        async with echoing() as upstream, proxied(upstream) as (proxy, connect):
            reader, writer = await connect()
            assert await echoed((reader, writer), b"x") == b"x"
            assert proxy.half_close(down=True) == 1
            assert await soon(reader.read(-1)) == b""
            writer.write(b"still heard")
            await comes(lambda: proxy.up.sent == 1 + len(b"still heard"), "the bytes")
            await comes(lambda: proxy.down.swallowed == len(b"still heard"), "the bytes")

    run(work())


def test_connections_that_are_not_accepted_wait_in_the_queue_and_are_served_later() -> None:
    async def work() -> None:
        async with echoing() as upstream, proxied(upstream) as (proxy, connect):
            await proxy.stop_accepting()
            streams = await connect()
            streams[1].write(b"anybody?")
            assert await silent(streams[0])
            assert proxy.accepted == 0
            proxy.accept()
            assert await soon(streams[0].readexactly(8)) == b"anybody?"

    run(work())


def test_a_receiver_that_does_not_read_stops_the_sender_at_the_buffers_size() -> None:
    sent = 64 << 20

    async def work() -> None:
        async with echoing() as upstream, proxied(upstream, buffer=1 << 16) as (proxy, connect):
            _, writer = await connect()
            proxy.set(up=Faults(latency=30.0))
            writer.write(bytes(sent))
            await comes(lambda: proxy.up.held >= 1 << 16, "the bytes")
            writer.write(b"")
            assert proxy.up.most_held <= 2 << 16
            assert proxy.up.received < sent

    run(work())


def test_a_limited_bandwidth_is_shared_by_all_connections() -> None:
    async def work() -> None:
        loop = asyncio.get_running_loop()
        async with echoing() as upstream, proxied(upstream) as (proxy, connect):
            one, two = await connect(), await connect()
            proxy.set(down=Faults(bandwidth=100_000))
            started = loop.time()
            await asyncio.gather(echoed(one, bytes(2500)), echoed(two, bytes(2500)))
            assert loop.time() - started >= 0.05  # 5,000 bytes at 100,000 a second: a lower bound

    run(work())


def test_an_upstream_that_is_not_there_is_a_reset_and_is_counted() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    async def work() -> None:
        async with proxied(f"127.0.0.1:{port}") as (proxy, connect):
            reader, _ = await connect()
            with pytest.raises(ConnectionResetError):
                await soon(reader.read(1))
            await comes(lambda: proxy.unreachable == 1, "its count")

    run(work())
