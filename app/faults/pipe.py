"""One direction of one proxied connection: a bounded delay line between a reader and a writer."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from dataclasses import dataclass, field
from random import Random

CHUNK = 1 << 16
_PIECE_SECONDS = 0.02  # a limited bandwidth is spent in pieces of this length, so that slow looks slow and not bursty


@dataclass(frozen=True, slots=True)
class Faults:
    """What happens to the bytes of one direction; the default is nothing.

    latency    seconds that every byte comes later
    jitter     at most this many seconds more for each chunk, uniform; the order is kept
    bandwidth  bytes a second, of all connections together
    hole       bytes are taken and thrown away. A stream with a gap can't go on: a connection that lost bytes stays
               silent after the hole has closed, until its client gives it up
    """

    latency: float = 0.0
    jitter: float = 0.0
    bandwidth: float = math.inf
    hole: bool = False


@dataclass(slots=True)
class Way:
    """A direction of a proxy: its faults, switched at any time, and what went through. All counts are bytes."""

    random: Random
    faults: Faults = field(default_factory=Faults)
    received: int = 0
    sent: int = 0
    swallowed: int = 0
    held: int = 0
    most_held: int = 0
    free_at: float = 0.0

    def delay(self) -> float:
        """Seconds that a chunk which arrives now is held."""
        faults = self.faults
        return faults.latency + (self.random.uniform(0.0, faults.jitter) if faults.jitter else 0.0)


class Pipe:
    """Bytes from `source` to `sink` through `way`'s faults; at most `buffer` of them and one chunk are held."""

    def __init__(self, way: Way, source: asyncio.StreamReader, sink: asyncio.StreamWriter, buffer: int) -> None:
        self._way = way
        self._source = source
        self._sink = sink
        self._buffer = buffer
        self._line: deque[tuple[float, bytes]] = deque()
        self._held = 0
        self._changed = asyncio.Event()
        self._lost = False
        self._cut = False

    async def run(self) -> None:
        """Until the end of the stream was passed on. Raises OSError when either side is gone."""
        async with asyncio.TaskGroup() as both:
            both.create_task(self._read())
            both.create_task(self._write())

    def cut(self) -> None:
        """End the stream here, behind what is held; what still arrives is thrown away."""
        if not self._cut:
            self._cut = True
            self._append(b"", 0.0)

    async def _read(self) -> None:
        way = self._way
        while data := await self._source.read(CHUNK):
            way.received += len(data)
            if way.faults.hole:
                self._lost = True
            if self._lost or self._cut:
                way.swallowed += len(data)
                continue
            while self._held >= self._buffer:
                self._changed.clear()
                await self._changed.wait()
            self._append(data, way.delay())
        if self._lost:
            raise ConnectionResetError("a connection that lost bytes was given up")
        self.cut()

    async def _write(self) -> None:
        loop, way = asyncio.get_running_loop(), self._way
        while True:
            while not self._line:
                self._changed.clear()
                await self._changed.wait()
            due, data = self._line[0]
            if (wait := due - loop.time()) > 0:
                await asyncio.sleep(wait)
            if not data:
                if self._sink.can_write_eof():
                    self._sink.write_eof()
                return
            if way.faults.hole:
                self._lost = True
            if self._lost:
                way.swallowed += len(data)
            else:
                await self._send(data)
            self._line.popleft()
            self._hold(-len(data))

    async def _send(self, data: bytes) -> None:
        loop, way, at = asyncio.get_running_loop(), self._way, 0
        while at < len(data):
            rate = way.faults.bandwidth
            piece = data[at:] if math.isinf(rate) else data[at : at + max(1, int(rate * _PIECE_SECONDS))]
            if not math.isinf(rate):
                way.free_at = max(way.free_at, loop.time()) + len(piece) / rate
                await asyncio.sleep(way.free_at - loop.time())
            self._sink.write(piece)
            await self._sink.drain()
            way.sent += len(piece)
            at += len(piece)

    def _append(self, data: bytes, delay: float) -> None:
        due = asyncio.get_running_loop().time() + delay
        if self._line:
            due = max(due, self._line[-1][0])
        self._line.append((due, data))
        self._hold(len(data))

    def _hold(self, more: int) -> None:
        self._held += more
        self._way.held += more
        self._way.most_held = max(self._way.most_held, self._way.held)
        self._changed.set()
