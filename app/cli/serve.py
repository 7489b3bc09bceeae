"""`recserve serve`: one process, two listeners, a private store when none is configured."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shlex
import signal
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
from app.loop import leave, run_loop
from app.observe import Metrics
from app.operator_routes import operator_routes
from app.routes import Readiness, public_routes
from app.service import Service, Source
from app.store import connect, store_url
from app.store_watch import StoreWatch
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
    parser.add_argument("--host", default=os.environ.get("HOST"), help="address (HOST, else 127.0.0.1)")
    parser.add_argument("--port", type=int, help="port (PORT, else 8000)")
    parser.add_argument("--operator-port", type=int, help="port of /metrics and /admin (OPERATOR_PORT, else 8001)")
    parser.add_argument("--now", type=moment, metavar="TIME", help="freeze the clock")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT; the exit status."""
    # Its default is to end the process. A handler, not SIG_IGN, which the private store would inherit.
    signal.signal(signal.SIGHUP, lambda *_: None)
    source = Source(args.config, os.environ, args.var)
    if args.var.exists() and not args.var.is_dir():
        return refuse(f"--var {args.var}: a file. Expected a folder, or a name for one to be made")
    try:
        config = source.load()
        sockets = _bind(args)
    except (ConfigError, ListenError) as error:
        return refuse(error)
    status, clean = 0, True
    with LogPipeline() as logs:
        try:
            with store_url(config.service.store_url, args.var) as address:
                clean = _serve(args, source, config, address, sockets, logs)
        except (ConfigError, ReleaseError, StoreError, OSError) as error:
            status = refuse(error)
    return leave(status, clean=clean)


def _bind(args: argparse.Namespace) -> tuple[socket.socket, socket.socket]:
    """The public and the operator's socket. Raises ListenError."""
    port, operator_port = _port(args.port, "PORT", 8000), _port(args.operator_port, "OPERATOR_PORT", 8001)
    public = bind(args.host or "127.0.0.1", port, setting="PORT")
    try:
        return public, bind("127.0.0.1", operator_port, setting="OPERATOR_PORT")
    except ListenError:
        public.close()
        if port != operator_port:
            raise
        raise ListenError(
            f"port {port} can't be both the public and the operator's. "
            "Set PORT (--port) and OPERATOR_PORT (--operator-port) to different numbers"
        ) from None


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
) -> bool:
    """Serve; whether everything has ended."""
    settings = config.service
    metrics = Metrics()
    metrics.counter("log_records_dropped", "Log records lost to a full queue.", lambda: float(logs.dropped))
    exposures = ExposureLog(Path(args.var) / "exposures.jsonl", EXPOSURES, clock(None))
    watch = StoreWatch(address, metrics)
    pool = compute_pool()

    async def main() -> None:
        commands = connect(
            address, timeout=settings.store_timeout, connections=settings.store_connections, observe=watch.seen
        )
        around = Surroundings(commands, pool, clock(args.now))
        service = Service(source, around, metrics, exposures, watch.status)
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

        async def start() -> None:
            await watch.ping(commands)
            await service.start()

        watching = asyncio.create_task(watch.run(commands), name="store watch")
        try:
            await serve(
                [Listener("public", public, sockets[0])],
                [Listener("operator", operator, sockets[1])],
                start=start,
                on_drain=lambda: setattr(readiness, "draining", True),
                on_reload=service.reload,
                ready=lambda: print(_welcome(service, sockets), end="", flush=True),
            )
        finally:
            watching.cancel()
            await commands.close()

    try:
        return run_loop(main())
    finally:
        exposures.close()
        pool.shutdown(wait=False, cancel_futures=True)


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
