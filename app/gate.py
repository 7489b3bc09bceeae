"""What the protocol decides before a request is one: connections beyond the limit, and refusals by class.

A refusal is written from prebuilt bytes and starts no task, so under overload it costs less than a bare ASGI answer
(`refusal_over_bare_asgi` of `make perf`).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable
from typing import Any

from app.admission import SHARES, Admission
from app.headers import RequestIds, valid_request_id
from app.problems import MEDIA_TYPE, unavailable
from app.wire import Priority

# Keys of the ASGI scope, in seconds of the event loop's clock: when a request's first byte was parsed, and when it
# was handed to the loop (a pipelined one waits for the answer before it in between).
ARRIVED = "recserve.arrived"
QUEUED = "recserve.queued"
MOST_CONNECTIONS = 4096

Pairs = Iterable[tuple[bytes, bytes]]


class Gate:
    """In front of one listener's shell. Belongs to one event loop.

    path              the one path whose POST requests may be refused here
    admission         says when; None: never
    refused           told (seconds, request id) of each such refusal
    unread            told (status, seconds, request id) of each answer to what was no whole request
    classify          a body's class; None when it can't be told
    most_connections  open at once; what comes beyond is answered 503 and closed
    """

    def __init__(
        self,
        path: str = "",
        admission: Admission | None = None,
        refused: Callable[[float, str], object] = lambda *_: None,
        unread: Callable[[int, float, str], object] = lambda *_: None,
        classify: Callable[[bytes], Priority | None] = lambda _: None,
        most_connections: int = MOST_CONNECTIONS,
    ) -> None:
        self.connections = 0
        self.connections_refused = 0
        self.most_connections = most_connections
        self._path = path.encode()
        self._admission = admission
        self.unread = unread
        self._refused = refused
        self._ids = RequestIds()
        self._coming = 0
        self._classify = classify
        self._parts: dict[Priority | None, tuple[bytes, bytes]] = {
            name: _template(f"{name} requests are refused for now", priority=name) for name in SHARES
        }
        self._parts[None] = _template("every place is taken, and the request was not read")
        self._no_room = _template("too many connections are open")

    def connect(self) -> bool:
        """Count a connection; whether it may stay. `disconnect` is due for each that may."""
        if self.connections >= self.most_connections:
            self.connections_refused += 1
            return False
        self.connections += 1
        return True

    def disconnect(self) -> None:
        """A connection ended."""
        self.connections -= 1

    def pressed(self, method: bytes, path: bytes, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether a request, whose head is complete, may have to be refused; if not, it counts as coming.

        Requests that came in the same turn of the loop have taken no place yet, so they are counted until the
        loop's next turn, in which each of them asks admission itself.
        """
        if self._admission is None or path != self._path or method != b"POST":
            return False
        if self._admission.turns_away("batch", self._coming):
            return True
        self._comes(loop)
        return False

    def verdict(self, body: bytes, loop: asyncio.AbstractEventLoop) -> Priority | None:
        """The class by which a request with this body must be refused; None: let it in, it counts as coming."""
        assert self._admission is not None
        # What can't be decoded is for the handler to explain, while there is room for anybody.
        priority = self._classify(body) or "interactive"
        if self._admission.turns_away(priority, self._coming):
            return priority
        self._comes(loop)
        return None

    @property
    def full(self) -> bool:
        """Whether a request must be refused whatever its class is."""
        return self._admission is not None and self._admission.full

    def refusal(
        self, priority: Priority | None, defaults: Pairs, headers: Pairs, seconds: float, *, close: bool
    ) -> bytes:
        """The answer to a request that is refused, counted and logged. `seconds`: since its first byte."""
        given = next((value for name, value in headers if name == b"x-request-id" and valid_request_id(value)), None)
        request_id = given or self._ids.new().encode()
        if self._admission is not None:
            self._admission.turned_away(priority)
        self._refused(seconds, request_id.decode())
        return _answer(self._parts[priority], request_id, defaults, close=close)

    def no_room(self, defaults: Pairs) -> bytes:
        """The answer to a connection too many."""
        return _answer(self._no_room, self._ids.new().encode(), defaults, close=True)

    def _comes(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self._coming:
            loop.call_soon(self._turn)
        self._coming += 1

    def _turn(self) -> None:
        self._coming = 0


def _template(detail: str, **members: Any) -> tuple[bytes, bytes]:
    """A 503 document before and after its request id."""
    body = unavailable("overloaded", detail, **members).encode("#")
    before, after = re.split(rb"(?<=\")#(?=\")", body)
    return before, after


def _answer(parts: tuple[bytes, bytes], request_id: bytes, defaults: Pairs, *, close: bool) -> bytes:
    before, after = parts
    lines = [b"HTTP/1.1 503 Service Unavailable\r\n"]
    lines += [b"%s: %s\r\n" % pair for pair in defaults]
    lines.append(
        b"content-type: %s\r\nretry-after: 1\r\nx-request-id: %s\r\ncontent-length: %d\r\n%s\r\n"
        % (
            MEDIA_TYPE,
            request_id,
            len(before) + len(request_id) + len(after),
            b"connection: close\r\n" if close else b"",
        )
    )
    lines += (before, request_id, after)
    return b"".join(lines)
