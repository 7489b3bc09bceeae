"""A TCP proxy in front of a TCP or unix-socket server, whose faults are switched while connections go on.

A proxy belongs to one event loop. A direction is named by where bytes go: `up` to the server, `down` to its client.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from random import Random

from app.faults.link import Link
from app.faults.pipe import Faults, Way

_BACKLOG = 16


class Proxy:
    """Listens on a port of its own of 127.0.0.1 and passes every connection on to `upstream`.

    upstream  `host:port`, or a `redis://host:port` or `unix:///path` URL
    seed      of the jitter
    buffer    bytes that one direction of one connection holds; then its sender is made to wait
    """

    def __init__(self, upstream: str, *, seed: int = 0, buffer: int = 1 << 20) -> None:
        self._upstream = upstream
        self._buffer = buffer
        self._listener: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._links: dict[asyncio.Task[None], Link] = {}
        self.up = Way(Random(seed))
        self.down = Way(Random(seed + 1))
        self.accepted = 0
        self.unreachable = 0
        self.resets = 0

    async def start(self) -> int:
        """Listen; the port."""
        listener = socket.create_server(("127.0.0.1", 0), backlog=_BACKLOG)
        listener.setblocking(False)
        self._listener = listener
        self.accept()
        port: int = listener.getsockname()[1]
        return port

    async def stop(self) -> None:
        """Close the listener and every connection."""
        await self.stop_accepting()
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        await self._end(list(self._links))

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self._links)

    def set(self, *, up: Faults | None = None, down: Faults | None = None) -> None:
        """Switch a direction's faults, for open connections too; a direction left out stays as it is."""
        for way, faults in ((self.up, up), (self.down, down)):
            if faults is not None:
                way.faults = faults

    def heal(self) -> None:
        """No faults, and accept. What a black hole has swallowed stays lost to its connection."""
        self.set(up=Faults(), down=Faults())
        self.accept()

    def accept(self) -> None:
        """Accept connections (again)."""
        if self._accepting is None and self._listener is not None:
            self._accepting = asyncio.create_task(self._accept(self._listener), name="proxy accept")

    async def stop_accepting(self) -> None:
        """Leave new connections in the kernel's queue, where they look open and nothing answers."""
        if self._accepting is not None:
            self._accepting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._accepting
            self._accepting = None

    async def reset(self) -> int:
        """End every open connection by RST to both sides; how many."""
        links = list(self._links.items())
        for _, link in links:
            link.reset()
        await self._end([task for task, _ in links])
        self.resets += len(links)
        return len(links)

    def half_close(self, *, down: bool = True) -> int:
        """End one direction of every open connection, the other goes on; how many."""
        for link in self._links.values():
            link.cut(down=down)
        return len(self._links)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            client, _ = await loop.sock_accept(listener)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.accepted += 1
            link = Link(client, self._upstream, self.up, self.down, self._buffer)
            task = asyncio.create_task(link.run(), name="proxy connection")
            self._links[task] = link
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._links.pop(task).close()
        self.unreachable += not task.cancelled() and task.exception() is not None

    async def _end(self, tasks: list[asyncio.Task[None]]) -> None:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
