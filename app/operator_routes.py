"""The second listener: metrics and operator routes. Bind it to loopback; it has no authentication.

What a browser on this machine could be made to send is refused: requests for a host that isn't loopback (a site's
name that was rebound to 127.0.0.1), and posts from pages of another origin.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import msgspec
from fastapi import FastAPI
from fastapi.responses import Response
from starlette.datastructures import Headers
from starlette.requests import Request

from app.asgi import App, Receive, Scope, Send
from app.headers import is_loopback
from app.observe import CONTENT_TYPE
from app.ports import Operator
from app.problems import Problem, unavailable
from app.routes import bare_app, problem_response

_MASK = "***"
_SECRET_KEY = re.compile(r"passw|secret|token|credential|api_?key|private_?key|authorization", re.IGNORECASE)
# User and password of a URL, one with a slash too few included, up to the last @ of its host's part.
_USERINFO = re.compile(r"(\b[a-z][a-z0-9+.-]*:/*|//)[^/\s]+(?=@)", re.IGNORECASE)
_QUERY_SECRET = re.compile(r"(?i)([?&](?:password|token|secret|key)=)[^&\s]+")


class _Own:
    """An ASGI application for those who asked this machine for it, by a loopback name or address.

    The port of the host isn't compared: it is another one behind a tunnel (`ssh -L`, `kubectl port-forward`).
    """

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or refuse with a problem document (403, 421)."""
        problem = _foreign(Headers(scope=scope), scope["method"]) if scope["type"] == "http" else None
        if problem is None:
            await self._app(scope, receive, send)
        else:
            await problem_response(problem, Request(scope))(scope, receive, send)


def _foreign(headers: Headers, method: str) -> Problem | None:
    """Why a request is refused; None: it isn't."""
    host = headers.get("host", "")
    # A request of HTTP/1.0 may name none; browsers always do.
    if host and not _is_here(host):
        return Problem("misdirected", "host: expected localhost, or an address such as 127.0.0.1", field="host")
    if method in ("GET", "HEAD"):
        return None
    # Browsers send both with a post; curl sends neither.
    origin = headers.get("origin")
    if headers.get("sec-fetch-site", "none") not in ("none", "same-origin") or origin not in (None, f"http://{host}"):
        return Problem("cross-site", "post here from a terminal, or from this address")
    return None


def _is_here(host: str) -> bool:
    """Whether a host, with or without a port, is loopback."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    return name.rstrip(".") == "localhost" or is_loopback(name)


def operator_routes(operator: Operator, *, version: str) -> FastAPI:
    """`/healthz`, `/readyz`, `/metrics`, `/admin/status`, `/admin/config`, `POST /admin/reload` and `/rollback`."""
    routes = bare_app("recserve operator", version)
    routes.add_middleware(_Own)

    @routes.get("/healthz")
    async def healthz() -> Response:
        return _json({"status": "ok", "workers": _workers(operator)})

    @routes.get("/readyz")
    async def readyz(request: Request) -> Response:
        reasons = list(operator.waiting_for())
        if reasons:
            told = unavailable("not-ready", "; ".join(reasons), reasons=reasons, workers=_workers(operator))
            return problem_response(told, request)
        return _json({"status": "ready", "workers": _workers(operator)})

    @routes.get("/metrics")
    async def show_metrics() -> Response:
        return Response(await operator.metrics(), headers={"content-type": CONTENT_TYPE})

    @routes.get("/admin/status")
    async def status() -> Response:
        return _json(redacted(await operator.status()))

    @routes.get("/admin/config")
    async def config() -> Response:
        return _json(redacted(await operator.config()))

    @routes.post("/admin/reload")
    async def reload(request: Request) -> Response:
        return await _changed(request, operator.reload, "reloaded")

    @routes.post("/admin/rollback")
    async def rollback(request: Request) -> Response:
        return await _changed(request, operator.rollback, "rolled back")

    return routes


async def _changed(request: Request, change: Callable[[], Awaitable[Sequence[str]]], done: str) -> Response:
    errors = list(await change())
    if errors:
        detail = "the configuration that served before still serves"
        return problem_response(Problem("reload-refused", detail, errors=redacted(errors)), request)
    return _json({"status": done})


def _workers(operator: Operator) -> dict[str, int]:
    ready, wanted = operator.workers()
    return {"ready": ready, "wanted": wanted}


def redacted(value: Any) -> Any:
    """A copy of nested dicts and lists with secrets masked: by key name, and inside URLs."""
    if isinstance(value, Mapping):
        return {
            key: _MASK if isinstance(key, str) and _SECRET_KEY.search(key) and item else redacted(item)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [redacted(item) for item in value]
    if isinstance(value, str):
        return _QUERY_SECRET.sub(rf"\g<1>{_MASK}", _USERINFO.sub(rf"\g<1>{_MASK}", value))
    return value


def _json(value: Any) -> Response:
    # Whatever an operator object reports (paths, dates) is shown, as text if need be.
    return Response(msgspec.json.encode(value, enc_hook=str), media_type="application/json")
