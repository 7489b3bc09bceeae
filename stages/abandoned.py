"""Work that outlived its request: channels that ignore being cancelled, jobs that hold a thread of the pool.

It has no effect on any answer, but it costs, so it counts as in flight until it ends.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import Future
from time import monotonic
from typing import Any


class Abandoned:
    """Counts them. Belongs to the event loop."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self.tasks = 0
        self._clock = clock
        self._jobs: dict[Future[Any], float] = {}

    def __len__(self) -> int:
        return self.tasks + len(self._jobs)

    @property
    def jobs(self) -> int:
        """Threads of the pool that are held."""
        return len(self._jobs)

    @property
    def longest(self) -> float:
        """Seconds since the oldest held thread was given up; 0 without any."""
        return self._clock() - min(self._jobs.values()) if self._jobs else 0.0

    def task(self, task: asyncio.Task[Any]) -> None:
        """Cancel a task and count it until it ends."""
        if task.cancel():
            self.tasks += 1
            task.add_done_callback(self._task_ended)

    def job(self, job: Future[Any]) -> None:
        """Cancel a job of the pool; one that runs already can't be, and is counted until it ends."""
        if job.cancel() or job.done():
            return
        loop = asyncio.get_running_loop()
        self._jobs[job] = self._clock()
        job.add_done_callback(lambda ended: _later(loop, self._jobs.pop, ended, None))

    def _task_ended(self, task: asyncio.Task[Any]) -> None:
        self.tasks -= 1
        if not task.cancelled():
            task.exception()  # seen; nobody waits for it any more


def _later(loop: asyncio.AbstractEventLoop, *call: Any) -> None:
    with contextlib.suppress(RuntimeError):  # the loop has closed, and with it everything that counts
        loop.call_soon_threadsafe(*call)
