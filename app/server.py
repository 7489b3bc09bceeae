"""One uvicorn server: how long it keeps connections, and how it lets go of them."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import math
import socket
import time
from collections.abc import Callable, Iterator

import uvicorn

from app.accept import Acceptor, Peers
from app.asgi import App, Message, Receive, Scope, Send
from app.gate import Gate
from app.protocol import Protocol

# Longer than the 60 s that common proxies keep an idle connection, or they would reuse one that we just closed.
KEEP_ALIVE = 75
BACKLOG = 2048
# Connections beyond the limit that are being refused at a time; more of them wait to be accepted.
LEAST_REFUSED, MOST_REFUSED = 8, 128
_POLL = 0.05


class Stop:
    """Asked for once, it drains; asked for again, it cuts the drain short. `hurried` is called then.

    `linger` is how many seconds connections get to be closed by their clients (see `serve`).
    """

    def __init__(self, event: asyncio.Event | None = None) -> None:
        self.servers: list[uvicorn.Server] = []
        self.linger = 0.0
        self.hurried: Callable[[], None] = lambda: None
        self._event = event or asyncio.Event()

    def set(self) -> None:
        """Ask."""
        if self._event.is_set():
            for server in self.servers:
                server.force_exit = True
            self.hurried()
        self._event.set()

    def is_set(self) -> bool:
        """Whether it was asked for."""
        return self._event.is_set()

    async def wait(self) -> None:
        """Wait until it is asked for."""
        await self._event.wait()


class Server(uvicorn.Server):
    """A server that leaves signals to `serve`, which has to stop several of them in order, and shares its sockets."""

    def __init__(self, config: uvicorn.Config, peers: Peers) -> None:
        super().__init__(config)
        self._peers = peers

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept from bound sockets."""
        await self.lifespan.startup()
        loop = asyncio.get_running_loop()
        make = functools.partial(
            Protocol, config=self.config, server_state=self.server_state, app_state=self.lifespan.state, _loop=loop
        )
        connections, most = self.server_state.connections, _most_open(self.config.app)
        accepting = [Acceptor(one, make, lambda: len(connections), self._peers, most) for one in sockets or ()]
        self.servers = accepting  # type: ignore[assignment]  # uvicorn closes them and waits, nothing else
        self.started = True

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield

    async def retire(self, seconds: float) -> None:
        """Accept no more, have every answer close its connection; done when all are closed or time is over."""
        if not seconds or not self.started:
            return
        for server in self.servers:
            server.close()
        app = self.config.loaded_app = _closing(self.config.loaded_app)
        for connection in self.server_state.connections:
            if isinstance(connection, Protocol):
                connection.app = app
        end = time.monotonic() + seconds
        # uvicorn tells nobody when a connection closes.
        while self.server_state.connections and time.monotonic() < end and not self.force_exit:  # noqa: ASYNC110 - clients hang up, no event tells
            await asyncio.sleep(_POLL)


def _most_open(app: object) -> float:
    """Connections that `app` lets in, and a few that it refuses: those stay for a while, and hold a descriptor each."""
    gate: Gate | None = getattr(app, "gate", None)
    if gate is None:
        return math.inf
    return gate.most_connections + min(MOST_REFUSED, max(LEAST_REFUSED, gate.most_connections // 8))


def _closing(app: App) -> App:
    """The application with `connection: close` on each answer."""

    async def closing(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_last(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), (b"connection", b"close")]}
            await send(message)

        await app(scope, receive, send_last)

    return closing


def server_of(app: App, drain_seconds: float, peers: Peers) -> Server:
    """A server for `app`; its drain cancels what is in flight after `drain_seconds`."""
    config = uvicorn.Config(
        app,
        http=Protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        # The peer's address must be the real one: the rule for debug output hangs on it.
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=math.ceil(drain_seconds),
        backlog=BACKLOG,
    )
    return Server(config, peers)
