"""The ASGI shell in front of everything. What holds for every route is written here, once.

Request ids, the body limit, methods, problem documents, metrics, the access log, and bugs. The routes of
the hot path are plain coroutines from a Call to bytes; all other paths go to a FastAPI app. (An ASGI fast
path costs 130 us per request where FastAPI costs 305 to 507, and BaseHTTPMiddleware more than doubles that.)
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any

from app.admission import Admission
from app.headers import Headers, RequestIds, is_loopback
from app.http import Call
from app.logs import AccessLog
from app.observe import Metrics
from app.problems import MEDIA_TYPE, Problem, unavailable

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Handler = Callable[[Call], Awaitable[bytes]]

BODY_LIMIT = 1 << 20
# A client that is told "too large" while it still sends may lose the answer to a reset: up to this much more
# is read and dropped, then the connection is closed.
_DRAIN_LIMIT = 8 * BODY_LIMIT
_JSON = b"application/json"
# Where `rest` finds the request id in its scope.
SCOPE_ID = "recserve.request_id"

logger = logging.getLogger("recserve.http")


class Gone(Exception):
    """The client disconnected."""


@dataclass(slots=True)
class Exchange:
    """One request while it is answered."""

    scope: Scope
    receive: Receive
    send: Send
    arrived: float
    headers: Headers
    request_id: str
    route: str = "other"
    status: int = 0
    extra: list[tuple[bytes, bytes]] = field(default_factory=list)


class Shell:
    """An ASGI application: `fast` maps paths to POST handlers, `rest` answers everything else."""

    def __init__(
        self,
        rest: App,
        *,
        metrics: Metrics,
        fast: Mapping[str, Handler] | None = None,
        admission: Admission | None = None,
        access: AccessLog | None = None,
        body_limit: int = BODY_LIMIT,
    ) -> None:
        self._rest = rest
        self._fast = dict(fast or {})
        self._metrics = metrics
        self._admission = admission
        self._access = access or AccessLog()
        self._body_limit = body_limit
        self._ids = RequestIds()
        if admission is not None:
            metrics.gauge("in_flight", "Requests being answered.", lambda: admission.in_flight)
            metrics.counter("shed", "Requests refused at the limit.", lambda: admission.shed)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one connection's request."""
        if scope["type"] != "http":
            await _not_http(scope, receive, send)
            return
        now = asyncio.get_running_loop().time
        headers = Headers(scope["headers"])
        given = headers.request_id
        exchange = Exchange(scope, receive, send, now(), headers, given.decode() if given else self._ids.new())
        try:
            await self._answer(exchange)
        except (Gone, OSError):
            # An OSError comes this far out from `send` only: the connection broke under the answer.
            self._metrics.disconnects += 1
            return
        seconds = now() - exchange.arrived
        self._metrics.observe_request(exchange.route, exchange.status, seconds)
        self._access.write(exchange.route, exchange.status, seconds, exchange.request_id)

    async def _answer(self, exchange: Exchange) -> None:
        handler = self._fast.get(exchange.scope["path"])
        try:
            if handler is None:
                await self._delegate(exchange)
            else:
                exchange.route = exchange.scope["path"]
                await self._run(handler, exchange)
        except Problem as problem:
            await self._refuse(exchange, problem)
        except asyncio.CancelledError:
            # Only the server cancels, when a drain has run out of time; the task ends here either way.
            if exchange.status == 0:
                await self._refuse(exchange, unavailable("not-ready", "the service stopped before it could answer"))
        except (Gone, OSError) as error:
            if isinstance(error, Gone) or exchange.status:
                raise
            await self._bug(exchange, error)
        except Exception as error:  # noqa: BLE001 - the outermost net: a bug is answered, counted and logged
            await self._bug(exchange, error)

    async def _run(self, handler: Handler, exchange: Exchange) -> None:
        if exchange.scope["method"] != "POST":
            raise _method_not_allowed(exchange.scope["method"], "POST")
        admission = self._admission
        if admission is None:
            await self._call(handler, exchange)
            return
        if not admission.try_enter():
            raise admission.refusal()
        try:
            await self._call(handler, exchange)
        finally:
            admission.leave()

    async def _call(self, handler: Handler, exchange: Exchange) -> None:
        exchange.headers.require_json()
        body = await self._body(exchange)
        client = exchange.scope.get("client")
        local = is_loopback(client[0]) if client else False
        answer = await handler(Call(body, exchange.headers, exchange.request_id, exchange.arrived, local))
        await _send(exchange, 200, _JSON, answer)

    async def _body(self, exchange: Exchange) -> bytes:
        """The whole body. Raises Problem (413) when it is over the limit, Gone when the client left."""
        declared = exchange.headers.content_length
        # The server has checked that it is a number and holds the client to it.
        if declared is not None and len(declared) < 20 and int(declared) > self._body_limit:
            raise self._too_large(exchange, int(declared))
        message = await exchange.receive()
        if not message.get("more_body", False) and message["type"] == "http.request":
            body: bytes = message.get("body", b"")
            if len(body) <= self._body_limit:
                return body
        chunks: list[bytes] = []
        size = 0
        while True:
            if message["type"] == "http.disconnect":
                raise Gone
            chunk = message.get("body", b"")
            size += len(chunk)
            if size <= self._body_limit:
                chunks.append(chunk)
            if not message.get("more_body", False) or size > _DRAIN_LIMIT:
                break
            message = await exchange.receive()
        if size > self._body_limit:
            raise self._too_large(exchange, size)
        return b"".join(chunks)

    def _too_large(self, exchange: Exchange, size: int) -> Problem:
        if size > _DRAIN_LIMIT:
            exchange.extra.append((b"connection", b"close"))
        return Problem("body-too-large", f"the body may have at most {self._body_limit} bytes", limit=self._body_limit)

    async def _delegate(self, exchange: Exchange) -> None:
        """Hand the request to `rest`. HEAD is answered as GET without the body."""
        head = exchange.scope["method"] == "HEAD"
        scope = {**exchange.scope, SCOPE_ID: exchange.request_id}
        if head:
            scope["method"] = "GET"

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                exchange.status = message["status"]
                headers = [pair for pair in message.get("headers", ()) if pair[0] != b"x-request-id"]
                message = {**message, "headers": [*headers, _request_id(exchange)]}
            elif head:
                message = {**message, "body": b""}
            await exchange.send(message)

        try:
            await self._rest(scope, exchange.receive, send)
        finally:
            exchange.route = getattr(scope.get("route"), "path", "other")

    async def _refuse(self, exchange: Exchange, problem: Problem) -> None:
        headers = [(name.encode(), value.encode()) for name, value in problem.headers.items()]
        exchange.extra.extend(headers)
        body = problem.encode(exchange.request_id)
        await _send(exchange, problem.status, MEDIA_TYPE, body)

    async def _bug(self, exchange: Exchange, error: Exception) -> None:
        self._metrics.internal_error(exchange.route)
        logger.error(
            "bug while answering %s",
            exchange.route,
            exc_info=error,
            extra={"fields": {"route": exchange.route, "request_id": exchange.request_id}},
        )
        if exchange.status == 0:
            await self._refuse(exchange, Problem("internal", "the service failed; its log has the request id"))


async def _send(exchange: Exchange, status: int, media_type: bytes, body: bytes) -> None:
    exchange.status = status
    headers = [
        (b"content-type", media_type),
        (b"content-length", b"%d" % len(body)),
        _request_id(exchange),
        *exchange.extra,
    ]
    await exchange.send({"type": "http.response.start", "status": status, "headers": headers})
    body = b"" if exchange.scope["method"] == "HEAD" else body
    await exchange.send({"type": "http.response.body", "body": body})


def _request_id(exchange: Exchange) -> tuple[bytes, bytes]:
    return b"x-request-id", exchange.request_id.encode()


def _method_not_allowed(method: str, allowed: str) -> Problem:
    detail = f"{method[:16]} is not allowed here. Allowed: {allowed}"
    return Problem("method-not-allowed", detail, headers={"allow": allowed})


async def _not_http(scope: Scope, receive: Receive, send: Send) -> None:
    """Start-up and shutdown belong to whoever runs the listeners; there are no WebSockets."""
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            await send({"type": f"{message['type']}.complete"})
            if message["type"] == "lifespan.shutdown":
                return
    await receive()
    await send({"type": "websocket.close", "code": 1000})
