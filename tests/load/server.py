"""A small HTTP server on real sockets, in a thread, that misbehaves as it is told to."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

from app.load.plan import Phase, Plan, RequestClass
from app.load.requests import recommend_requests

ITEM = {"id": "1", "score": 0.5, "channels": ["vector"], "fields": {"title": '"level":7,"degraded":["x"]'}}


def document(**changes: Any) -> bytes:
    """An answer of `/recommend`, in the service's member order and without blanks."""
    answer: dict[str, Any] = {
        "request_id": "q", "scene": "home", "config": "9f2c01ab34de", "release": "r1", "items": [ITEM, ITEM],
        "buckets": {}, "degraded": [], "short": None, "level": 0, "cursor": None,
    }  # fmt: skip
    return json.dumps(answer | changes, separators=(",", ":")).encode()


def http(body: bytes = b"{}", status: int = 200, head: str = "") -> bytes:
    """A whole answer; `head` are further header lines, each with its line end."""
    return (
        f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\n{head}Content-Length: {len(body)}\r\n\r\n".encode()
        + body
    )


class Exchange:
    """One request at the server: `number` counts from 0 over all connections."""

    def __init__(self, number: int, path: str, body: bytes, transport: asyncio.Transport) -> None:
        self.number, self.path, self.body, self._transport = number, path, body, transport

    def answer(self, content: bytes) -> None:
        """Write bytes as they are."""
        self._transport.write(content)

    def close(self) -> None:
        """End the connection in order, after what was written."""
        self._transport.close()

    def reset(self) -> None:
        """End the connection with a RST."""
        raw = self._transport.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._transport.abort()


Behaviour = Callable[[Exchange], None]


class Server:
    """Use as a context manager; `behave` is called in the server's thread for every request."""

    def __init__(self, behave: Behaviour) -> None:
        self.requests = 0
        self.connections = 0
        self.address = ("127.0.0.1", 0)
        self._behave = behave
        self._up = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.address[1]}"

    def __enter__(self) -> Server:
        self._thread.start()
        assert self._up.wait(10)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()

    async def _serve(self) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        transports: set[asyncio.Transport] = set()
        server = self

        class Protocol(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                assert isinstance(transport, asyncio.Transport)
                server.connections += 1
                self.transport, self.received = transport, b""
                transports.add(transport)

            def connection_lost(self, error: Exception | None) -> None:
                transports.discard(self.transport)

            def data_received(self, data: bytes) -> None:
                self.received += data
                head, found, rest = self.received.partition(b"\r\n\r\n")
                if not found:
                    return
                _, told, length = head.lower().partition(b"content-length:")
                size = int(length.split(b"\r\n")[0]) if told else 0
                if len(rest) >= size:
                    self.received = b""
                    server.requests += 1
                    path = head.split(b" ", 2)[1].decode()
                    server._behave(Exchange(server.requests - 1, path, rest, self.transport))

        listening = await self._loop.create_server(Protocol, "127.0.0.1", 0, backlog=512)
        self.address = listening.sockets[0].getsockname()[:2]
        self._up.set()
        await self._end.wait()
        listening.close()
        for transport in transports:
            transport.abort()


def good(exchange: Exchange) -> None:
    """Answer as the service does."""
    exchange.answer(http(document()))


def plan(address: tuple[str, int], *phases: Phase, **more: Any) -> Plan:
    """One class of requests of a few users."""
    kind = RequestClass("home", recommend_requests("home", ("1", "2", None)))
    return Plan(address, (kind,), phases, **more)
