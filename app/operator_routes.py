"""The second listener: metrics and operator routes. Bind it to loopback; it has no authentication."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi.responses import Response
from starlette.requests import Request

from app.observe import CONTENT_TYPE
from app.ports import Operator
from app.problems import Problem, unavailable
from app.routes import bare_app, problem_response

_MASK = "***"
_SECRET_KEY = re.compile(r"passw|secret|token|credential|api_?key|private_?key|authorization", re.IGNORECASE)
_USERINFO = re.compile(r"(?<=://)[^/@\s]+(?=@)")
_QUERY_SECRET = re.compile(r"(?i)([?&](?:password|token|secret|key)=)[^&\s]+")


def operator_routes(operator: Operator, *, version: str) -> FastAPI:
    """`/healthz`, `/readyz`, `/metrics`, `/admin/status`, `/admin/config`, `POST /admin/reload` and `/rollback`."""
    routes = bare_app("recserve operator", version)

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
    if request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        # A page of another origin can make a browser post here.
        return problem_response(Problem("cross-site", "post here from a terminal, or from this address"), request)
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
        return _QUERY_SECRET.sub(rf"\g<1>{_MASK}", _USERINFO.sub(_MASK, value))
    return value


def _json(value: Any) -> Response:
    # Whatever an operator object reports (paths, dates) is shown, as text if need be.
    return Response(msgspec.json.encode(value, enc_hook=str), media_type="application/json")
