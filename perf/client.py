"""A thin HTTP client: one request after the other on one connection, or Poisson arrivals on many.

It costs some tens of microseconds a request, so that it doesn't become what is measured.
"""

import json
import selectors
import socket
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from perf.data import F64, user_id

CONNECTIONS = 128
TIMEOUT = 10.0


def recommend_body(scene: str, user: int, groups: int, size: int, **more: object) -> bytes:
    """The body of a request for a user row, shaped and sized like an app's."""
    context = {"region": f"g{user % groups}", "hour": 9, "app_version": "3.2.0"}
    return json.dumps({"scene": scene, "user_id": user_id(user), "size": size, "context": context, **more}).encode()


def request_bytes(body: bytes, path: str = "/recommend", host: str = "127.0.0.1") -> bytes:
    """A whole HTTP/1.1 POST of a JSON body."""
    head = (
        f"POST {path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class Connection:
    """One keep-alive connection with at most one request in flight."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address, TIMEOUT)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.intended = 0.0
        self._received = b""
        self._wanted = -1
        self._body_at = 0

    def send(self, request: bytes) -> None:
        """Send one request."""
        self._received, self._wanted = b"", -1
        self.socket.sendall(request)

    def receive(self) -> tuple[int, bytes] | None:
        """Take what has arrived, waiting for something: (status, body) when the answer is whole, else None.

        Raises ConnectionError when the server hung up.
        """
        chunk = self.socket.recv(1 << 18)
        if not chunk:
            raise ConnectionError("the server closed the connection")
        self._received += chunk
        if self._wanted < 0:
            end = self._received.find(b"\r\n\r\n")
            if end < 0:
                return None
            head = self._received[:end].lower()
            at = head.index(b"content-length:") + len(b"content-length:")
            self._body_at = end + 4
            self._wanted = self._body_at + int(head[at:].split(b"\r\n", 1)[0])
        if len(self._received) < self._wanted:
            return None
        return int(self._received[9:12]), self._received[self._body_at :]

    def ask(self, request: bytes) -> tuple[int, bytes]:
        """Send one request and wait for its answer."""
        self.send(request)
        while (answer := self.receive()) is None:
            pass
        return answer

    def close(self) -> None:
        """Hang up."""
        self.socket.close()


def closed_loop(connection: Connection, requests: Sequence[bytes]) -> None:
    """Ask one after the other. Raises RuntimeError at the first answer that isn't a 200."""
    for request in requests:
        status, body = connection.ask(request)
        if status != 200:
            raise RuntimeError(f"status {status}: {body[:500]!r}")


@dataclass(frozen=True)
class Load:
    """An open-loop run: latency in seconds of each 200 from when it should have been sent, f64[n].

    ``refused`` counts the other answers; ``late`` is how far behind its schedule the generator itself
    was, f64 seconds per request.
    """

    latency: F64
    refused: int
    late: F64


def open_loop(address: tuple[str, int], requests: Sequence[bytes], per_second: float, seed: int = 0) -> Load:
    """Send the requests at Poisson arrivals, whether or not earlier ones have been answered."""
    rng = np.random.default_rng([seed, 5])
    gaps = rng.exponential(1.0 / per_second, len(requests))
    with selectors.DefaultSelector() as selector:
        idle = deque(_connect(address, selector) for _ in range(8))
        try:
            return _drive(selector, idle, address, requests, np.cumsum(gaps) + time.perf_counter())
        finally:
            for key in list(selector.get_map().values()):
                key.data.close()


def _connect(address: tuple[str, int], selector: selectors.BaseSelector) -> Connection:
    connection = Connection(address)
    selector.register(connection.socket, selectors.EVENT_READ, connection)
    return connection


def _drive(
    selector: selectors.BaseSelector,
    idle: deque[Connection],
    address: tuple[str, int],
    requests: Sequence[bytes],
    due: F64,
) -> Load:
    latency: list[float] = []
    late: list[float] = []
    refused, flying = 0, 0
    waiting: Iterator[tuple[float, bytes]] = zip(due.tolist(), requests, strict=True)
    following = next(waiting, None)
    while following is not None or flying:
        now = time.perf_counter()
        while following is not None and following[0] <= now and flying < CONNECTIONS:
            connection = idle.pop() if idle else _connect(address, selector)
            connection.intended = following[0]
            connection.send(following[1])
            late.append(now - following[0])
            flying += 1
            following = next(waiting, None)
            now = time.perf_counter()
        pause = TIMEOUT if following is None or flying >= CONNECTIONS else max(following[0] - now, 0.0)
        ready = selector.select(pause)
        if not ready and pause == TIMEOUT:
            raise RuntimeError(f"{flying} requests were not answered within {TIMEOUT:.0f} s")
        for key, _ in ready:
            connection = key.data
            answer = connection.receive()
            if answer is None:
                continue
            flying -= 1
            idle.append(connection)
            if answer[0] == 200:
                latency.append(time.perf_counter() - connection.intended)
            else:
                refused += 1
    return Load(np.array(latency), refused, np.array(late))


def decoded(answer: tuple[int, bytes]) -> Any:
    """The JSON of an answer. Raises RuntimeError unless it is a 200."""
    status, body = answer
    if status != 200:
        raise RuntimeError(f"status {status}: {body[:500]!r}")
    return json.loads(body)
