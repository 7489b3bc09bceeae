"""Listening: sockets bound with clear errors, two servers in one loop, signals, and a bounded drain."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import signal
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from app.accept import Peers
from app.asgi import App
from app.server import BACKLOG, Server, Stop, server_of

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
        sock.listen(BACKLOG)
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


async def serve(
    public: Sequence[Listener],
    operator: Sequence[Listener] = (),
    *,
    start: Callable[[], Awaitable[None]],
    on_drain: Callable[[], None],
    on_reload: Callable[[], Awaitable[object]] | None = None,
    ready: Callable[[], None],
    stop: Stop | asyncio.Event | None = None,
    early: bool = True,
    peers: Peers | None = None,
    drain_delay: float = 0.0,
    drain_seconds: float = 10,
    drained: Callable[[], Awaitable[None]] | None = None,
    more_signals: Mapping[int, Callable[[], Awaitable[object]]] | None = None,
    asked: Sequence[int] = (),
    signals: bool = True,
) -> None:
    """Serve until SIGTERM, SIGINT or `stop`; then drain and return.

    The sockets accept at once, while `start` loads (readyz says 503), the public ones without `early` when that is
    done; then `ready` is called, to print the address. An exception of `start` ends the servers and is raised.
    SIGHUP calls `on_reload`, once it is ready, and so do `more_signals` what they name; those in `asked` came before.
    One that comes while its call runs makes for another call after it, and more of them for no more than that.
    `peers` tells what the other processes hold that accept from the public sockets.
    To drain: `on_drain` (readyz turns 503), `drain_delay` seconds for load balancers to notice, no new
    connections, `drain_seconds` at most for requests in flight, then `drained`, and the operator's listeners last.
    A second signal cuts the drain short. A stop with `linger` gives connections that time to be closed after their
    next answer, which says so: closing an idle one may cross a request on its way.
    """
    stop = _as_stop(stop)
    servers = [server_of(listener.app, drain_seconds, peers or Peers()) for listener in public]
    operators = [server_of(listener.app, drain_seconds, Peers()) for listener in operator]
    tasks = {server: _serving(server, one) for server, one in zip(operators, operator, strict=True)}

    def listen() -> None:
        tasks.update((server, _serving(server, one)) for server, one in zip(servers, public, strict=True))

    started = asyncio.Event()

    async def begin() -> None:
        await start()
        if not early:
            listen()
        ready()
        started.set()

    if early:
        listen()
    handled = {**({} if on_reload is None else {int(signal.SIGHUP): on_reload}), **(more_signals or {})}
    stop.servers += [*servers, *operators]
    with _signals(stop, started, handled, asked) if signals else contextlib.nullcontext():
        starting = asyncio.create_task(begin(), name="start")
        stopping = asyncio.create_task(stop.wait(), name="stop")
        try:
            await asyncio.wait([starting, stopping, *tasks.values()], return_when=asyncio.FIRST_COMPLETED)
            if starting.done() and not starting.exception():
                await asyncio.wait([stopping, *tasks.values()], return_when=asyncio.FIRST_COMPLETED)
        finally:
            on_drain()
            serving = [server for server in servers if server in tasks]
            if stop.is_set():
                await asyncio.sleep(drain_delay)
                await asyncio.gather(*(server.retire(stop.linger) for server in serving))
            await _drain(serving, tasks)
            starting.cancel()
            if drained is not None:
                await drained()
            await _drain(operators, tasks)
            stopping.cancel()
            results = await asyncio.gather(starting, *tasks.values(), return_exceptions=True)
    for result in results:
        if isinstance(result, Exception):
            raise result


def _as_stop(stop: Stop | asyncio.Event | None) -> Stop:
    return stop if isinstance(stop, Stop) else Stop(stop)


def _serving(server: Server, listener: Listener) -> asyncio.Task[None]:
    return asyncio.create_task(server.serve(sockets=[listener.socket]), name=f"listen:{listener.name}")


async def _drain(servers: Sequence[Server], tasks: Mapping[Server, asyncio.Task[None]]) -> None:
    for server in servers:
        server.should_exit = True
    if servers:
        await asyncio.wait([tasks[server] for server in servers])


@contextlib.contextmanager
def _signals(
    stop: Stop,
    started: asyncio.Event,
    handled: Mapping[int, Callable[[], Awaitable[object]]],
    asked: Sequence[int],
) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    wanted = {number: asyncio.Event() for number in handled}
    obeying = [
        loop.create_task(_obey(number, stop, started, wanted[number], act), name=signal.Signals(number).name)
        for number, act in handled.items()
    ]
    numbers = (signal.SIGTERM, signal.SIGINT, *handled)
    before = {number: signal.getsignal(number) for number in numbers}
    for number in numbers[:2]:
        loop.add_signal_handler(number, stop.set)
    for number in handled:
        loop.add_signal_handler(number, wanted[number].set)
        if number in asked:  # read when nothing is added to it any more
            wanted[number].set()
    try:
        yield
    finally:
        # What comes between the two handlers would meet the default.
        signal.pthread_sigmask(signal.SIG_BLOCK, handled)
        for number in numbers:
            loop.remove_signal_handler(number)
            signal.signal(number, before[number] or signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, handled)
        for task in obeying:
            task.cancel()


async def _obey(
    number: int, stop: Stop, started: asyncio.Event, wanted: asyncio.Event, act: Callable[[], Awaitable[object]]
) -> None:
    """Act once for all signals that came since the last time, unless the end has begun."""
    await started.wait()
    while True:
        await wanted.wait()
        wanted.clear()
        if stop.is_set():
            return
        try:
            await act()
        except Exception:  # what a signal asks for must leave the service as it was, and be seen
            logger.exception("%s failed; what served before still serves", signal.Signals(number).name)
