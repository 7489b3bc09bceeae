"""The service as a process of its own, pinned to the measured core, and what can be read of it from outside."""

import contextlib
import ctypes
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from perf.release import Place

READY_SECONDS = 60.0
_ADDRESS = re.compile(r"^\s*(page|operator)\s+http://([^:/]+):(\d+)", re.MULTILINE)


@dataclass(frozen=True)
class Server:
    """A running service: its only worker, which does all that is measured, and where it listens."""

    pid: int
    public: tuple[str, int]
    operator: tuple[str, int]

    def cpu_ns(self) -> int:
        """CPU time of the worker so far, user and system, all its threads, ended ones included."""
        clock = ctypes.c_int()
        wrong = ctypes.CDLL(None).clock_getcpuclockid(self.pid, ctypes.byref(clock))
        if wrong:
            raise OSError(wrong, os.strerror(wrong))
        return time.clock_gettime_ns(clock.value)

    def metrics(self) -> "Metrics":
        """What `/metrics` says now."""
        host, port = self.operator
        with urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=5) as answer:
            return Metrics.parse(answer.read().decode())


@dataclass
class Histogram:
    """Cumulative counts by upper bound (seconds), and the sum of what was observed."""

    buckets: dict[float, float] = field(default_factory=dict)
    total: float = 0.0

    @property
    def count(self) -> float:
        """How many observations there were."""
        return self.buckets.get(float("inf"), 0.0)

    @property
    def mean(self) -> float:
        """Mean in seconds."""
        return self.total / self.count

    def since(self, before: "Histogram") -> "Histogram":
        """What came after ``before``."""
        buckets = {bound: count - before.buckets.get(bound, 0.0) for bound, count in self.buckets.items()}
        return Histogram(buckets, self.total - before.total)

    def quantile(self, share: float) -> float:
        """Seconds below which ``share`` of the observations lie, interpolated inside their bucket."""
        wanted, below, bound_below = share * self.count, 0.0, 0.0
        for bound, count in sorted(self.buckets.items()):
            if count >= wanted:
                if bound == float("inf"):
                    return bound_below
                return bound_below + (bound - bound_below) * (wanted - below) / (count - below)
            below, bound_below = count, bound
        return bound_below


@dataclass(frozen=True)
class Metrics:
    """The service's own figures: run time of each step, run time of whole requests, named counts."""

    steps: Mapping[str, Histogram]
    requests: Histogram
    counts: Mapping[str, float]

    @classmethod
    def parse(cls, text: str) -> "Metrics":
        """From the Prometheus text format."""
        steps: dict[str, Histogram] = {}
        requests: dict[str, Histogram] = {}
        counts: dict[str, float] = {}
        for family in text_string_to_metric_families(text):
            if family.name in ("recserve_step_seconds", "recserve_request_seconds"):
                cells, label = (steps, "step") if family.name == "recserve_step_seconds" else (requests, "route")
                for sample in family.samples:
                    cell = cells.setdefault(sample.labels[label], Histogram())
                    if sample.name.endswith("_bucket"):
                        cell.buckets[float(sample.labels["le"])] = sample.value
                    elif sample.name.endswith("_sum"):
                        cell.total = sample.value
            else:
                for sample in family.samples:
                    counts[sample.name] = counts.get(sample.name, 0.0) + sample.value
        return cls(steps, requests.get("/recommend", Histogram()), counts)

    def since(self, before: "Metrics") -> "Metrics":
        """What came after ``before``."""
        steps = {name: cell.since(before.steps.get(name, Histogram())) for name, cell in self.steps.items()}
        counts = {name: count - before.counts.get(name, 0.0) for name, count in self.counts.items()}
        return Metrics(steps, self.requests.since(before.requests), counts)


@contextlib.contextmanager
def running(place: Place, store: str, cores: frozenset[int]) -> Iterator[Server]:
    """Start `recserve serve` on ``cores`` over the store at URL ``store``; ready when this yields, ended after.

    Its log goes to ``VAR/server.log``. Raises RuntimeError with the log's end when it doesn't come up.
    """
    command = [sys.executable, "-c", "import sys; from app.cli import main; sys.exit(main())", "serve"]
    command += [
        "--config",
        str(place.configs.resolve()),
        "--var",
        str(place.var.resolve()),
        "--port",
        "0",
        "--operator-port",
        "0",
    ]
    log = place.var / "server.log"
    with log.open("wb") as errors:
        before = os.sched_getaffinity(0) if cores else set()
        try:
            if cores:
                os.sched_setaffinity(0, cores)  # inherited, so that its thread pools are sized for the core too
            process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={**os.environ, "REDIS_URL": store},
                cwd=Path(__file__).parent.parent,
            )
        finally:
            if cores:
                os.sched_setaffinity(0, before)
    try:
        yield _ready(process, log)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _ready(process: "subprocess.Popen[str]", log: Path) -> Server:
    assert process.stdout is not None
    until = time.monotonic() + READY_SECONDS
    said = ""
    while time.monotonic() < until:
        line = process.stdout.readline()
        if not line:
            break
        said += line
        found = {name: (host, int(port)) for name, host, port in _ADDRESS.findall(said)}
        if len(found) == 2:
            return Server(_worker(found["operator"]), found["page"], found["operator"])
    raise RuntimeError(f"recserve serve did not come up: {log.read_text()[-2000:]}")


def _worker(operator: tuple[str, int]) -> int:
    host, port = operator
    with urllib.request.urlopen(f"http://{host}:{port}/admin/status", timeout=5) as answer:
        [worker] = json.load(answer)["workers"]
    pid: int = worker["pid"]
    return pid
