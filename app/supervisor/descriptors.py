"""How many connections the process's limit on open descriptors allows; the limit is raised as far as it goes."""

from __future__ import annotations

import logging
import resource

from app.gate import MOST_CONNECTIONS

SPARE = 256
"""Descriptors beside connections: files of a push, channels, the log, what extensions open."""

logger = logging.getLogger("recserve.descriptors")


def connections(spare: int = SPARE, most: int = MOST_CONNECTIONS) -> int:
    """How many connections there may be, at most `most`, so that `spare` descriptors are left for all else.

    Raises the soft limit to what that takes. A hard limit below it is logged; of what there is then, at least half
    is left.
    """
    wanted = most + spare
    limit = _raised(wanted)
    if limit >= wanted:
        return most
    allowed = max(1, limit - min(spare, limit // 2))
    logger.warning(
        "at most %d connections, not %d: the limit on open files is %d. Expected %d (ulimit -Hn, or LimitNOFILE)",
        *(allowed, most, limit, wanted),
    )
    return allowed


def _raised(wanted: int) -> int:
    """The soft limit, raised to `wanted` if it may be."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    goal = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (goal, hard))
    except (OSError, ValueError):  # a sandbox that forbids it
        return soft
    return goal
