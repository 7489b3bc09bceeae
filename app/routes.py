"""Everything on the public listener that isn't on the fast path, as a FastAPI application."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.requests import Request

from app.asgi import SCOPE_ID
from app.console import Page, load_page
from app.openapi import with_fast_routes
from app.ports import Engine
from app.problems import MEDIA_TYPE, Problem, unavailable


class Readiness:
    """Whether to send traffic here: the engine is ready and no drain has begun."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.draining = False

    def waiting_for(self) -> list[str]:
        """Reasons for not being ready; empty when ready."""
        if self.draining:
            return ["draining: the service was told to stop"]
        if self._engine.ready:
            return []
        return list(self._engine.status().get("waiting_for", ())) or ["starting"]


def public_routes(
    engine: Engine, readiness: Readiness, *, version: str, example_users: Callable[[], Sequence[str]] = tuple
) -> FastAPI:
    """`/`, `/docs`, `/openapi.json`, `/healthz`, `/readyz`, `/version`."""
    app = bare_app("recserve", version)
    page, docs = load_page("index.html"), load_page("docs.html")

    @app.get("/healthz", summary="The process answers", tags=["service"])
    async def healthz() -> Response:
        return JSONResponse({"status": "ok"})

    @app.get("/readyz", summary="Loaded, warm and not draining; else 503 with reasons", tags=["service"])
    async def readyz(request: Request) -> Response:
        reasons = readiness.waiting_for()
        if reasons:
            return problem_response(unavailable("not-ready", "; ".join(reasons), reasons=reasons), request)
        return JSONResponse({"status": "ready"})

    @app.get("/version", summary="What serves now", tags=["service"])
    async def show_version() -> Response:
        return JSONResponse({"name": "recserve", "version": version, **_serving(engine, example_users)})

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi() -> Response:
        return JSONResponse(with_fast_routes(dict(app.openapi())))

    @app.get("/docs", include_in_schema=False)
    async def show_docs() -> Response:
        return page_response(docs)

    @app.get("/", include_in_schema=False)
    async def index() -> Response:
        return page_response(page)

    return app


def bare_app(title: str, version: str) -> FastAPI:
    """A FastAPI app whose errors are problem documents; the shell writes the rest."""
    app = FastAPI(title=title, version=version, docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)

    async def on_http_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return problem_response(_from_http_error(error), request)

    async def on_problem(request: Request, error: Exception) -> Response:
        assert isinstance(error, Problem)
        return problem_response(error, request)

    async def on_bug(request: Request, _: Exception) -> Response:
        # Starlette raises the error again after this answer, and the shell logs and counts it.
        return problem_response(Problem("internal", "the service failed; its log has the request id"), request)

    app.add_exception_handler(HTTPException, on_http_error)
    app.add_exception_handler(Problem, on_problem)
    app.add_exception_handler(Exception, on_bug)
    return app


def problem_response(problem: Problem, request: Request) -> Response:
    """A problem document as a response."""
    return Response(
        problem.encode(request.scope[SCOPE_ID]),
        status_code=problem.status,
        headers=problem.headers,
        media_type=MEDIA_TYPE.decode(),
    )


def page_response(page: Page) -> Response:
    """A page of the console."""
    headers = {
        "content-security-policy": page.policy,
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "cache-control": "no-cache",
    }
    return Response(page.html, media_type="text/html; charset=utf-8", headers=headers)


def _from_http_error(error: HTTPException) -> Problem:
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "")
        allowed = f"{allowed}, HEAD" if allowed == "GET" else allowed
        return Problem("method-not-allowed", f"not allowed here. Allowed: {allowed}", headers={"allow": allowed})
    return Problem("no-such-path", "there is nothing at this path; /docs lists what there is")


def _serving(engine: Engine, example_users: Callable[[], Sequence[str]]) -> dict[str, Any]:
    if not engine.ready:
        return {"ready": False}
    snapshot = engine.snapshot
    return {
        "ready": True,
        "config": snapshot.config_id,
        "release": snapshot.release,
        "scenes": sorted(snapshot.scenes),
        "context": {name: field.type for name, field in snapshot.context.items()},
        "example_users": list(example_users())[:8],
    }
