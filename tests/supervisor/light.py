"""A worker without a funnel: it answers every connection with its process id, and misbehaves when told to.

    python -m tests.supervisor.light LISTENING CONTROL

What it does at its start stands in the file `mode` of its configuration's folder: `refuse` says why it can't start,
`crash` ends with status 3, `stubborn` ignores a drain; anything else serves.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from app.supervisor.agent import Agent
from app.supervisor.channel import to_supervisor
from app.supervisor.messages import Beat, Bye, Failed, Family, Ready, Sample, Spec, read_spec


class Light:
    def __init__(self, spec: Spec, mode: str) -> None:
        self.ended = asyncio.Event()
        self._mode = mode
        self._spec = spec
        self._hits = 0
        self._open = 0
        self._own = 0
        self._stuck = 0.0
        self._server: asyncio.Server | None = None

    def verbs(self) -> Mapping[str, Any]:
        names = ("metrics", "drain", "grow", "stick", "hang", "fail", "status", "odd", "endless")
        return {name: getattr(self, name) for name in names}

    def families(self) -> list[Family]:
        return [
            Family("hits", "Connections.", "counter", [Sample("hits_total", {"kind": "any"}, self._hits)]),
            Family("open", "Open ones.", "gauge", [Sample("open", {}, self._open)]),
        ]

    async def metrics(self) -> Mapping[str, Any]:
        return {"families": msgspec.to_builtins(self.families())}

    async def status(self) -> Mapping[str, Any]:
        return {"pid": os.getpid(), "early": self._spec.early, "config": self._spec.config}

    async def grow(self, size: int) -> Mapping[str, Any]:
        self._own = size
        return {}

    async def stick(self, seconds: float) -> Mapping[str, Any]:
        self._stuck = seconds
        return {}

    async def hang(self) -> Mapping[str, Any]:
        self._block()
        return {}

    def _block(self) -> None:
        time.sleep(60)

    async def fail(self) -> Mapping[str, Any]:
        raise KeyError("a bug of the verb")

    async def odd(self) -> Mapping[str, Any]:
        return {"name": "\udcff"}

    async def endless(self) -> Mapping[str, Any]:
        endless: list[Any] = []
        endless.append(endless)
        return {"endless": endless}

    async def drain(self, linger: bool = False) -> Mapping[str, Any]:
        if self._mode != "stubborn":
            self.end()
        return {}

    def end(self) -> None:
        if self._server is not None:
            self._server.close()
        self.ended.set()

    def vitals(self) -> Beat:
        return Beat(own=self._own, stuck=self._stuck)

    async def serve(self, listening: socket.socket) -> None:
        self._server = await asyncio.start_server(self._answer, sock=listening)

    async def finish(self) -> None:
        while self._open:  # noqa: ASYNC110 - a test's worker
            await asyncio.sleep(0.01)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One line in, one line out."""
        self._hits += 1
        self._open += 1
        try:
            while await reader.readline():
                writer.write(b"%d\n" % os.getpid())
                await writer.drain()
        finally:
            self._open -= 1
            writer.close()


async def work(listening: socket.socket, control: socket.socket, spec: Spec, mode: str) -> int:
    channel = await to_supervisor(control)
    if mode == "crash":
        return 3
    if mode == "refuse":
        channel.send(Failed("no release is active"))
        await channel.flush()
        return 1
    light = Light(spec, mode)
    agent = asyncio.create_task(Agent(channel, light.verbs(), light.vitals, light.end).run())
    await light.serve(listening)
    channel.send(Ready({"config": spec.config}))
    await light.ended.wait()
    await light.finish()
    agent.cancel()
    channel.send(Bye(light.families()))
    await channel.flush()
    return 0


def main() -> int:
    listening, control = (socket.socket(fileno=int(number)) for number in sys.argv[1:])
    spec = read_spec(control)
    return asyncio.run(work(listening, control, spec, Path(spec.config, "mode").read_text()))


if __name__ == "__main__":
    sys.exit(main())
