"""An idle event loop: how late it wakes is the machine's doing, and what a service's gaps are compared with.

`python -m app.faults.control`: until its standard input ends; then it prints its worst gap in seconds.
"""

from __future__ import annotations

import asyncio
import sys

BEAT = 0.01


async def worst_gap() -> float:
    """Seconds by which this loop woke up late, at the worst, until standard input ended."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), ended.set)
    worst = 0.0
    while not ended.is_set():
        due = loop.time() + BEAT
        await asyncio.sleep(BEAT)
        worst = max(worst, loop.time() - due)
    loop.remove_reader(sys.stdin.fileno())
    return worst


if __name__ == "__main__":
    sys.stdout.write(f"{asyncio.run(worst_gap())}\n")
