"""`python -m perf.spread`: how evenly one inherited listening socket spreads connections and requests over workers.

Real worker processes, started as the supervisor does, behind a handler that computes for a while and answers with
its process id. Whoever calls accept first gets a connection, so the spread depends on how busy the workers are.
"""

import argparse
import asyncio
import os
import socket
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import uvloop

from app.accept import Peers
from app.asgi import Receive, Scope, Send
from app.listeners import Listener, serve
from app.server import Stop
from app.supervisor.agent import Agent
from app.supervisor.channel import to_supervisor
from app.supervisor.fleet import Fleet
from app.supervisor.messages import Beat, Ready, Spec, read_spec
from app.supervisor.seat import Limits
from app.supervisor.spawn import Spawner

REQUEST = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"
LAST = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
WORK_SECONDS = 0.002
AT_ONCE = 32


@dataclass(frozen=True)
class Spread:
    """Requests by worker process, workers without any included."""

    shares: Sequence[float]

    @classmethod
    def of(cls, counted: Mapping[int, int], pids: Sequence[int]) -> "Spread":
        """From counts by process id."""
        total = sum(counted.values())
        return cls(sorted((counted.get(pid, 0) / total for pid in pids), reverse=True))

    @property
    def over_even(self) -> float:
        """The busiest worker's requests over an even share; 1 is even."""
        return self.shares[0] * len(self.shares)


def burn(seconds: float) -> None:
    """Compute."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


async def answer(_scope: Scope, _receive: Receive, send: Send) -> None:
    """The ASGI application: some work, and the process id."""
    burn(WORK_SECONDS)
    body = b"%d" % os.getpid()
    headers = [(b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def worker(listening: socket.socket, control: socket.socket) -> None:
    """Serve until the supervisor says otherwise or is gone."""
    spec = read_spec(control)

    async def work() -> None:
        channel, stop = await to_supervisor(control), Stop()

        async def drain(**_: Any) -> dict[str, Any]:
            stop.set()
            return {}

        async def metrics() -> dict[str, Any]:
            return {"families": []}

        def beat() -> Beat:
            return Beat(connections=sum(len(server.server_state.connections) for server in stop.servers))

        peers = Peers(0.0)
        verbs = {"drain": drain, "metrics": metrics}
        agent = asyncio.create_task(Agent(channel, verbs, beat, stop.set, peers).run())

        async def start() -> None:
            """Nothing to load."""

        await serve(
            [Listener("public", answer, listening)],
            start=start,
            on_drain=lambda: None,
            ready=lambda: channel.send(Ready({})),
            stop=stop,
            early=spec.early,
            peers=peers,
            drain_seconds=1,
            signals=False,
        )
        agent.cancel()

    uvloop.run(work())


@asynccontextmanager
async def workers(count: int) -> AsyncIterator[tuple[tuple[str, int], list[int]]]:
    """Workers that serve: their address and process ids."""
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listening:
        command = (sys.executable, "-m", "perf.spread", "--worker")
        fleet = Fleet(Spawner(listening, command), count, Spec(0, "", "", ""), Limits(drain=1.0))
        await fleet.start()
        try:
            yield listening.getsockname(), [one.pid for one in fleet.workers]
        finally:
            await fleet.drain()


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> int:
    """Who answers."""
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    return int(await reader.readexactly(length))


async def short(address: tuple[str, int], connections: int, at_once: int) -> Counter[int]:
    """A connection for each request, so many at once."""
    counted: Counter[int] = Counter()
    places = asyncio.Semaphore(at_once)

    async def one() -> None:
        async with places:
            reader, writer = await asyncio.open_connection(*address)
            counted[await ask(reader, writer, LAST)] += 1
            writer.close()

    await asyncio.gather(*(one() for _ in range(connections)))
    return counted


async def kept(address: tuple[str, int], connections: int, requests: int, *, burst: bool) -> Counter[int]:
    """Kept connections that all ask at once, again and again; opened in one burst, or each after the one before."""
    counted: Counter[int] = Counter()

    async def first() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(*address)
        counted[await ask(reader, writer, REQUEST)] += 1
        return reader, writer

    async def rest(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(requests - 1):
            counted[await ask(reader, writer, REQUEST)] += 1
        writer.close()

    if burst:
        opened = await asyncio.gather(*(first() for _ in range(connections)))
    else:
        opened = [await first() for _ in range(connections)]
    await asyncio.gather(*(rest(*pair) for pair in opened))
    return counted


async def measure(count: int, requests: int) -> dict[str, Spread]:
    """Each way to connect, against so many workers."""
    async with workers(count) as (address, pids):
        found = {
            "a connection per request, one at a time": await short(address, requests, 1),
            f"a connection per request, {AT_ONCE} at once": await short(address, requests, AT_ONCE),
        }
        for connections in (8, 16, 64):
            each = max(requests // connections, 1)
            found[f"{connections} kept, opened one by one"] = await kept(address, connections, each, burst=False)
            found[f"{connections} kept, opened in a burst"] = await kept(address, connections, each, burst=True)
    return {name: Spread.of(counted, pids) for name, counted in found.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m perf.spread", description=__doc__)
    parser.add_argument("--workers", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--worker", type=int, nargs=2, metavar=("LISTENING", "CONTROL"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.worker:
        worker(*(socket.socket(fileno=number) for number in chosen.worker))
        return
    for count in chosen.workers:
        spreads = asyncio.run(measure(count, chosen.requests))
        print(f"\n{count} workers, {chosen.requests} requests of {WORK_SECONDS * 1e3:g} ms each")
        for name, spread in spreads.items():
            shares = " ".join(f"{share:6.1%}" for share in spread.shares)
            print(f"  {name:42} {shares}   busiest {spread.over_even:.2f} of an even share")


if __name__ == "__main__":
    main()
