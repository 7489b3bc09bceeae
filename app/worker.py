"""A worker process: the funnel behind the shared listening socket, obeying the supervisor's control channel.

`python -m app.worker LISTENING CONTROL`: two inherited descriptors. Started by `app.supervisor.spawn`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import thread_time, time

from abtest import ExposureLog
from app.accept import Peers
from app.admission import Admission
from app.asgi import Shell
from app.build import Surroundings
from app.clients import Clients
from app.config.problems import ConfigError
from app.current import Current, Source
from app.http import Events, Recommend
from app.ladder import Ladder
from app.lag import LoopLag
from app.limits import WorkAhead
from app.listeners import Listener, serve
from app.logs import AccessLog, LogPipeline
from app.loop import leave, run_loop
from app.observe import Metrics
from app.routes import Readiness, public_routes
from app.server import Stop
from app.service import Service
from app.store import connect
from app.store_watch import StoreWatch
from app.supervisor.agent import Agent
from app.supervisor.channel import Channel, to_supervisor
from app.supervisor.descriptors import SPARE, connections
from app.supervisor.messages import Bye, Failed, Ready, Spec, ToWorker, read_spec
from app.verbs import Duties, State
from features.errors import StoreError
from recserve import __version__
from stages.errors import ReleaseError
from stages.runtime.pool import compute_pool

EXPOSURES = 65_536
AHEAD = 0.5  # of the shortest budget: what may stand before the processor when a request is let in
REFUSALS = (ConfigError, ReleaseError, StoreError, OSError)
"""What is told to a person in its own words; anything else is a bug."""


def main(arguments: Sequence[str]) -> int:
    """Serve until told to stop or left alone; the exit status."""
    # Handlers, not SIG_IGN, which what an extension starts would inherit. SIGTERM's default holds until the loop runs.
    for number in (signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, lambda *_: None)
    listening, control = (socket.socket(fileno=int(number)) for number in arguments)
    try:
        spec = read_spec(control)
    except EOFError:
        return 1
    status, clean = 0, True
    with LogPipeline(fields={"worker": spec.slot}) as logs:
        try:
            clean = _serve(spec, listening, control, logs)
        except REFUSALS:
            status = 1  # the supervisor has been told why
    return leave(status, clean=clean)


def _serve(spec: Spec, listening: socket.socket, control: socket.socket, logs: LogPipeline) -> bool:
    """Serve; whether everything has ended."""
    path = Path(spec.var) / f"exposures.w{spec.slot}.{spec.exposures}"
    exposures = ExposureLog(path, EXPOSURES, time, format=spec.exposures)
    pool = compute_pool(spec.threads)
    metrics = Metrics()
    metrics.counter("log_records_dropped", logs.DROPPED, lambda: float(logs.dropped))

    async def work() -> None:
        channel = await to_supervisor(control)
        try:
            await _work(spec, listening, channel, metrics, exposures, pool)
        except REFUSALS as error:
            channel.send(Failed(str(error)))
            raise
        finally:
            channel.send(Bye(metrics.families()))
            await channel.flush()
            channel.close()

    try:
        return run_loop(work())
    finally:
        exposures.close()
        pool.shutdown(wait=False, cancel_futures=True)


def _clock(now: float | None) -> Callable[[], float]:
    return time if now is None else lambda: now


async def _work(
    spec: Spec,
    listening: socket.socket,
    channel: Channel[ToWorker],
    metrics: Metrics,
    exposures: ExposureLog,
    pool: ThreadPoolExecutor,
) -> None:
    """Put the parts together, serve, take them apart."""
    source = Source(Path(spec.config), os.environ, Path(spec.var), spec.release)
    config = await asyncio.to_thread(source.load)
    settings = config.service
    watch = StoreWatch(spec.store, metrics)
    store = connect(
        spec.store, timeout=settings.store_timeout, connections=settings.store_connections, observe=watch.seen
    )
    around = Surroundings(store, pool, _clock(spec.now), spec.threads)
    loop_time = asyncio.get_running_loop().time
    lag = LoopLag(loop_time)
    current = Current(source, around)
    ladder = Ladder(loop_time, lambda: lag.wait, settings.admission_wait)
    service = Service(current, around.clock, metrics, exposures, watch.status, ladder, lag)
    readiness = Readiness(service)
    admission = Admission(
        settings.admission_limit,
        target=settings.admission_wait,
        wait=lambda: lag.wait,
        abandoned=lambda: len(around.abandoned),
        ahead=WorkAhead(thread_time, AHEAD * min((scene.budget for scene in config.scenes.values()), default=1.0)),
    )
    public = Shell(
        public_routes(service, readiness, version=__version__, example_users=service.example_users),
        metrics=metrics,
        fast={"/recommend": Recommend(service, metrics, settings.token or ""), "/events": Events(service)},
        admission=admission,
        access=AccessLog(every=100),
        clients=Clients(settings.clients.values(), spec.workers) if settings.clients else None,
        lag=lag,
        connections=connections(SPARE + settings.store_connections),
    )
    stop = Stop()
    peers = Peers(None if spec.workers == 1 else 0.0)
    state = State(
        in_flight=lambda: admission.in_flight,
        connections=lambda: public.gate.connections,
        lag=lag.worst,
        stuck=lambda: around.abandoned.longest if around.abandoned.jobs >= spec.threads else 0.0,
    )
    duties = Duties(service, current, metrics, stop, state, drain=spec.drain)
    agent = Agent(channel, duties.verbs(), duties.vitals, duties.left_alone, peers)

    async def start() -> None:
        await watch.ping(store)
        await service.start()

    def ready() -> None:
        channel.send(duties.vitals())
        channel.send(Ready(duties.facts()))

    exposures.start()
    lag.start()
    beside = [
        asyncio.create_task(agent.run(), name="agent"),
        asyncio.create_task(watch.run(store), name="store watch"),
    ]
    try:
        await serve(
            [Listener("public", public, listening)],
            start=start,
            on_drain=lambda: setattr(readiness, "draining", True),
            ready=ready,
            stop=stop,
            early=spec.early,
            peers=peers,
            drain_seconds=spec.drain,
        )
    finally:
        lag.stop()
        for task in beside:
            task.cancel()
        await store.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
