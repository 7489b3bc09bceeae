"""Reading a request's body: bounded in bytes, in time and in how many are being read at once."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from app.problems import Problem, unavailable

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

BODY_LIMIT = 1 << 20
BODY_SECONDS = 10.0
AT_ONCE = 1024
# Of all bodies that are still incomplete, together.
HELD_LIMIT = 64 * BODY_LIMIT
# A client that is told "too large" while it still sends loses the answer to a reset. Up to this much is read
# and dropped before the answer; what comes after it is dropped for LINGER_SECONDS, then the connection is closed.
_DRAIN_LIMIT = 8 * BODY_LIMIT
LINGER_SECONDS = 2.0


class Gone(Exception):
    """The client disconnected."""


class BodyReader:
    """Reads bodies for one listener. `reading` are under way now; `slow` counts those that ran out of time.

    limit    bytes of one body
    seconds  from the request's head to the body's last byte
    at_once  bodies under way; beyond, only a body that has already arrived is read
    """

    def __init__(self, limit: int = BODY_LIMIT, seconds: float = BODY_SECONDS, at_once: int = AT_ONCE) -> None:
        self.reading = 0
        self.slow = 0
        self._limit = limit
        self._seconds = seconds
        self._at_once = at_once
        self._held = 0

    async def read(self, receive: Receive, declared: bytes | None) -> bytes:
        """The whole body; `declared` is its content-length. Problem (408, 413, 503), or Gone.

        A Problem with `connection: close` means that the client may still be sending: see `linger`.
        """
        # The server has checked that it is a number and holds the client to it.
        if declared is not None and len(declared) < 20 and int(declared) > self._limit:
            raise self._too_large(int(declared))
        full = self.reading >= self._at_once
        self.reading += 1
        try:
            # With no time at all, a body that lies here complete is read all the same.
            async with asyncio.timeout(0.0 if full else self._seconds):
                return await self._whole(receive)
        except TimeoutError:
            if full:
                raise self._overloaded() from None
            self.slow += 1
            detail = f"the body was not complete within {self._seconds:g} s"
            raise Problem("body-timeout", detail, headers={"connection": "close"}) from None
        finally:
            self.reading -= 1

    async def _whole(self, receive: Receive) -> bytes:
        message = await receive()
        if not message.get("more_body", False) and message["type"] == "http.request":
            body: bytes = message.get("body", b"")
            if len(body) <= self._limit:
                return body
        chunks: list[bytes] = []
        size = kept = 0
        try:
            while True:
                if message["type"] == "http.disconnect":
                    raise Gone
                chunk = message.get("body", b"")
                size += len(chunk)
                if size <= self._limit:
                    chunks.append(chunk)
                    kept += len(chunk)
                    self._held += len(chunk)
                if not message.get("more_body", False) or size > _DRAIN_LIMIT:
                    break
                if self._held > HELD_LIMIT:
                    raise self._overloaded()
                message = await receive()
        finally:
            self._held -= kept
        if size > self._limit:
            raise self._too_large(size)
        return b"".join(chunks)

    def _too_large(self, size: int) -> Problem:
        close = {"connection": "close"} if size > _DRAIN_LIMIT else {}
        return Problem(
            "body-too-large", f"the body may have at most {self._limit} bytes", headers=close, limit=self._limit
        )

    def _overloaded(self) -> Problem:
        problem = unavailable("overloaded", f"{self.reading - 1} other bodies are being read, the limit")
        problem.headers["connection"] = "close"
        return problem


async def linger(receive: Receive, seconds: float = LINGER_SECONDS) -> None:
    """Drop what the client still sends until it stops, so that it gets to read its answer."""
    # Cancelled: a drain has run out of time, and the exchange ends here either way.
    with contextlib.suppress(TimeoutError, asyncio.CancelledError):
        async with asyncio.timeout(seconds):
            while (await receive()).get("more_body", False):
                pass
