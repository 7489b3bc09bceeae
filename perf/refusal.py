"""What a refused request costs the server, against a bare ASGI answer under the same uvicorn, uvloop and httptools.

Both servers are processes of their own on the measured core, asked in turn over one kept connection; the refusing
one is the service's shell and protocol with no place left. Figure: `refusal_over_bare_asgi`.
`python -m perf.refusal bare|full` is one of the servers; it prints its port.
"""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Literal

import uvicorn

from app.admission import Admission
from app.asgi import App, Receive, Scope, Send, Shell
from app.http import Call
from app.listeners import bind
from app.load.requests import request_bytes
from app.logs import AccessLog
from app.observe import Metrics
from app.protocol import Protocol
from perf.client import Connection, recommend_body
from perf.server import Server
from perf.timing import Figure, cores, table

MOST_OVER_BARE = 1.5
_WARM = 500
_BLOCK = 500


@dataclass(frozen=True)
class Refusals:
    """Microseconds of the server's CPU per request: refused, and answered by the bare application."""

    refused: float
    bare: float
    ratio: float

    def figures(self) -> dict[str, Figure]:
        """The figure; its bound is MOST_OVER_BARE."""
        return {"refusal_over_bare_asgi": Figure(self.refused, "us", self.bare, self.ratio)}

    def text(self) -> str:
        """What people read of it."""
        rows = (("refused at the limit", self.refused), ("bare ASGI answer", self.bare))
        return table(("server CPU", "us/request"), rows)


def measure_refusals(requests: int = 8_000) -> Refusals:
    """Ask both servers in alternating blocks, `requests` each; medians over the blocks."""
    ask = request_bytes(recommend_body("home", 1607, 3, 20, exclude=[str(9000 + at) for at in range(20)]))
    with _serving("full") as full, _serving("bare") as bare:
        pairs = [
            (_block(full, ask, 503, _BLOCK), _block(bare, ask, 200, _BLOCK)) for _ in range(max(requests // _BLOCK, 1))
        ]
    refused, answered = (median(side) for side in zip(*pairs, strict=True))
    return Refusals(refused, answered, median(a / b for a, b in pairs))


def _block(server: tuple[Server, Connection], request: bytes, status: int, times: int) -> float:
    """Microseconds of CPU per request. Raises RuntimeError on another status."""
    process, connection = server
    before = process.cpu_ns()
    for _ in range(times):
        answer, body = connection.ask(request)
        if answer != status:
            raise RuntimeError(f"status {answer} in place of {status}: {body[:200]!r}")
    return (process.cpu_ns() - before) / times / 1e3


@contextlib.contextmanager
def _serving(kind: str) -> Iterator[tuple[Server, Connection]]:
    """One of the servers on the measured core, warm, and a connection to it."""
    measured, _ = cores()
    before = os.sched_getaffinity(0) if measured else set()
    try:
        if measured:
            os.sched_setaffinity(0, measured)
        process = subprocess.Popen(
            [sys.executable, "-m", "perf.refusal", kind],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parent.parent,
        )
    finally:
        if measured:
            os.sched_setaffinity(0, before)
    assert process.stdout is not None
    try:
        address = ("127.0.0.1", int(process.stdout.readline()))
        server = Server(process.pid, address, address), Connection(address)
        try:
            _block(server, request_bytes(b"{}"), 503 if kind == "full" else 200, _WARM)
            yield server
        finally:
            server[1].close()
    finally:
        process.terminate()
        process.wait(10)
        process.stdout.close()


def _application(kind: str) -> tuple[App, type[Protocol] | Literal["httptools"]]:
    """The ASGI application and uvicorn's `http` setting."""
    if kind == "bare":
        return _bare, "httptools"

    async def never(_: Call) -> bytes:
        raise AssertionError("a place was left")

    admission = Admission(1)
    admission.try_enter()
    shell = Shell(
        _bare, metrics=Metrics(), fast={"/recommend": never}, admission=admission, access=AccessLog(every=100)
    )
    return shell, Protocol


async def _bare(_: Scope, receive: Receive, send: Send) -> None:
    """Reads a body and answers about as many bytes as a refusal has."""
    while (await receive()).get("more_body"):
        pass
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(_ANSWER))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": _ANSWER})


_ANSWER = b"{" + b" " * 200 + b"}"


def _serve(arguments: Sequence[str]) -> None:
    """One server, until it is killed."""
    application, http = _application(arguments[0])
    sock = bind("127.0.0.1", 0)
    print(sock.getsockname()[1], flush=True)
    config = uvicorn.Config(
        application,
        http=http,
        loop="uvloop",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
    )
    uvicorn.Server(config).run(sockets=[sock])


if __name__ == "__main__":
    _serve(sys.argv[1:])
