"""An event loop whose clock jumps to the next timer instead of waiting for it: delays without sleeping."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Jumping(selectors.DefaultSelector):  # type: ignore[misc, valid-type]  # the class depends on the platform
    skipped = 0.0

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None:
            return super().select(None)
        self.skipped += timeout
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """`time()` starts at 0 and moves only when everybody waits."""

    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.skipped


def run_virtual(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on a VirtualLoop of its own, and end what it left behind."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)


def loop_time() -> float:
    """The running loop's time: the clock to give a pipeline under test."""
    return asyncio.get_running_loop().time()
