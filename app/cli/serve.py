"""`recserve serve`: the sockets, a private store when none is configured, and the supervisor over them."""

from __future__ import annotations

import argparse
import os
import socket

from app.cli.common import Subparsers, add_places, moment, new_verb, refuse
from app.config.problems import ConfigError
from app.early import fill_standard_streams, hold_signals, keep_signals
from app.listeners import ListenError, bind
from app.logs import LogPipeline
from app.loop import leave, run_loop
from app.store import store_url
from app.supervisor.messages import Spec
from app.supervisor.run import supervise
from app.supervisor.seat import StartRefused
from app.supervisor.settings import read_settings
from app.texts import encodable, in_utf8
from features.errors import StoreError

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
    asked = keep_signals()
    fill_standard_streams()
    if args.var.exists() and not args.var.is_dir():
        return refuse(f"--var {args.var}: a file. Expected a folder, or a name for one to be made")
    for option, path in (("--config", args.config), ("--var", args.var)):
        if not in_utf8(path):
            return refuse(f"{option} {encodable(os.path.realpath(path))}: the path isn't UTF-8. Expected one that is")
    try:
        settings = read_settings(args.config, os.environ)
        public, operator = _bind(args)
    except (ConfigError, ListenError) as error:
        return refuse(error)
    status, clean = 0, True
    with LogPipeline() as logs:
        try:
            with store_url(settings.store_url, args.var) as store:
                spec = Spec(0, str(args.config), str(args.var), store, now=args.now)
                clean = run_loop(supervise(settings, spec, public, operator, logs, asked))
        except (StartRefused, StoreError, OSError) as error:
            status = refuse(error)
    hold_signals()  # Python's end puts the defaults back
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
