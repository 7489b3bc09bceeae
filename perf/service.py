"""The service against the floor on the same core, then the service alone under open-loop load.

Blocks of floor and service alternate, so that drift and other people's load fall on both alike. Every pair of
blocks counts: the figure is the median of their ratios. The store's own CPU is in neither.
"""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from statistics import median

from app.load.generator import run
from app.load.plan import Phase, Plan, RequestClass
from app.load.requests import request_bytes
from app.load.summary import Summary
from perf.client import TIMEOUT, Connection, closed_loop, recommend_body
from perf.data import I32, traffic
from perf.floor import Measured, whole
from perf.parts import Floor
from perf.release import SCENE
from perf.server import Histogram, Metrics, Server
from perf.timing import Figure, Spent, busy_seconds, cores, one_core, table

MOST_OVER_FLOOR = 1.6
LOAD_SHARE = 0.6
WARM = 600
FEATURES_MS = 5.0
RANK_MS = (30.0, 50.0)
# The service's steps and what the floor has for each; a channel's merge is one part there, two steps here.
STEPS: Mapping[str, tuple[str, ...]] = {
    "features.user": ("read", "look_up"),
    "recall.vector": ("search",),
    "recall.i2i": ("expand",),
    "recall.popular": (),
    "merge": ("merge",),
    "pre_rank.dot": ("gather", "pre_rank"),
    "rank.model": ("features", "rank"),
    "re_rank.mmr": ("re_rank",),
}


@dataclass(frozen=True)
class Compared:
    """Service and floor in microseconds per request: medians over the blocks that count; the service's own figures."""

    requests: int
    service: Spent
    floor: Spent
    ratio: float
    metrics: Metrics

    def table(self, floor: Measured) -> str:
        """Each step's mean run time in the service beside the floor's part."""
        rows: list[tuple[str, float, float | None]] = []
        for step, parts in STEPS.items():
            rows.append((step, self.metrics.steps[step].mean * 1e6, sum(floor.parts[part] for part in parts)))
        steps = sum(row[1] for row in rows)
        request = self.metrics.requests.mean * 1e6
        rows.append(("HTTP, assignment, encoding", request - steps, floor.parts["encode"]))
        rows.append(("request, on the wall clock", request, floor.whole.wall))
        rows.append(("request, CPU", self.service.cpu, self.floor.cpu))
        return table(("step", "service us", "floor us"), rows)


def requests_of(floor: Floor, users: I32) -> list[bytes]:
    """The service's request for each user row."""
    groups, size = len(floor.data.popular_indptr) - 1, floor.workload.size
    return [request_bytes(recommend_body(SCENE, user, groups, size)) for user in users.tolist()]


@contextmanager
def on_other_cores() -> Iterator[None]:
    """Run what is inside on the cores that are not measured."""
    _, others = cores()
    before = os.sched_getaffinity(0) if others else set()
    try:
        if others:
            os.sched_setaffinity(0, others)
        yield
    finally:
        if others:
            os.sched_setaffinity(0, before)


def ask(server: Server, connection: Connection, requests: Sequence[bytes]) -> Spent:
    """Microseconds per request of the service's CPU, and of the wall clock here."""
    cpu, wall = server.cpu_ns(), time.perf_counter_ns()
    closed_loop(connection, requests)
    cpu, wall = server.cpu_ns() - cpu, time.perf_counter_ns() - wall
    return Spent(cpu / len(requests) / 1e3, wall / len(requests) / 1e3)


