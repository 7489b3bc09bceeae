"""Waiting for what other processes do: it can only be asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

POLL = 0.02


async def until(condition: Callable[[], bool], seconds: float, poll: float = POLL) -> None:
    """Wait until the condition holds. Raises TimeoutError."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - other processes set no events here
            await asyncio.sleep(poll)
