"""A thin HTTP client: one request after the other on one connection (`app.load` is for arrivals on many).

It costs some tens of microseconds a request, so that it doesn't become what is measured.
"""

import json
import socket
from collections.abc import Sequence
from typing import Any

from perf.data import user_id

TIMEOUT = 10.0


def recommend_body(scene: str, user: int, groups: int, size: int, **more: object) -> bytes:
    """The body of a request for a user row, shaped and sized like an app's."""
    context = {"region": f"g{user % groups}", "hour": 9, "app_version": "3.2.0"}
    return json.dumps({"scene": scene, "user_id": user_id(user), "size": size, "context": context, **more}).encode()


class Connection:
    """One keep-alive connection with at most one request in flight."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address, TIMEOUT)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
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


def decoded(answer: tuple[int, bytes]) -> Any:
    """The JSON of an answer. Raises RuntimeError unless it is a 200."""
    status, body = answer
    if status != 200:
        raise RuntimeError(f"status {status}: {body[:500]!r}")
    return json.loads(body)
