"""The process's event loop, and an end that takes bounded time whatever extensions left running in it."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
import time
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

LEAVE_SECONDS = 1.0

logger = logging.getLogger("recserve.loop")


def run_loop(main: Coroutine[Any, Any, None]) -> bool:
    """Run `main` and raise what it raises. False when a task is left that ignores being cancelled.

    The standard runners wait for such a task, and for threads, without limit.
    """
    import uvloop

    loop = uvloop.new_event_loop()
    threads = ThreadPoolExecutor(thread_name_prefix="asyncio")
    loop.set_default_executor(threads)
    try:
        loop.run_until_complete(main)
    finally:
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.wait(left, timeout=LEAVE_SECONDS))
        stuck = asyncio.all_tasks(loop)
        if stuck:
            names = ", ".join(sorted(repr(task.get_coro()) for task in stuck)[:5])
            logger.warning("%d tasks don't end when cancelled and are left behind: %s", len(stuck), names)
        else:
            loop.close()
        threads.shutdown(wait=False, cancel_futures=True)
    return not stuck


def leave(status: int, *, clean: bool) -> int:
    """The exit status; doesn't return when something is left that would keep the process from ending."""
    end = time.monotonic() + LEAVE_SECONDS
    others = [one for one in threading.enumerate() if one is not threading.main_thread() and not one.daemon]
    for thread in others:
        thread.join(max(0.0, end - time.monotonic()))
    if clean and not any(thread.is_alive() for thread in others):
        return status
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
