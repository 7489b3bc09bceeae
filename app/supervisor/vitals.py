"""What a process can tell of its own size, from /proc; zeros where there is none."""

from __future__ import annotations

import os
from pathlib import Path

_PROC = Path("/proc/self")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def memory(proc: Path = _PROC) -> tuple[int, int]:
    """Bytes of resident memory, and of that what isn't mapped from files or shared."""
    try:
        _, resident, shared = (proc / "statm").read_bytes().split()[:3]
    except (OSError, ValueError):
        return 0, 0
    return int(resident) * _PAGE, (int(resident) - int(shared)) * _PAGE


def descriptors(proc: Path = _PROC) -> int:
    """Open file descriptors."""
    try:
        return len(os.listdir(proc / "fd"))
    except OSError:
        return 0
