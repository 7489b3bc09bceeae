"""Letting go of connections: those in use are asked to close, idle ones are closed when their time is over."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import uvloop

from app.accept import Peers
from app.listeners import Listener, bind, serve
from app.server import Stop
from tests.waiting import comes

REQUEST = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"


async def answer(scope: Any, receive: Any, send: Callable[[Any], Awaitable[None]]) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


def run(work: Callable[[tuple[str, int], Stop], Coroutine[Any, Any, None]]) -> None:
    """Do it against a server that serves."""

    async def main() -> None:
        sock, stop, ready = bind("127.0.0.1", 0), Stop(), asyncio.Event()

        async def start() -> None:
            """Nothing to load."""

        serving = asyncio.create_task(
            serve(
                [Listener("public", answer, sock)],
                start=start,
                on_drain=lambda: None,
                ready=ready.set,
                stop=stop,
                peers=Peers(),
                drain_seconds=1,
                signals=False,
            )
        )
        address = sock.getsockname()
        await ready.wait()
        await work(address, stop)
        await asyncio.wait_for(serving, 20)

    uvloop.run(main())


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    writer.write(REQUEST)
    head = await reader.readuntil(b"\r\n\r\n")
    assert await reader.readexactly(2) == b"ok"
    return head.lower()


def test_a_lingering_connection_is_told_to_close_with_its_next_answer() -> None:
    async def work(address: tuple[str, int], stop: Stop) -> None:
        reader, writer = await asyncio.open_connection(*address)
        assert b"connection: close" not in await ask(reader, writer)
        stop.linger = 30.0
        stop.set()
        [server] = stop.servers
        await comes(lambda: server.config.loaded_app is not answer, "the retirement")
        # Nothing crosses: the server keeps it open until it is asked again.
        assert b"connection: close" in await ask(reader, writer)
        assert await reader.read() == b""
        writer.close()

    run(work)


def test_an_idle_connection_is_closed_when_its_time_is_over() -> None:
    async def work(address: tuple[str, int], stop: Stop) -> None:
        reader, writer = await asyncio.open_connection(*address)
        await ask(reader, writer)
        stop.linger = 0.1
        stop.set()
        assert await reader.read() == b""
        writer.close()

    run(work)


def test_a_second_request_to_stop_cuts_lingering_short() -> None:
    async def work(address: tuple[str, int], stop: Stop) -> None:
        reader, writer = await asyncio.open_connection(*address)
        await ask(reader, writer)
        stop.linger = 300.0
        stop.set()
        stop.set()
        assert await reader.read() == b""
        writer.close()

    run(work)
