"""Accepting from a socket that others accept from too."""

from __future__ import annotations

import asyncio
import errno
import math
import socket
from collections.abc import Coroutine
from typing import Any

import pytest
import uvloop

from app.accept import Acceptor, Peers
from app.gate import Gate
from app.server import _most_open
from tests.waiting import comes


def run(work: Coroutine[Any, Any, None]) -> None:
    uvloop.run(work)


class Side:
    """One of those who accept; within one loop it stands for a process."""

    def __init__(self, sock: Any, peers: Peers, most: float = math.inf) -> None:
        self.open: set[asyncio.BaseTransport] = set()
        self.acceptor = Acceptor(sock, self._protocol, lambda: len(self.open), peers, most)

    def _protocol(self) -> asyncio.Protocol:
        side = self

        class Keep(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                side.open.add(transport)

        return Keep()

    async def close(self) -> None:
        self.acceptor.close()
        await self.acceptor.wait_closed()
        for transport in self.open:
            transport.close()


async def connect(address: Any, count: int) -> list[socket.socket]:
    return [socket.create_connection(address) for _ in range(count)]


def test_who_holds_more_than_the_others_leaves_a_burst_to_them() -> None:
    async def work() -> None:
        with socket.create_server(("127.0.0.1", 0)) as sock:
            sock.setblocking(False)
            address, peers = sock.getsockname(), Peers(0.0)
            full = Side(sock, peers)
            clients = await connect(address, 8)
            await comes(lambda: len(full.open) == 8, "nobody else takes them")
            # Another descriptor of the same socket, as another process has it.
            other = sock.dup()
            free = Side(other, Peers(0.0))
            peers.connections = 4.0
            clients += await connect(address, 1)
            await comes(lambda: len(full.open) + len(free.open) == 9, "the ninth")
            assert len(free.open) == 1
            for side in (full, free):
                await side.close()
            other.close()
            for client in clients:
                client.close()

    run(work())


def test_a_process_alone_takes_all_at_once() -> None:
    async def work() -> None:
        with socket.create_server(("127.0.0.1", 0), backlog=256) as sock:
            sock.setblocking(False)
            alone = Side(sock, Peers())
            clients = await connect(sock.getsockname(), 200)
            await comes(lambda: len(alone.open) == 200, "all connections")
            await alone.close()
            for client in clients:
                client.close()

    run(work())


def test_after_closing_what_waits_is_left() -> None:
    async def work() -> None:
        with socket.create_server(("127.0.0.1", 0)) as sock:
            sock.setblocking(False)
            side = Side(sock, Peers(0.0))
            await side.close()
            [client] = await connect(sock.getsockname(), 1)
            await asyncio.sleep(0)
            assert not side.open
            connection, _ = sock.accept()
            connection.close()
            client.close()

    run(work())


class Exhausted:
    """A socket whose accept fails as when descriptors are used up, so many times."""

    def __init__(self, sock: socket.socket, times: int) -> None:
        self._sock = sock
        self.left = times

    def fileno(self) -> int:
        return self._sock.fileno()

    def accept(self) -> tuple[socket.socket, Any]:
        if self.left:
            self.left -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return self._sock.accept()


def test_without_descriptors_it_waits_and_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        with socket.create_server(("127.0.0.1", 0)) as sock:
            sock.setblocking(False)
            side = Side(Exhausted(sock, 1), Peers())
            [client] = await connect(sock.getsockname(), 1)
            await comes(lambda: side.open, "the connection")
            await side.close()
            client.close()

    run(work())
    assert [record.levelname for record in caplog.records] == ["ERROR"]


def test_with_as_many_as_it_may_hold_it_leaves_the_others_waiting() -> None:
    async def work() -> None:
        with socket.create_server(("127.0.0.1", 0)) as sock:
            sock.setblocking(False)
            side = Side(sock, Peers(), most=3)
            clients = await connect(sock.getsockname(), 5)
            await comes(lambda: len(side.open) == 3, "as many as it may hold")
            for _ in range(100):
                await asyncio.sleep(0)
            assert len(side.open) == 3
            side.open.pop().close()
            await comes(lambda: len(side.open) == 3, "one of those that waited")
            await side.close()
            for client in clients:
                client.close()

    run(work())


@pytest.mark.parametrize(("limit", "held"), [(4096, 4224), (752, 846), (10, 18)])
def test_beyond_the_limit_a_few_are_held_to_be_refused(limit: int, held: int) -> None:
    class Shell:
        gate = Gate(most_connections=limit)

    assert _most_open(Shell()) == held
    assert _most_open(object()) == math.inf
