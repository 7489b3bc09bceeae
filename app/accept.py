"""Taking connections from a listening socket that other processes share, so that none takes them all.

Whoever calls accept first gets a connection, and libuv's own server takes all that wait: of a burst of kept
connections one worker of four got every one. Here a process that holds more than its peers do gives them a moment.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import socket
from collections.abc import Callable
from dataclasses import dataclass

MOMENT = 0.001
# At a time as many as keep a process within a sixteenth of what it holds: a thousand clients must not wait in line.
_PART = 16
_RETRY = 1.0
_FULL = 0.05

logger = logging.getLogger("recserve.listeners")


@dataclass(slots=True)
class Peers:
    """How many connections the processes that share the socket hold on average; None: there are no others."""

    connections: float | None = None


class Acceptor:
    """Accepts until closed, for uvicorn in place of asyncio's server. Belongs to one event loop.

    `held` is how many connections this process has open. With `most` of them it leaves the others waiting.
    """

    def __init__(
        self,
        sock: socket.socket,
        protocol: Callable[[], asyncio.Protocol],
        held: Callable[[], int],
        peers: Peers,
        most: float = math.inf,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._socket = sock
        self._protocol = protocol
        self._held = held
        self._peers = peers
        self._most = most
        self._opening: set[asyncio.Task[object]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._loop.add_reader(sock, self._waiting)

    def close(self) -> None:
        """Accept no more; what waits is left to the other processes."""
        self._loop.remove_reader(self._socket)
        if self._timer is not None:
            self._timer.cancel()

    async def wait_closed(self) -> None:
        """Wait until what was accepted has become a connection."""
        if self._opening:
            await asyncio.wait(self._opening)

    @property
    def _all(self) -> int:
        return self._held() + len(self._opening)

    def _waiting(self) -> None:
        mean = self._peers.connections
        if mean is None or self._all < mean + 1:
            self._accept()
        else:
            self._pause(MOMENT)

    def _pause(self, seconds: float) -> None:
        self._loop.remove_reader(self._socket)
        self._timer = self._loop.call_later(seconds, self._go_on)

    def _go_on(self) -> None:
        self._loop.add_reader(self._socket, self._waiting)
        self._accept()

    def _accept(self) -> None:
        for _ in range(1 + self._all // _PART):
            if self._all >= self._most:
                self._pause(_FULL)
                return
            try:
                connection, _ = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return  # another process was quicker, or the client has gone
            except OSError as error:
                # Descriptors or memory are used up: the socket stays readable, and trying on would burn the CPU.
                logger.error("no connection can be accepted for %g s: %s", _RETRY, error)
                self._pause(_RETRY)
                return
            self._open(connection)

    def _open(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        task = self._loop.create_task(self._connect(connection), name="accept")
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    async def _connect(self, connection: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._protocol, connection)
        except OSError:
            connection.close()  # it broke before it began
