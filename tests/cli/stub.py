"""A stand-in for the service on a real socket: it records what it is asked and answers what it is told to."""

from __future__ import annotations

import argparse
import json
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from app.cli import recommend, why

Responder = Callable[[dict[str, Any]], tuple[int, str, bytes]]
JSON, PROBLEM = "application/json", "application/problem+json"


class Stub:
    """Use as a context manager; `respond` maps a request's body to status, content type and bytes."""

    def __init__(self, respond: Responder) -> None:
        self.asked: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.headers: list[Mapping[str, str]] = []
        stub = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                stub.asked.append(body)
                stub.paths.append(self.path)
                stub.headers.append({name.lower(): value for name, value in self.headers.items()})
                status, kind, content = respond(body)
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Stub:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def answering(document: Mapping[str, Any]) -> Responder:
    """Always this answer."""
    return lambda body: (200, JSON, json.dumps(document).encode())


def refusing(kind: str, status: int, title: str, detail: str) -> Responder:
    """Always this problem document."""
    document = {"type": f"urn:recserve:problem:{kind}", "title": title, "status": status, "detail": detail}
    return lambda body: (status, f"{PROBLEM}; charset=utf-8", json.dumps(document).encode())


def command(*argv: str) -> int:
    """Run `recserve ARGV`, of the two verbs that ask a service."""
    parser = argparse.ArgumentParser(prog="recserve")
    verbs = parser.add_subparsers(required=True)
    for verb in (recommend, why):
        verb.add(verbs)
    args = parser.parse_args(argv)
    status: int = args.run(args)
    return status


FIELDS = {"title": "Ground beef", "price": 2.5}
ANSWER: Mapping[str, Any] = {
    "request_id": "q",
    "scene": "home",
    "config": "9f2c01ab34de",
    "release": "2026-11-29T10-00-00",
    "items": [
        {"id": "1044078", "score": 0.812346, "channels": ["vector", "i2i"], "fields": FIELDS},
        {"id": "9", "score": 0.5, "channels": ["fallback"], "fields": {"title": "豆腐\x1b[31m\n2", "price": None}},
    ],
    "buckets": {"re_rank": "exp_mmr@1/control"},
    "degraded": [{"step": "recall.i2i", "reason": "store_timeout"}],
    "short": "catalogue_exhausted",
    "level": 0,
    "cursor": None,
    "trace": {
        "steps": [
            {"name": "features.user", "ms": 0.4, "queue_ms": 0.0, "in": None, "out": 3, "reason": None},
            {"name": "recall.i2i", "ms": 0.1, "queue_ms": 0.0, "in": None, "out": 0, "reason": "store_timeout"},
            {"name": "merge", "ms": 0.25, "queue_ms": 0.0, "in": 500, "out": 412, "reason": None},
            {"name": "rank.model", "ms": 3.0, "queue_ms": 0.2, "in": 300, "out": 300, "reason": None},
        ],
        "items": {"1044078": {"recall.vector": 1.25, "rank.model": 0.812346}, "9": {}},
        "why_not": [],
    },
}  # fmt: skip
