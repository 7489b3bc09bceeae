"""`recserve serve`: one process, two listeners, a private store when none is configured."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import socket
from collections.abc import Mapping
from pathlib import Path

from abtest import ExposureLog
from app.admission import Admission
from app.asgi import Shell
from app.build import Surroundings
from app.cli.common import Subparsers, add_places, clock, moment, new_verb, refuse
from app.config.model import Config
from app.config.problems import ConfigError
from app.http import Events, Recommend
from app.listeners import Listener, ListenError, bind, serve, url
from app.logs import AccessLog, LogPipeline
from app.observe import Metrics
from app.operator_routes import operator_routes
from app.routes import Readiness, public_routes
from app.service import Service, Source
from app.store import connect, store_url
from features.errors import StoreError
from recserve import __version__
from stages.errors import ReleaseError
from stages.runtime.pool import compute_pool

IN_FLIGHT = 64
EXPOSURES = 65_536

EXAMPLES = """  recserve serve
  PORT=9000 recserve serve --config configs --var var
  recserve serve --now 2011-11-09T12:50:00      (a clock that stands still, for backtests)"""


def add(verbs: Subparsers) -> None:
    """Register the verb."""
    parser = new_verb(verbs, "serve", EXAMPLES)
    add_places(parser)
    parser.add_argument("--host", default=os.environ.get("HOST", "127.0.0.1"), help="address (HOST, else 127.0.0.1)")
    parser.add_argument("--port", type=int, help="port (PORT, else 8000)")
    parser.add_argument("--operator-port", type=int, help="port of /metrics and /admin (OPERATOR_PORT, else 8001)")
    parser.add_argument("--now", type=moment, metavar="TIME", help="freeze the clock")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT; the exit status."""
    source = Source(args.config, os.environ, args.var)
    try:
        config = source.load()
        public = bind(args.host, _port(args.port, "PORT", 8000), setting="PORT")
        operator = bind("127.0.0.1", _port(args.operator_port, "OPERATOR_PORT", 8001), setting="OPERATOR_PORT")
    except (ConfigError, ListenError) as error:
        return refuse(error)
    with LogPipeline() as logs:
        try:
            with store_url(config.service.store_url, args.var) as address:
                _serve(args, source, config, address, (public, operator), logs)
        except (ConfigError, ReleaseError, StoreError, OSError) as error:
            return refuse(error)
    return 0


def _port(given: int | None, variable: str, default: int) -> int:
    if given is not None:
        return given
    text = os.environ.get(variable) or str(default)
    if not (text.isascii() and text.isdecimal()):
        raise ListenError(f"{variable}={text}: not a port. Expected a number from 0 to 65535")
    return int(text)


def _serve(
    args: argparse.Namespace,
    source: Source,
    config: Config,
    address: str,
    sockets: tuple[socket.socket, socket.socket],
    logs: LogPipeline,
) -> None:
    import uvloop

    settings = config.service
    metrics = Metrics()
    metrics.counter("log_records_dropped", "Log records lost to a full queue.", lambda: float(logs.dropped))
    exposures = ExposureLog(Path(args.var) / "exposures.jsonl", EXPOSURES, clock(None))
    pool = compute_pool()

    async def main() -> None:
        commands = connect(address, timeout=settings.store_timeout, connections=settings.store_connections)
        service = Service(source, Surroundings(commands, pool, clock(args.now)), metrics, exposures)
        readiness = Readiness(service)
        recommend = Recommend(service, metrics, settings.token or "")
        public = Shell(
            public_routes(service, readiness, version=__version__, example_users=service.example_users),
            metrics=metrics,
            fast={"/recommend": recommend, "/events": Events(service)},
            admission=Admission(IN_FLIGHT),
            access=AccessLog(every=100),
        )
        operator = Shell(operator_routes(service, metrics, version=__version__), metrics=metrics)
        exposures.start()
        try:
            await serve(
                [Listener("public", public, sockets[0])],
                [Listener("operator", operator, sockets[1])],
                start=service.start,
                on_drain=lambda: setattr(readiness, "draining", True),
                on_reload=service.reload,
                ready=lambda: print(_welcome(service, sockets), end="", flush=True),
            )
        finally:
            await commands.close()

    try:
        uvloop.run(main())
    finally:
        exposures.close()
        pool.shutdown()


def _welcome(service: Service, sockets: tuple[socket.socket, socket.socket]) -> str:
    """Where it listens, and a request that works. Ends its line itself: logs are written by another thread."""
    address, users = url(sockets[0]), service.example_users()
    body = shlex.quote(json.dumps(_example(service, users[0] if users else None), ensure_ascii=False))
    return (
        f"recserve {__version__}: release {service.snapshot.release}, configuration {service.snapshot.config_id}\n"
        f"  page      {address}/\n"
        f"  docs      {address}/docs\n"
        f"  operator  {url(sockets[1])}/metrics\n"
        f"  try       curl -s {address}/recommend -H 'content-type: application/json' -d {body}\n"
    )


def _example(service: Service, user: str | None) -> Mapping[str, object]:
    scene = next(iter(sorted(service.snapshot.scenes, key=lambda name: name != "home")), "home")
    return {"scene": scene, "user_id": user, "size": 5}
