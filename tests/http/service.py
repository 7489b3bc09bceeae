"""A fake engine, and a real server on a real socket in front of it."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import uvloop

from app.admission import Admission
from app.asgi import Shell
from app.body import BodyReader
from app.clients import Clients
from app.gate import MOST_CONNECTIONS
from app.http import Events, Recommend
from app.lag import LoopLag
from app.listeners import Listener, bind, serve
from app.logs import AccessLog
from app.observe import Metrics
from app.operator_routes import operator_routes
from app.problems import Problem
from app.routes import Readiness, public_routes
from app.wire import Event, Priority
from stages.types import Answer, Request

TOKEN = "correct horse"


@dataclass(frozen=True)
class Field:
    type: str
    default: Any = None


@dataclass(frozen=True)
class Scene:
    budget: float = 0.12
    priority: Priority = "interactive"


@dataclass(frozen=True)
class Snapshot:
    config_id: str = "9f2c01ab34de"
    release: str = "2026-11-29T10-00-00"
    scenes: Mapping[str, Scene] = field(
        default_factory=lambda: {"home": Scene(), "discover": Scene(), "ahead": Scene(priority="prefetch")}
    )
    context: Mapping[str, Field] = field(
        default_factory=lambda: {
            "region": Field("str", "all"),
            "hour": Field("int"),
            "weight": Field("float"),
            "member": Field("bool"),
            "app_version": Field("semver", "0.0.0"),
        }
    )


class FakeEngine:
    """Answers `size` items; user "bug" raises, user "slow" waits for `release`."""

    def __init__(self) -> None:
        self.snapshot = Snapshot()
        self.ready = True
        self.waiting_for: list[str] = []
        self.requests: list[Request] = []
        self.events: list[Event] = []
        self.release = threading.Event()
        self.entered = threading.Event()
        self.record_error: Exception | None = None

    async def recommend(self, request: Request) -> Answer:
        self.requests.append(request)
        if request.user_id == "bug":
            raise KeyError("a bug of ours")
        if request.user_id == "os-bug":
            raise FileNotFoundError("a bug of ours that is an OSError")
        if request.user_id == "slow":
            self.entered.set()
            await asyncio.to_thread(self.release.wait, 10)
        n = min(request.size, 50)
        return Answer(
            request_id=request.request_id,
            scene=request.scene,
            config=self.snapshot.config_id,
            release=self.snapshot.release,
            ids=[str(1000 + at) for at in range(n)],
            scores=np.linspace(0.9, 0.1, n, dtype=np.float32),
            channels=[["vector", "i2i"]] * n,
            fields={
                "title": [f"Item <b>{at}</b>" for at in range(n)],
                "price": np.full(n, 2.49, np.float32).tolist(),
            },
            buckets={"recall": "exp_vec@1/vector"},
            degraded=[("recall.i2i", "timeout")] if request.user_id == "degraded" else [],
            short="too_few_candidates" if n < request.size else None,
            trace=TRACE if request.debug else None,
        )

    async def record(self, events: Sequence[Event]) -> None:
        if self.record_error is not None:
            raise self.record_error
        for at, event in enumerate(events):
            if event.event not in ("click", "purchase"):
                raise Problem("undeclared-event", "declared: click, purchase", field=f"events[{at}].event")
        self.events.extend(events)

    def status(self) -> Mapping[str, Any]:
        return {"waiting_for": self.waiting_for, "store": "redis://user:hunter2@127.0.0.1:6379/0"}


TRACE: dict[str, Any] = {
    "steps": [
        {"name": "features.user", "ms": 0.41, "queue_ms": 0.0, "in": None, "out": None},
        {"name": "recall.vector", "ms": 0.61, "queue_ms": 0.0, "in": None, "out": 500},
        {"name": "recall.i2i", "ms": 0.22, "queue_ms": 0.02, "in": None, "out": 300},
        {"name": "merge", "ms": 0.18, "queue_ms": 0.0, "in": 800, "out": 640},
        {"name": "filters", "ms": 0.09, "queue_ms": 0.0, "in": 640, "out": 590, "drops": {"seen": 41, "sellable": 9}},
        {"name": "pre_rank.dot", "ms": 0.12, "queue_ms": 0.0, "in": 590, "out": 300},
        {"name": "rank.trees", "ms": 2.31, "queue_ms": 0.0, "in": 300, "out": 300},
        {"name": "re_rank.mmr", "ms": 0.44, "queue_ms": 0.0, "in": 300, "out": 50},
    ],
    "items": {"1000": {"recall": np.float32(0.5), "rank": 0.9, "re_rank": float("nan")}},
    "why_not": [{"id": "9012", "step": "pre_rank.dot", "reason": "below the cut", "rank": 412, "cut": 300}],
}


class FakeOperator:
    """One worker, always ready; `errors` are those of the next reload."""

    def __init__(self, metrics: Metrics) -> None:
        self.errors: list[str] = []
        self._metrics = metrics

    def workers(self) -> tuple[int, int]:
        return (1, 1)

    def waiting_for(self) -> Sequence[str]:
        return ()

    async def metrics(self) -> bytes:
        return self._metrics.exposition()

    async def status(self) -> Mapping[str, Any]:
        return {"store": "redis://user:hunter2@127.0.0.1:6379/0", "token": "hunter2", "queue": 3}

    async def config(self) -> Mapping[str, Any]:
        return {"service": {"store": {"url": "rediss://:hunter2@db:6379"}, "key": "u:{id}"}}

    async def reload(self) -> Sequence[str]:
        return self.errors

    async def rollback(self) -> Sequence[str]:
        return ["there is nothing to go back to"]


@dataclass(frozen=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Service:
    """The public and the operator listener, served by a thread. A context manager."""

    def __init__(
        self,
        *,
        limit: int = 64,
        drain_seconds: int = 5,
        bodies: BodyReader | None = None,
        clients: Clients | None = None,
        lag: LoopLag | None = None,
        connections: int = MOST_CONNECTIONS,
    ) -> None:
        self.engine = FakeEngine()
        self.metrics = Metrics()
        self.operator = FakeOperator(self.metrics)
        self.admission = Admission(limit)
        self.readiness = Readiness(self.engine)
        self._drain_seconds = drain_seconds
        self.bodies = bodies or BodyReader()
        self._edge: dict[str, Any] = {"clients": clients, "lag": lag, "connections": connections}
        self._started = threading.Event()
        self._loop = uvloop.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._serve, name="service")
        sockets = bind("127.0.0.1", 0), bind("127.0.0.1", 0)
        self._sockets = sockets
        self.port, self.operator_port = (sock.getsockname()[1] for sock in sockets)

    def __enter__(self) -> Service:
        self._thread.start()
        assert self._started.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self.engine.release.set()
        self.stop()
        self._thread.join(10)
        assert not self._thread.is_alive()
        self._loop.close()

    def stop(self) -> None:
        """Begin to drain."""
        if not self._loop.is_closed() and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)

    def call(self, what: Callable[[], object]) -> None:
        """Have the service's loop call something."""
        self._loop.call_soon_threadsafe(what)

    def _serve(self) -> None:
        async def start() -> None:
            """Nothing to load."""

        def drain() -> None:
            self.readiness.draining = True

        routes = public_routes(self.engine, self.readiness, version="0.1.0", example_users=lambda: ["1607", "<i>x"])
        fast = {
            "/recommend": Recommend(self.engine, self.metrics, TOKEN),
            "/events": Events(self.engine),
        }
        self.access = AccessLog(every=1)
        public = Shell(
            routes,
            metrics=self.metrics,
            fast=fast,
            admission=self.admission,
            access=self.access,
            bodies=self.bodies,
            **self._edge,
        )
        self.gate = public.gate
        operator = Shell(operator_routes(self.operator, version="0.1.0"), metrics=self.metrics)
        listeners = [Listener("public", public, self._sockets[0])], [Listener("operator", operator, self._sockets[1])]
        self._loop.run_until_complete(
            serve(
                *listeners,
                start=start,
                on_drain=drain,
                on_reload=self.operator.reload,
                ready=self._started.set,
                stop=self._stop,
                drain_seconds=self._drain_seconds,
                signals=False,
            )
        )

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | str | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        operator: bool = False,
    ) -> Reply:
        """One request on a new connection."""
        connection = http.client.HTTPConnection("127.0.0.1", self.operator_port if operator else self.port, timeout=10)
        try:
            data = body.encode("utf-8", "surrogatepass") if isinstance(body, str) else body
            connection.request(method, path, data, dict(headers or {}))
            response = connection.getresponse()
            return Reply(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            connection.close()

    def post(self, path: str, body: Any, **headers: str) -> Reply:
        """POST JSON (bytes and str go as they are); header names have _ for -."""
        data = body if isinstance(body, (bytes, str)) else json.dumps(body)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.ask("POST", path, data, {"content-type": "application/json", **named})

    def recommend(self, body: Any = None, **fields: Any) -> Reply:
        """POST /recommend, with `scene: home` unless the body says otherwise."""
        return self.post("/recommend", {"scene": "home", **fields} if body is None else body)


Starter = Callable[..., Service]
