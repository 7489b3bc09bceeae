"""uvicorn's HTTP protocol, with what it lacks: a time limit for a request's head, and problem documents."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from app.problems import MEDIA_TYPE, Problem

HEAD_SECONDS = 10.0


class Protocol(HttpToolsProtocol):
    """One connection. Closed when a request's head isn't complete `head_seconds` after its first byte came.

    A connection on which nothing was sent yet is idle, and waits as long as one between two requests.
    """

    head_seconds = HEAD_SECONDS
    _head: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Begin the time of an idle connection; uvicorn begins it after the first answer only."""
        super().connection_made(transport)
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timers."""
        self._head_ends()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse; begin the head's time when bytes came that complete no head."""
        super().data_received(data)
        between = self.cycle is None or self.cycle.response_complete
        if between and self._head is None and not self.transport.is_closing():
            self._head = self.loop.call_later(self.head_seconds, self._too_slow)

    def on_headers_complete(self) -> None:
        """End the head's time."""
        self._head_ends()
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer what isn't HTTP with a problem document, and close."""
        self._refuse(Problem("malformed-request", f"{msg.rstrip('.')}; see RFC 9112"))

    def _head_ends(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def _too_slow(self) -> None:
        self._head = None
        if not self.transport.is_closing():
            self._refuse(Problem("head-timeout", f"the head was not complete within {self.head_seconds:g} s"))

    def _refuse(self, problem: Problem) -> None:
        request_id = os.urandom(8).hex()
        body = problem.encode(request_id)
        headers: list[tuple[bytes, Any]] = [
            *self.server_state.default_headers,
            (b"content-type", MEDIA_TYPE),
            (b"content-length", b"%d" % len(body)),
            (b"x-request-id", request_id.encode()),
            (b"connection", b"close"),
        ]
        lines = b"".join(b"%s: %s\r\n" % pair for pair in headers)
        self.transport.write(STATUS_LINE[problem.status] + lines + b"\r\n" + body)
        self.transport.close()
