"""uvicorn's HTTP protocol, with what it lacks: arrival times, limits of a head, problem documents, cheap refusals."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from app.body import BODY_LIMIT, LINGER_SECONDS
from app.gate import ARRIVED, QUEUED, Gate
from app.problems import MEDIA_TYPE, Problem
from app.wire import Priority

HEAD_SECONDS = 10.0
HEAD_BYTES = 64 << 10
HEADERS = 100
HELD_BYTES = 64 << 10


class _Stop(Exception):
    """Raised out of the parser's callbacks, so that nothing more of the connection is parsed."""


class Protocol(HttpToolsProtocol):
    """One connection. Closed when a request's head isn't complete `head_seconds` after its first byte came.

    A connection on which nothing was sent yet is idle, and waits as long as one between two requests. The shell's
    `gate`, where the application has one, bounds connections and says which requests are refused at once: those get
    no ASGI task, and the connection goes on.
    """

    head_seconds = HEAD_SECONDS
    _gate: Gate | None = None
    _shell: object = None
    _timer: asyncio.TimerHandle | None = None
    # Header bytes that the head may still bring, and bytes received since the parser last completed anything.
    _left = HEAD_BYTES
    _quiet = 0
    _moved = False
    _excess = False
    _whole = False
    # The body of a request that may have to be refused, until it is whole; None: there is no such request.
    _held: bytearray | None = None
    # Bytes that were skipped so far of a body whose request is refused unread; None: it is not.
    _skipped: int | None = None
    _keep = True
    _deaf = False
    _arrived = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Begin the time of an idle connection; uvicorn begins it after the first answer only."""
        super().connection_made(transport)
        gate: Gate | None = getattr(self.app, "gate", None)
        if gate is not None and not gate.connect():
            self._end(gate.no_room(self.server_state.default_headers))
            return
        self._gate, self._shell = gate, self.app
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timers."""
        if self._gate is not None:
            self._gate.disconnect()
            self._gate = None
        self._stop_timer()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse; begin the head's time when bytes came that complete no head."""
        if self._deaf:
            return
        self._moved = self._whole = False
        super().data_received(data)
        # A header or a trailer that doesn't end is kept by the parser, which says nothing of it.
        self._quiet = 0 if self._moved else self._quiet + len(data)
        if self._quiet > HEAD_BYTES:
            self._too_large()  # says nothing where the parser has refused these bytes already
        if self._held is not None:
            self._unhold()
        between = self.cycle is None or self.cycle.response_complete
        unfinished = between and not self._whole and not self._deaf
        if unfinished and self._timer is None and not self.transport.is_closing():
            self._timer = self.loop.call_later(self.head_seconds, self._too_slow)

    def on_message_begin(self) -> None:
        """Stamp the request's arrival."""
        super().on_message_begin()
        self._whole = False
        self._arrived = self.loop.time()
        _stamp(self.scope, ARRIVED, self._arrived)
        self._left = HEAD_BYTES

    def on_url(self, url: bytes) -> None:
        """Keep a request's target, or a part of it, within the head's limit."""
        self._take(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header (or a trailer) within the limits."""
        self._take(len(name) + len(value))
        if len(self.headers) >= HEADERS:
            self._excess = True
            raise _Stop
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """End the head's time. Start the request, or hold it until its body tells whether it must be refused."""
        self._stop_timer()
        self._moved = True
        if self.transport.is_closing():
            self._skipped = 0  # what comes after a request that ended the connection is no request any more
            return
        self._check_host()
        gate = self._gate
        if gate is not None and self._plain() and gate.pressed(self.parser.get_method(), self.url, self.loop):
            self._held = bytearray()
            self._keep = self.parser.get_http_version() != "1.0" and self.parser.should_keep_alive()
            return
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Hand on a part of the body, or hold it, or skip it."""
        self._moved = True
        if self._held is not None:
            self._held += body
            if len(self._held) > HELD_BYTES:
                self._unhold()
            return
        if self._skipped is None:
            super().on_body(body)
            return
        self._skipped += len(body)
        if self._skipped > BODY_LIMIT and not self.transport.is_closing():
            self._end(self._refusal(None, close=True))
            raise _Stop

    def on_message_complete(self) -> None:
        """Hand on the end of the body; answer a request that is refused."""
        self._moved = self._whole = True
        self._stop_timer()
        if self._skipped is not None:
            self._turn_away(None)
            return
        if self._held is not None:
            assert self._gate is not None
            priority = self._gate.verdict(bytes(self._held), self.loop)
            if priority is not None:
                self._turn_away(priority)
                return
            self._start()
        super().on_message_complete()
        if self.cycle.response_complete and not self.transport.is_closing():
            # It was answered before its body was here, and the body's last part ended the idle time.
            self._unset_keepalive_if_required()
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def send_400_response(self, msg: str) -> None:
        """Answer what isn't HTTP, or has too large a head, with a problem document, and close."""
        if self._excess:
            self._too_large()
        else:
            self._refuse(Problem("malformed-request", f"{msg.rstrip('.')}; see RFC 9112"))

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        _stamp(cycle.scope, QUEUED, self.loop.time())
        super()._start_asgi_task(cycle, app)

    def _take(self, size: int) -> None:
        """Take bytes from what the head may still bring."""
        self._left -= size
        if self._left < 0:
            self._excess = True
            raise _Stop

    def _check_host(self) -> None:
        """Refuse a request that doesn't name one host, as RFC 9112 (section 3.2) demands."""
        hosts = 0
        for name, _ in self.headers:
            if name == b"host":
                hosts += 1
        if hosts == 1 or (hosts == 0 and self.parser.get_http_version() == "1.0"):
            return
        self._refuse(Problem("malformed-request", "host: expected once; see RFC 9112, section 3.2", field="host"))
        raise _Stop

    def _plain(self) -> bool:
        """Whether the request stands alone: nothing is being answered, and it asks for nothing but an answer.

        A server that retires gives its connections another application, one that closes them.
        """
        idle = self.app is self._shell and (self.cycle is None or self.cycle.response_complete)
        return idle and not self.expect_100_continue and not self.parser.should_upgrade()

    def _unhold(self) -> None:
        """A body takes longer than its head's packet, or is long: go on without knowing the request's class."""
        assert self._held is not None
        if self._deaf:
            self._held = None
        elif self._gate is not None and self._gate.full:
            self._skipped, self._held = len(self._held), None
        else:
            self._start()

    def _start(self) -> None:
        """Start a request that was held."""
        assert self._held is not None
        body, self._held = bytes(self._held), None
        super().on_headers_complete()
        self.cycle.keep_alive = self._keep
        if body:
            super().on_body(body)

    def _turn_away(self, priority: Priority | None) -> None:
        """Answer a request that is refused and whole."""
        if self.transport.is_closing():
            return
        self.transport.write(self._refusal(priority, close=not self._keep))
        if not self._keep:
            self.transport.close()
        self.on_response_complete()

    def _refusal(self, priority: Priority | None, *, close: bool) -> bytes:
        assert self._gate is not None
        self._skipped = self._held = None
        seconds = self.loop.time() - self._arrived
        return self._gate.refusal(priority, self.server_state.default_headers, self.headers, seconds, close=close)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_slow(self) -> None:
        self._timer = None
        if self.transport.is_closing():
            return
        if self._skipped is not None:
            self._end(self._refusal(None, close=True))
            return
        self._refuse(Problem("head-timeout", f"the head was not complete within {self.head_seconds:g} s"))

    def _too_large(self) -> None:
        detail = f"a request's head may have {HEAD_BYTES >> 10} KiB and {HEADERS} headers"
        self._refuse(Problem("head-too-large", detail, bytes=HEAD_BYTES, headers_allowed=HEADERS))

    def _refuse(self, problem: Problem) -> None:
        """Answer what is no whole request, and end the connection; nothing where it has been ended already."""
        if self._deaf or self.transport.is_closing():
            return
        cycle = self.cycle
        owed = cycle is not None and not cycle.response_complete
        if owed and (self.pipeline or cycle.response_started or not cycle.more_body):
            # Answers that are owed come first; then the connection ends, and nothing more of it is parsed.
            cycle.keep_alive = False
            self._deaf = True
            return
        request_id = os.urandom(8).hex()
        body = problem.encode(request_id)
        headers: list[tuple[bytes, Any]] = [
            *self.server_state.default_headers,
            (b"content-type", MEDIA_TYPE),
            (b"content-length", b"%d" % len(body)),
            (b"x-request-id", request_id.encode()),
            (b"connection", b"close"),
        ]
        if self._gate is not None:
            now = self.loop.time()
            self._gate.unread(problem.status, now - (self._arrived or now), request_id)
        lines = b"".join(b"%s: %s\r\n" % pair for pair in headers)
        self._end(STATUS_LINE[problem.status] + lines + b"\r\n" + body)

    def _end(self, answer: bytes) -> None:
        """Write the last answer. What the client still sends is dropped for a while, or a reset would cost it that."""
        self._deaf = True
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self._stop_timer()
        self._unset_keepalive_if_required()
        self.transport.write(answer)
        self.transport.write_eof()
        self._timer = self.loop.call_later(LINGER_SECONDS, self.transport.close)


def _stamp(scope: Any, key: str, seconds: float) -> None:
    """Put a time into an ASGI scope, whose type knows the keys of the specification only."""
    scope[key] = seconds
