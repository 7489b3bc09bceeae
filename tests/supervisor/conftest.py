"""A fleet of light workers on a real socket."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from app.supervisor.fleet import Fleet
from app.supervisor.messages import Family, Spec
from app.supervisor.seat import Limits
from app.supervisor.spawn import Spawner

ROOT = Path(__file__).parents[2]
QUICK = Limits(drain=5.0, first=0.01, longest=0.05, stall=60.0, settle=0.0, leave=5.0)


class Place:
    """A fleet and where it listens."""

    def __init__(self, fleet: Fleet, folder: Path, address: tuple[str, int]) -> None:
        self.fleet = fleet
        self._folder = folder
        self.address = address

    def mode(self, name: str) -> None:
        """How workers that start from now on behave."""
        (self._folder / "mode").write_text(name)

    async def ask(self) -> int:
        """The process that answers a new connection."""
        reader, writer = await asyncio.open_connection(*self.address)
        try:
            writer.write(b"who?\n")
            return int(await reader.readline())
        finally:
            writer.close()

    async def hits(self) -> float:
        """How many connections all workers ever took."""
        gone, living = await self.fleet.figures()
        families: list[Family] = [*gone, *(family for _, some in living for family in some)]
        return sum(sample.value or 0.0 for family in families for sample in family.samples if family.name == "hits")


@contextlib.asynccontextmanager
async def fleet_of(folder: Path, wanted: int, limits: Limits = QUICK, mode: str = "serve") -> AsyncIterator[Place]:
    """A fleet, not started; drained on leaving."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        spawner = Spawner(listening, (sys.executable, "-P", "-m", "tests.supervisor.light"), {"PYTHONPATH": str(ROOT)})
        fleet = Fleet(spawner, wanted, Spec(0, str(folder), str(folder), ""), limits)
        place = Place(fleet, folder, listening.getsockname())
        place.mode(mode)
        try:
            yield place
        finally:
            await fleet.drain()
