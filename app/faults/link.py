"""One proxied connection: two sockets, two directions, and the ways in which it ends."""

from __future__ import annotations

import asyncio
import socket
import struct
from urllib.parse import unquote, urlsplit

from app.faults.pipe import CHUNK, Pipe, Way

CONNECT_SECONDS = 5.0
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # SO_LINGER on, 0 s: closing throws the rest away and sends RST


class Link:
    """A connection of `client`, passed on to `upstream`; `buffer` bounds what each direction holds."""

    def __init__(self, client: socket.socket, upstream: str, up: Way, down: Way, buffer: int) -> None:
        self._client = client
        self._upstream = upstream
        self._ways = (up, down)
        self._buffer = buffer
        self._server: socket.socket | None = None
        self._writers: list[asyncio.StreamWriter] = []
        self._pipes: list[Pipe] = []
        self._broken = False

    async def run(self) -> None:
        """Until both directions have ended. Raises OSError when the upstream can't be reached."""
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                self._server = await _connected(self._upstream)
            near = await asyncio.open_connection(sock=self._client, limit=CHUNK)
            far = await asyncio.open_connection(sock=self._server, limit=CHUNK)
            self._writers = [near[1], far[1]]
            self._pipes = [
                Pipe(self._ways[0], near[0], far[1], self._buffer),
                Pipe(self._ways[1], far[0], near[1], self._buffer),
            ]
            try:
                async with asyncio.TaskGroup() as both:
                    for pipe in self._pipes:
                        both.create_task(pipe.run())
            except* OSError:
                self.reset()  # one side is gone without a goodbye; the other learns it the same way
        except OSError:
            self.reset()
            raise
        finally:
            self.close()

    def cut(self, *, down: bool) -> None:
        """End one direction (FIN behind what is held); the other goes on."""
        if self._pipes:
            self._pipes[down].cut()

    def reset(self) -> None:
        """Let both sides see RST (a unix socket has none: an error or an end there) when this is closed."""
        self._broken = True
        for end in (self._client, self._server):
            if end is not None and end.family != socket.AF_UNIX and end.fileno() >= 0:
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)

    def close(self) -> None:
        """Close both sockets: at once when reset, else behind what was written. Does nothing the second time."""
        for writer in self._writers:
            if self._broken:
                writer.transport.abort()
            else:
                writer.close()
        if not self._writers:
            self._client.close()
            if self._server is not None:
                self._server.close()


async def _connected(upstream: str) -> socket.socket:
    url = urlsplit(upstream if "://" in upstream else f"tcp://{upstream}")
    path = url.scheme == "unix"
    made = socket.socket(socket.AF_UNIX if path else socket.AF_INET)
    made.setblocking(False)
    try:
        address = unquote(url.path) if path else (url.hostname, url.port)
        await asyncio.get_running_loop().sock_connect(made, address)
        if not path:
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except BaseException:
        made.close()
        raise
    return made
