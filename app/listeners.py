"""Listening: sockets bound with clear errors, two servers in one loop, signals, and a bounded drain."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import signal
import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass

import uvicorn

from app.asgi import App
from app.protocol import Protocol

# Longer than the 60 s that common proxies keep an idle connection, or they would reuse one that we just closed.
KEEP_ALIVE = 75
_BACKLOG = 2048

logger = logging.getLogger("recserve.listeners")


class ListenError(Exception):
    """An address that can't be listened on. The message is for the person who started the service."""


@dataclass(frozen=True, slots=True)
class Listener:
    """An ASGI application and the bound socket that it answers on."""

    name: str
    app: App
    socket: socket.socket


def bind(host: str, port: int, *, setting: str = "PORT") -> socket.socket:
    """A listening socket on `host:port` (port 0: any). Raises ListenError, naming `setting` as the way out."""
    if not 0 <= port <= 65_535:
        raise ListenError(f"port {port}: there is no such port. Set {setting} to a number from 0 to 65535")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise ListenError(f"host {host} can't be resolved: {error.strerror}") from error
    sock = socket.socket(family, kind, protocol)
    try:
        # Without this a restart fails while old connections wait in TIME_WAIT; a live listener still conflicts.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setblocking(False)
        sock.bind(address)
        sock.listen(_BACKLOG)
    except OSError as error:
        sock.close()
        raise ListenError(_why(error, host, port, setting)) from error
    return sock


def _why(error: OSError, host: str, port: int, setting: str) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} on {host} is taken by another process. Set {setting}={port + 10} or stop that process"
    if error.errno == errno.EACCES:
        return f"port {port} needs privileges. Set {setting} to a port above 1023"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"host {host} is not an address of this machine"
    return f"can't listen on {host}:{port}: {error.strerror}"


def url(sock: socket.socket) -> str:
    """The http URL of a bound socket."""
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class _Server(uvicorn.Server):
    """A server that leaves signals to `serve`, which has to stop several of them in order."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve(
    public: Sequence[Listener],
    operator: Sequence[Listener] = (),
    *,
    start: Callable[[], Awaitable[None]],
    on_drain: Callable[[], None],
    on_reload: Callable[[], Awaitable[object]],
    ready: Callable[[], None],
    stop: asyncio.Event | None = None,
    drain_delay: float = 0.0,
    drain_seconds: int = 10,
    signals: bool = True,
) -> None:
    """Serve until SIGTERM, SIGINT or `stop`; then drain and return.

    The sockets accept at once, while `start` loads (readyz says 503); then `ready` is called, to print the
    address. An exception of `start` ends the servers and is raised. SIGHUP calls `on_reload`, once it is ready.
    To drain: `on_drain` (readyz turns 503), `drain_delay` seconds for load balancers to notice, no new
    connections, `drain_seconds` at most for requests in flight, and the operator's listeners last. A second
    signal cuts the drain short.
    """
    stop = stop or asyncio.Event()
    servers = [_server(listener, drain_seconds) for listener in public]
    operators = [_server(listener, drain_seconds) for listener in operator]
    tasks = [
        asyncio.create_task(server.serve(sockets=[listener.socket]), name=f"listen:{listener.name}")
        for server, listener in zip((*servers, *operators), (*public, *operator), strict=True)
    ]
    started = asyncio.Event()

    async def begin() -> None:
        await start()
        ready()
        started.set()

    async def reload() -> None:
        await started.wait()
        await on_reload()

    with _signals(stop, reload, [*servers, *operators]) if signals else contextlib.nullcontext():
        starting = asyncio.create_task(begin(), name="start")
        stopping = asyncio.create_task(stop.wait(), name="stop")
        try:
            await asyncio.wait([starting, stopping, *tasks], return_when=asyncio.FIRST_COMPLETED)
            if starting.done() and not starting.exception():
                await asyncio.wait([stopping, *tasks], return_when=asyncio.FIRST_COMPLETED)
        finally:
            on_drain()
            await _drain(servers, tasks[: len(servers)], drain_delay if stop.is_set() else 0.0)
            await _drain(operators, tasks[len(servers) :], 0.0)
            for task in (starting, stopping):
                task.cancel()
            results = await asyncio.gather(starting, *tasks, return_exceptions=True)
    for result in results:
        if isinstance(result, Exception):
            raise result


def _server(listener: Listener, drain_seconds: int) -> _Server:
    config = uvicorn.Config(
        listener.app,
        http=Protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        # The peer's address must be the real one: the rule for debug output hangs on it.
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=drain_seconds,
        backlog=_BACKLOG,
    )
    return _Server(config)


async def _drain(servers: Sequence[_Server], tasks: Sequence[asyncio.Task[None]], delay: float) -> None:
    if delay and servers:
        await asyncio.sleep(delay)
    for server in servers:
        server.should_exit = True
    if tasks:
        await asyncio.wait(tasks)


@contextlib.contextmanager
def _signals(
    stop: asyncio.Event, on_reload: Callable[[], Awaitable[object]], servers: Sequence[_Server]
) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    reloads: set[asyncio.Task[None]] = set()

    def end() -> None:
        if stop.is_set():
            for server in servers:
                server.force_exit = True
        stop.set()

    def reload() -> None:
        task = loop.create_task(_reload(on_reload), name="reload")
        reloads.add(task)
        task.add_done_callback(reloads.discard)

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    handlers = {signal.SIGTERM: end, signal.SIGINT: end, signal.SIGHUP: reload}
    for number, handler in handlers.items():
        loop.add_signal_handler(number, handler)
    try:
        yield
    finally:
        for number in handlers:
            loop.remove_signal_handler(number)
            signal.signal(number, before[number] or signal.SIG_DFL)
        for task in reloads:
            task.cancel()


async def _reload(on_reload: Callable[[], Awaitable[object]]) -> None:
    try:
        await on_reload()
    except Exception:  # a failed reload must leave the service as it was, and be seen
        logger.exception("reload failed; the configuration that served before still serves")
