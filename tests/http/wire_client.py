"""Bytes over a socket, and the answers that come back on it."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.http.service import Service

BODY = b'{"scene": "home", "size": 3}'


def post(*lines: bytes, body: bytes = BODY, version: bytes = b"1.1", path: bytes = b"/recommend") -> bytes:
    """A whole `POST`, with further header lines."""
    head = (
        b"POST %s HTTP/%s\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"
        % (path, version, len(body))
    )  # fmt: skip
    return head + b"".join(line + b"\r\n" for line in lines) + b"\r\n" + body


@dataclass
class Wire:
    """One connection; answers are read one at a time, in order."""

    socket: socket.socket
    rest: bytes = b""

    def send(self, *parts: bytes) -> None:
        for part in parts:
            self.socket.sendall(part)

    def answer(self) -> tuple[int, http.client.HTTPMessage, bytes]:
        """Status, headers and body of the next answer, which must have a content-length."""
        while b"\r\n\r\n" not in self.rest:
            self._more()
        head, _, self.rest = self.rest.partition(b"\r\n\r\n")
        status, _, lines = head.partition(b"\r\n")
        headers = http.client.parse_headers(_Lines(lines + b"\r\n\r\n"))  # type: ignore[arg-type] # reads lines
        if status.startswith(b"HTTP/1.1 1"):
            return int(status[9:12]), headers, b""
        length = int(headers["content-length"])
        while len(self.rest) < length:
            self._more()
        body, self.rest = self.rest[:length], self.rest[length:]
        return int(status[9:12]), headers, body

    def problem(self) -> tuple[int, http.client.HTTPMessage, Any]:
        """The next answer, which must be a problem document."""
        status, headers, body = self.answer()
        assert headers["content-type"] == "application/problem+json"
        document = json.loads(body)
        assert document["status"] == status
        assert document["request_id"] == headers["x-request-id"]
        return status, headers, document

    def ends(self) -> bool:
        """Whether nothing more comes and the connection ends."""
        try:
            return self.rest == b"" and self.socket.recv(1) == b""
        except ConnectionResetError:
            return self.rest == b""

    def _more(self) -> None:
        chunk = self.socket.recv(65536)
        assert chunk, f"the connection ended after {self.rest!r}"
        self.rest += chunk


@contextlib.contextmanager
def connected(service: Service, *parts: bytes) -> Iterator[Wire]:
    """A connection on which `parts` were sent, each by itself."""
    with socket.create_connection(("127.0.0.1", service.port), timeout=10) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        wire = Wire(sock)
        wire.send(*parts)
        yield wire


class _Lines:
    def __init__(self, data: bytes) -> None:
        self._lines = data.splitlines(keepends=True)

    def readline(self, _: int = -1) -> bytes:
        return self._lines.pop(0) if self._lines else b""
