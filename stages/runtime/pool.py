"""The compute pool: a bounded number of threads for models that are too slow for the event loop."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor


def compute_pool(threads: int | None = None) -> ThreadPoolExecutor:
    """A pool of `threads`, by default one less than the cores this process may use, at least one.

    Its queue is bounded by admission: no more jobs can wait than requests are let in.
    """
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return ThreadPoolExecutor(threads or max(1, usable - 1), thread_name_prefix="recserve-compute")
