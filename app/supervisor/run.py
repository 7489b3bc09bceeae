"""The supervisor: the fleet of workers behind one listening socket, the operator's listener, signals and the end."""

from __future__ import annotations

import asyncio
import json
import logging
import shlex
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from app.asgi import Shell
from app.cgroup import compute_threads, default_workers, usable_cpus
from app.config.model import Service as Settings
from app.early import mute_output
from app.listeners import Listener, serve, url
from app.logs import LogPipeline
from app.observe import Metrics
from app.operator_routes import operator_routes
from app.paths import under_var
from app.push.pinned import Pin, Pins
from app.push.pusher import Pusher, PushRefused
from app.push.trial import PushSettings
from app.server import Stop
from app.supervisor.descriptors import connections
from app.supervisor.fleet import Fleet
from app.supervisor.messages import Spec
from app.supervisor.operator import Control
from app.supervisor.seat import Limits, StartRefused
from app.supervisor.spawn import Spawner
from recserve import __version__

logger = logging.getLogger("recserve.supervisor")


async def supervise(
    settings: Settings,
    spec: Spec,
    public: socket.socket,
    operator: socket.socket,
    logs: LogPipeline,
    asked: Sequence[int] = (),
) -> None:
    """Serve until told to stop. Raises StartRefused when the workers can't start.

    SIGHUP reloads, SIGUSR1 replaces all workers one by one; SIGTERM and SIGINT drain, twice: at once.
    `asked` are signals that came already.
    """
    cpus = usable_cpus()
    wanted = settings.workers or default_workers(cpus)
    threads = compute_threads(cpus, wanted)
    spec = msgspec.structs.replace(
        spec, workers=wanted, threads=threads, drain=settings.drain, exposures=settings.exposures_format
    )
    metrics = Metrics()
    metrics.counter("log_records_dropped", logs.DROPPED, lambda: float(logs.dropped))
    fleet = Fleet(Spawner(public), wanted, spec, Limits(drain=settings.drain, memory=settings.memory))
    pusher = _pusher(settings, fleet)
    fleet.shown = pusher.shown
    control = Control(fleet, pusher, metrics)
    stop = Stop()
    stop.hurried = fleet.hurry
    shell = Shell(operator_routes(control, version=__version__), metrics=metrics, connections=connections())

    async def start() -> None:
        try:
            await pusher.start()
            await fleet.start()
        except PushRefused as refused:
            raise StartRefused(str(refused)) from None
        except StartRefused as refused:
            raise StartRefused(pusher.shown(str(refused))) from None
        following.append(asyncio.create_task(pusher.run(), name="follow files"))

    following: list[asyncio.Task[None]] = []

    def on_drain() -> None:
        control.draining = True
        logger.info("draining: requests in flight have %g s", settings.drain)

    async def drained() -> None:
        for task in following:
            task.cancel()
        # Before its workers end: from here on connections are refused, not left waiting.
        public.close()
        await fleet.drain()

    await serve(
        [],
        [Listener("operator", shell, operator)],
        start=start,
        on_drain=on_drain,
        on_reload=control.reload,
        ready=lambda: _say(_welcome(fleet.workers[0].facts, wanted, public, operator)),
        stop=stop,
        drain_seconds=settings.drain,
        drained=drained,
        more_signals={signal.SIGUSR1: fleet.roll},
        asked=asked,
    )


def _pusher(settings: Settings, fleet: Fleet) -> Pusher:
    """Pushes to the fleet; who starts is told to load what was committed."""
    var = Path(fleet.spec.var)

    def follow(pin: Pin) -> None:
        fleet.spec = msgspec.structs.replace(fleet.spec, config=str(pin.folder), release=pin.release)

    return Pusher(
        fleet,
        Path(fleet.spec.config),
        Path(under_var(settings.releases, var)),
        Pins(var / "configs"),
        PushSettings(settings.push_watch, settings.push_canary, settings.push_share),
        on_commit=follow,
        clock=time.time,
    )


def _say(text: str) -> None:
    """Greet. Nothing depends on it: standard output may be closed or full, or lack a letter."""
    try:
        encoding = sys.stdout.encoding
        sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
        sys.stdout.flush()
    except (OSError, ValueError):
        mute_output()


def _welcome(facts: Mapping[str, Any], workers: int, public: socket.socket, operator: socket.socket) -> str:
    """Where it listens, and a request that works. Ends its line itself: logs are written by another thread."""
    address, users = url(public), facts["example_users"]
    scene = next(iter(sorted(facts["scenes"], key=lambda name: name != "home")), "home")
    example = {"scene": scene, "user_id": users[0] if users else None, "size": 5}
    body = shlex.quote(json.dumps(example, ensure_ascii=False))
    return (
        f"recserve {__version__}: release {facts['release']}, configuration {facts['config']}, workers: {workers}\n"
        f"  page      {address}/\n"
        f"  docs      {address}/docs\n"
        f"  operator  {url(operator)}/metrics\n"
        f"  try       curl -s {address}/recommend -H 'content-type: application/json' -d {body}\n"
    )