def compare(floor: Floor, server: Server, requests: int = 4_000, blocks: int = 16, seed: int = 1) -> Compared:
    """Alternate blocks of floor and service over Zipf traffic, one request at a time, and take turns at going first."""
    size = max(requests // blocks, 1)
    users = traffic(len(floor.data.user_vectors), WARM + 2 * blocks * size, seed)
    warm, rest = users[:WARM], users[WARM:].reshape(2 * blocks, size)
    floors: list[Spent] = []
    served: list[Spent] = []
    with closing(Connection(server.public)) as connection:
        with on_other_cores():
            closed_loop(connection, requests_of(floor, warm))
        before = server.metrics()
        with one_core():
            whole(floor, warm[:100])
            for block in range(blocks):
                for service in (block % 2 == 0, block % 2 == 1):
                    if service:
                        with on_other_cores():
                            served.append(ask(server, connection, requests_of(floor, rest[2 * block])))
                    else:
                        floors.append(whole(floor, rest[2 * block + 1]))
        metrics = server.metrics().since(before)
    return Compared(
        requests=blocks * size,
        service=Spent(median(s.cpu for s in served), median(s.wall for s in served)),
        floor=Spent(median(f.cpu for f in floors), median(f.wall for f in floors)),
        ratio=median(s.cpu / f.cpu for s, f in zip(served, floors, strict=True)),
        metrics=metrics,
    )


@dataclass(frozen=True)
class Loaded:
    """Open-loop Poisson load: arrivals per second, latencies from the intended send time, the steps' run times.

    ``others`` is the share of the service's core that other processes took meanwhile.
    """

    per_second: float
    others: float
    load: Summary
    metrics: Metrics

    def step(self, name: str) -> Histogram:
        """A step's run times."""
        return self.metrics.steps[name]

    def figures(self) -> dict[str, Figure]:
        """Percentiles in ms; those of steps are interpolated in the service's own histograms."""
        latency = self.load.latency
        features, rank = (self.step(name).quantile(0.99) * 1e3 for name in ("features.user", "rank.model"))
        return {
            "load_per_second": Figure(self.per_second, "1/s"),
            "load_p50": Figure(latency.p50 * 1e3, "ms"),
            "load_p99": Figure(latency.p99 * 1e3, "ms"),
            "load_features_p99": Figure.of(features, FEATURES_MS, "ms"),
            "load_rank_p99": Figure.of(rank, RANK_MS[0], "ms"),
        }

    def text(self) -> str:
        """What people read of it."""
        figures = self.figures()
        load, ms = self.load, {name: figure.value for name, figure in figures.items()}
        low, high = RANK_MS
        return "\n".join(
            (
                f"Open loop at {self.per_second:.0f} requests/s, {LOAD_SHARE:.0%} of one core's capacity: "
                f"{load.served} answers, {load.sent - load.served} refused or failed.",
                f"  generator      up to {load.late_p99 * 1e3:.1f} ms late (p99); "
                f"other processes took {self.others:.0%} of the core",
                f"  whole request  p50 {ms['load_p50']:.1f} ms, p99 {ms['load_p99']:.1f} ms from the intended time",
                f"  feature stage  p99 {ms['load_features_p99']:.1f} ms (mission: {FEATURES_MS:.0f} ms), "
                f"mean {self.step('features.user').mean * 1e3:.2f} ms",
                f"  rank stage     p99 {ms['load_rank_p99']:.1f} ms (mission: {low:.0f}-{high:.0f} ms), "
                f"mean {self.step('rank.model').mean * 1e3:.2f} ms",
            )
        )


def load(floor: Floor, server: Server, cpu_us: float, seconds: float = 20.0, seed: int = 2) -> Loaded:
    """Load the service to 60% of what one core can do at ``cpu_us`` microseconds a request."""
    per_second = LOAD_SHARE * 1e6 / cpu_us
    users = traffic(len(floor.data.user_vectors), max(int(per_second * seconds), 1), seed)
    requests = RequestClass(SCENE, tuple(requests_of(floor, users)))
    plan = Plan(server.public, (requests,), (Phase("load", per_second, seconds),), seed, timeout=TIMEOUT)
    with on_other_cores():
        before, began = server.metrics(), _others(server)
        result = run(plan).summary()
        spent, wall = (after - start for after, start in zip(_others(server), began, strict=True))
        return Loaded(per_second, max(spent / wall, 0.0), result, server.metrics().since(before))


def _others(server: Server) -> tuple[float, float]:
    """Seconds of the measured core that weren't the service's, and of the wall clock."""
    core = min(cores()[0], default=0)
    return busy_seconds(core) - server.cpu_ns() / 1e9, time.monotonic()
