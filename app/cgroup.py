"""How much CPU this process may use: the cgroup's quota (v1 and v2) and the affinity mask.

See the kernel's documentation: cgroup-v2 `cpu.max`, and the CFS bandwidth control of v1 (`cpu.cfs_quota_us`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

ROOT = Path("/sys/fs/cgroup")
SELF = Path("/proc/self/cgroup")


def cpu_quota(root: Path, self_cgroup: str) -> float | None:
    """CPUs that the quota allows (1.5 is one and a half), None without one.

    `root` is where the hierarchies are mounted, `self_cgroup` the text of /proc/self/cgroup. A quota of any
    ancestor binds too: the least counts. A container sees its own group as the root, whatever path the kernel names.
    """
    found = [quota for folder, read in _groups(root, self_cgroup) if (quota := read(folder)) is not None]
    return min(found, default=None)


def usable_cpus(root: Path = ROOT, self_cgroup: Path = SELF) -> float:
    """CPUs that this process may use: the quota, at most the cores it may run on."""
    cores = float(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    try:
        quota = cpu_quota(root, self_cgroup.read_text())
    except OSError:
        return cores
    return cores if quota is None else min(cores, quota)


def default_workers(cpus: float) -> int:
    """One worker for each whole CPU, at least one."""
    return max(1, int(cpus))


def compute_threads(cpus: float, workers: int) -> int:
    """Threads of each worker's compute pool beside its event loop, so that all stay within `cpus`; at least one."""
    return max(1, int(cpus / workers) - 1)


def _groups(root: Path, self_cgroup: str) -> Iterator[tuple[Path, Callable[[Path], float | None]]]:
    for line in self_cgroup.splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if not controllers:
            yield from ((folder, _v2) for folder in _ancestors(root, path))
        elif "cpu" in controllers.split(","):
            # Mounted under the joined name, with a link for each controller; either may be missing.
            for mount in {root / controllers, root / "cpu"}:
                yield from ((folder, _v1) for folder in _ancestors(mount, path))


def _ancestors(mount: Path, path: str) -> Iterator[Path]:
    inside = PurePosixPath(path.lstrip("/"))
    for group in (inside, *inside.parents):
        if ".." not in group.parts:
            yield mount / group


def _v2(folder: Path) -> float | None:
    words = _words(folder / "cpu.max")
    if len(words) != 2 or words[0] == "max":
        return None
    return _share(*words)


def _v1(folder: Path) -> float | None:
    quota, period = _words(folder / "cpu.cfs_quota_us"), _words(folder / "cpu.cfs_period_us")
    if len(quota) != 1 or len(period) != 1:
        return None
    return _share(quota[0], period[0])


def _words(file: Path) -> list[str]:
    try:
        return file.read_text().split()
    except OSError:
        return []


def _share(quota: str, period: str) -> float | None:
    try:
        allowed, of = int(quota), int(period)
    except ValueError:
        return None
    return allowed / of if allowed > 0 and of > 0 else None
