"""One keep-alive connection without waiting: bytes out, whole HTTP answers in."""

from __future__ import annotations

import errno
import socket
import struct
from dataclasses import dataclass

_CHUNK = 1 << 18
_HEAD_LIMIT = 1 << 16
# Closing with pending data discarded and no TIME_WAIT: thousands of abandoned requests must not use up the ports.
_ABORT = struct.pack("ii", 1, 0)


class Garbled(Exception):
    """What came back is not an HTTP answer that can be told apart from the next one."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer. `last`: the server said that it closes the connection after it."""

    status: int
    body: bytes
    last: bool


class Connection:
    """Non-blocking, at most one request in flight. `request` is that request's number, -1 when idle."""

    __slots__ = ("_body_at", "_last", "_out", "_received", "_socket", "_wanted", "fd", "request")

    def __init__(self, address: tuple[str, int]) -> None:
        """Begin to connect. Raises OSError when that fails at once."""
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            wrong = self._socket.connect_ex(address)
            if wrong not in (0, errno.EINPROGRESS):
                raise OSError(wrong, "connecting failed")
        except OSError:
            self._socket.close()
            raise
        self.fd = self._socket.fileno()
        self.request = -1
        self._out = b""
        self._received = bytearray()
        self._wanted, self._body_at, self._last = -1, 0, False

    def send(self, request: bytes) -> bool:
        """Send as much as goes now; whether that was all. Raises OSError."""
        self._received.clear()
        self._wanted, self._last = -1, False
        self._out = request
        return self.flush()

    def flush(self) -> bool:
        """Send more of what is left; whether nothing is left. Raises OSError."""
        if not self._out:
            return True
        try:
            sent = self._socket.send(self._out)
        except BlockingIOError:
            return False
        self._out = self._out[sent:]
        return not self._out

    def receive(self) -> Answer | None:
        """Take what has arrived: the answer once it is whole. Raises OSError (a hang-up is one) and Garbled."""
        try:
            chunk = self._socket.recv(_CHUNK)
        except BlockingIOError:
            return None
        if not chunk:
            raise ConnectionResetError(errno.ECONNRESET, "the server closed the connection")
        if self.request < 0:
            raise Garbled("bytes that nobody asked for")
        self._received += chunk
        if self._wanted < 0 and not self._head():
            return None
        if len(self._received) < self._wanted:
            return None
        body = bytes(self._received[self._body_at : self._wanted])
        return Answer(int(self._received[9:12]), body, self._last)

    def _head(self) -> bool:
        """Read the head; whether it is all there. Raises Garbled."""
        end = self._received.find(b"\r\n\r\n")
        if end < 0:
            if len(self._received) > _HEAD_LIMIT:
                raise Garbled("a head without end")
            return False
        head = bytes(self._received[:end]).lower() + b"\r\n"
        length = _value(head, b"content-length")
        if not head.startswith(b"http/1.") or not head[9:12].isdigit() or not length.isdigit():
            raise Garbled("not an HTTP answer with a content-length")
        self._last = _value(head, b"connection") == b"close"
        self._body_at = end + 4
        self._wanted = self._body_at + int(length)
        return True

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def abort(self) -> None:
        """Hang up with a reset, so that nothing of it lingers."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT)
        self._socket.close()


def _value(head: bytes, name: bytes) -> bytes:
    """A header's value in a lower-case head, empty without it."""
    at = head.find(b"\r\n" + name + b":")
    if at < 0:
        return b""
    at += len(name) + 3
    return head[at : head.index(b"\r\n", at)].strip()
