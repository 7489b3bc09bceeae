"""What the kernel knows of a process, read from /proc."""

from __future__ import annotations

import contextlib
import os
import resource
import time
from dataclasses import dataclass
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")
_POLL = 0.01


@dataclass(frozen=True, slots=True)
class Held:
    """What a process holds: private memory in bytes (file mappings left out), descriptors, threads."""

    memory: int
    descriptors: int
    threads: int


def held(pid: int) -> Held:
    """Raises OSError for a process that is gone."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    facts = {name: value.split() for name, _, value in (line.partition(":") for line in lines)}
    return Held(
        memory=int(facts["RssAnon"][0]) * 1024,
        descriptors=len(os.listdir(f"/proc/{pid}/fd")),
        threads=int(facts["Threads"][0]),
    )


def cpu_seconds(pid: int) -> float:
    """User and system time of a process, all its threads. Raises OSError when it is gone."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICK


def machine_seconds() -> float:
    """CPU time that all processes of the machine took so far, waiting for disks left out."""
    fields = [int(one) for one in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    user, nice, system, _idle, _waiting, hard, soft = fields[:7]
    return (user + nice + system + hard + soft) / _TICK


def own_seconds() -> float:
    """CPU time of this process and of all that it started and saw end, and so on down."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def children(pid: int) -> list[int]:
    """Processes that `pid` started and that run, whichever of its threads started them."""
    found: list[int] = []
    for tasks in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += map(int, tasks.read_text().split())
    return found


def family(pid: int) -> list[int]:
    """`pid` and all that descend from it, parents first."""
    found = [pid]
    for one in found:
        found += children(one)
    return found


def command(pid: int) -> list[str]:
    """Its words, empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
    except OSError:
        return []


def started(pid: int) -> int | None:
    """When it was started, in clock ticks since boot: with the pid, its identity. None when it is gone or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[19])


def end(processes: dict[int, int], signal: int, patience: float) -> dict[int, int]:
    """Send `signal` to each (pid, its start) that is still the same process; those left after `patience` seconds."""
    left = {pid: at for pid, at in processes.items() if started(pid) == at}
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal)
    until = time.monotonic() + patience
    while left and time.monotonic() < until:
        time.sleep(_POLL)
        left = {pid: at for pid, at in left.items() if started(pid) == at}
    return left
