"""Waiting for what other threads and processes do: no event tells of it, so it is asked for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")
SECONDS = 60.0
"""Patience, not an expectation: only a failure takes that long."""
_POLL = 0.01


def until(condition: Callable[[], T], what: str, seconds: float = SECONDS) -> T:
    """The condition's first true value; AssertionError when it doesn't come in time."""
    end = time.monotonic() + seconds
    while True:
        if value := condition():
            return value
        assert time.monotonic() < end, f"{what} did not happen within {seconds} s"
        time.sleep(_POLL)


async def comes(condition: Callable[[], Any], what: str, seconds: float = SECONDS) -> None:
    """`until` on an event loop."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"{what} did not happen within {seconds} s"
        await asyncio.sleep(_POLL)
