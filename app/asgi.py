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
from app.body import BodyReader, Gone, linger
from app.clients import Clients
from app.gate import ARRIVED, MOST_CONNECTIONS, QUEUED, Gate
from app.headers import Headers, RequestIds, is_loopback
from app.http import Call, Recommend
from app.lag import LoopLag
from app.logs import AccessLog
from app.observe import Metrics
from app.problems import MEDIA_TYPE, Problem, unavailable

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Handler = Callable[[Call], Awaitable[bytes]]

_JSON = b"application/json"
# The route whose requests may be refused before they are read.
_HOT = "/recommend"
# The route of a request that reaches none.
_NOWHERE = "other"
_UNLIMITED = 1 << 30
# Where `rest` finds the request id in its scope.
SCOPE_ID = "recserve.request_id"

logger = logging.getLogger("recserve.http")


@dataclass(slots=True)
class Exchange:
    """One request while it is answered."""

    scope: Scope
    receive: Receive
    send: Send
    arrived: float
    headers: Headers
    request_id: str
    route: str = _NOWHERE
    status: int = 0
    extra: list[tuple[bytes, bytes]] = field(default_factory=list)


class Shell:
    """An ASGI application: `fast` maps paths to POST handlers, `rest` answers everything else.

    admission    lets requests of the fast routes in; a handler enters once it knows the request's class
    clients      whose keys the fast routes ask for
    lag          told how long requests wait for their turn
    connections  open at once on this listener, at most
    """

    def __init__(
        self,
        rest: App,
        *,
        metrics: Metrics,
        fast: Mapping[str, Handler] | None = None,
        admission: Admission | None = None,
        access: AccessLog | None = None,
        bodies: BodyReader | None = None,
        clients: Clients | None = None,
        lag: LoopLag | None = None,
        connections: int = MOST_CONNECTIONS,
    ) -> None:
        self._rest = rest
        self._fast = dict(fast or {})
        self._metrics = metrics
        self._admission = admission or Admission(_UNLIMITED)
        self._access = access or AccessLog()
        self._bodies = bodies or BodyReader()
        self._clients = clients
        self._lag = lag
        self._ids = RequestIds()
        # Looked for by app.protocol, on every connection.
        hot = self._fast.get(_HOT)
        classify = hot.classify if isinstance(hot, Recommend) else _unknown
        gated = admission if hot is not None else None
        self.gate = Gate(_HOT, gated, self._refused_early, self._refused_unread, classify, connections)
        if fast:
            self._expose(metrics, admission)

    def _expose(self, metrics: Metrics, admission: Admission | None) -> None:
        gate, bodies, clients = self.gate, self._bodies, self._clients
        metrics.gauge("connections", "Open connections.", lambda: gate.connections)
        metrics.counter("connections_refused", "Connections beyond the limit.", lambda: gate.connections_refused)
        metrics.gauge("bodies", "Request bodies being read.", lambda: bodies.reading)
        metrics.counter("slow_bodies", "Bodies that ran out of time.", lambda: bodies.slow)
        if admission is not None:
            metrics.gauge("in_flight", "Requests being answered.", lambda: admission.in_flight)
            metrics.gauge("admission_limit", "Requests that may be in flight now.", lambda: admission.limit)
            metrics.counters(
                "shed", "Requests refused by admission; `unread`: before it was known which.", "priority",
                lambda: admission.shed,
            )  # fmt: skip
        if clients:
            metrics.counter("unauthorized", "Requests without a valid key.", lambda: clients.unauthorized)
            metrics.counters("rate_limited", "Requests over a client's rate.", "client", lambda: clients.limited)

    def _refused_early(self, seconds: float, request_id: str) -> None:
        self._metrics.observe_request(_HOT, 503, seconds)
        self._access.write(_HOT, 503, seconds, request_id)

    def _refused_unread(self, status: int, seconds: float, request_id: str) -> None:
        self._metrics.observe_request(_NOWHERE, status, seconds)
        self._access.write(_NOWHERE, status, seconds, request_id)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one connection's request."""
        if scope["type"] != "http":
            await _not_http(scope, receive, send)
            return
        now = asyncio.get_running_loop().time
        headers = Headers(scope["headers"])
        given = headers.request_id
        started = now()
        arrived = scope.get(ARRIVED, started)
        if self._lag is not None and QUEUED in scope:
            self._lag.saw(started - scope[QUEUED])
        exchange = Exchange(scope, receive, send, arrived, headers, given.decode() if given else self._ids.new())
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
        if self._clients is not None:
            self._clients.check(exchange.headers)
        exchange.headers.require_json()
        # Before admission: a client that dawdles takes none of the places that the funnel has.
        body = await self._bodies.read(exchange.receive, exchange.headers.content_length)
        client = exchange.scope.get("client")
        local = is_loopback(client[0]) if client else False
        call = Call(body, exchange.headers, exchange.request_id, exchange.arrived, local, self._admission)
        await _send(exchange, 200, _JSON, await handler(call))

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
            exchange.route = getattr(scope.get("route"), "path", _NOWHERE)

    async def _refuse(self, exchange: Exchange, problem: Problem) -> None:
        headers = [(name.encode(), value.encode()) for name, value in problem.headers.items()]
        exchange.extra.extend(headers)
        body = problem.encode(exchange.request_id)
        if problem.headers.get("connection") != "close":
            await _send(exchange, problem.status, MEDIA_TYPE, body)
            return
        # The answer is complete for the client; the server closes only after the message's last part.
        await _send(exchange, problem.status, MEDIA_TYPE, body, more=True)
        await linger(exchange.receive)
        await exchange.send({"type": "http.response.body", "body": b""})

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


async def _send(exchange: Exchange, status: int, media_type: bytes, body: bytes, *, more: bool = False) -> None:
    exchange.status = status
    headers = [
        (b"content-type", media_type),
        (b"content-length", b"%d" % len(body)),
        _request_id(exchange),
        *exchange.extra,
    ]
    await exchange.send({"type": "http.response.start", "status": status, "headers": headers})
    body = b"" if exchange.scope["method"] == "HEAD" else body
    await exchange.send({"type": "http.response.body", "body": body, "more_body": more})


def _unknown(_: bytes) -> None:
    """The class of a body that nobody can tell."""


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
