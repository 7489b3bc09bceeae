"""The service under test: `recserve serve` as a process of its own, its workers, and what can be asked of them."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from app.faults import procfs
from app.faults.errors import NotServing
from app.faults.place import Place
from app.faults.shop import RECSERVE

START_SECONDS, STOP_SECONDS = 90.0, 20.0
_ADDRESS = re.compile(r"^\s*(page|operator)\s+http://([^:/\s]+):(\d+)", re.MULTILINE)
_POLL = 0.02
_SETTINGS = ("PORT", "OPERATOR_PORT", "HOST", "REDIS_URL")


class Server:
    """One service over `place`, on ports of its own, pinned to `cores`. `log` takes all that it prints."""

    def __init__(self, place: Place, log: Path, cores: frozenset[int], env: Mapping[str, str]) -> None:
        self._place = place
        self._log = log
        self._cores = cores
        self._env = {**{name: value for name, value in os.environ.items() if name not in _SETTINGS}, **env}
        self._process: subprocess.Popen[bytes] | None = None
        self._known: dict[int, int] = {}
        self.address = ("127.0.0.1", 0)
        self.operator = ("127.0.0.1", 0)

    async def start(self) -> None:
        """Start it and wait until it is ready. Raises NotServing."""
        self._process = self._spawn()
        until = time.monotonic() + START_SECONDS
        while len(found := dict(self._addresses())) < 2:
            if self._process.poll() is not None or time.monotonic() > until:
                raise NotServing(f"the service did not start: {self.last_words()}")
            await asyncio.sleep(_POLL)
        self.address, self.operator = found["page"], found["operator"]
        self.look()

    async def stop(self) -> None:
        """SIGTERM, then SIGKILL for what is left; its workers too, stopped ones included."""
        if self._process is None:
            return
        self.look()
        for pid, at in self._known.items():
            if procfs.started(pid) == at:
                os.kill(pid, signal.SIGCONT)
        own = {pid: at for pid, at in self._known.items() if pid == self.pid}
        await asyncio.to_thread(procfs.end, own, signal.SIGTERM, STOP_SECONDS)
        await asyncio.to_thread(procfs.end, self._known, signal.SIGKILL, 5.0)
        self._process.wait()
        self._process = None

    def look(self) -> None:
        """Note which processes belong to it now: all of them are ended with it."""
        for pid in procfs.family(self.pid):
            at = procfs.started(pid)
            if at is not None:
                self._known[pid] = at

    @property
    def pid(self) -> int:
        """The process that was started."""
        assert self._process is not None
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether that process runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def workers(self) -> list[int]:
        """The processes that serve, by age."""
        self.look()
        found = [pid for pid in procfs.children(self.pid) if "app.worker" in procfs.command(pid)]
        return sorted(found) or [self.pid]

    async def get(self, path: str) -> bytes:
        """A page of the operator's listener. Raises OSError."""
        return (await self.ask("GET", path))[1]

    async def ask(
        self, method: str, path: str, body: object = None, *, public: bool = False, timeout: float = 30.0
    ) -> tuple[int, bytes]:
        """Status and content of one request on a connection of its own. Raises OSError."""
        host, port = self.address if public else self.operator
        sent = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://{host}:{port}{path}", sent, method=method)
        request.add_header("content-type", "application/json")

        def fetch() -> tuple[int, bytes]:
            try:
                with urllib.request.urlopen(request, timeout=timeout) as answer:
                    return answer.status, answer.read()
            except urllib.error.HTTPError as error:
                with error:
                    return error.code, error.read()

        return await asyncio.to_thread(fetch)

    async def status(self) -> dict[str, Any]:
        """`/admin/status`. Raises OSError."""
        found: dict[str, Any] = json.loads(await self.get("/admin/status"))
        return found

    async def ready(self) -> set[int]:
        """The workers that serve, as the service itself tells; none when it tells nothing."""
        try:
            workers = (await self.status()).get("workers", [])
        except (OSError, ValueError):
            return set()
        return {int(worker["pid"]) for worker in workers if worker["ready"]}

    async def all_ready(self, workers: int, seconds: float, but: Collection[int] = ()) -> None:
        """Wait until so many workers serve, and none of `but` does or runs. Raises TimeoutError."""
        async with asyncio.timeout(seconds):
            while True:
                ready = await self.ready()
                if len(ready) >= workers and not (ready | set(self.workers)) & set(but):
                    return
                await asyncio.sleep(_POLL)

    async def metrics(self) -> dict[str, float]:
        """`/metrics`, each name's samples added up over their labels. Raises OSError."""
        sums: dict[str, float] = {}
        for name, value in await self._samples():
            sums[name] = sums.get(name, 0.0) + value
        return sums

    async def peaks(self) -> dict[str, float]:
        """`/metrics`, each name's highest sample. Raises OSError."""
        highest: dict[str, float] = {}
        for name, value in await self._samples():
            highest[name] = max(highest.get(name, value), value)
        return highest

    async def _samples(self) -> list[tuple[str, float]]:
        families = text_string_to_metric_families((await self.get("/metrics")).decode())
        return [(sample.name, sample.value) for family in families for sample in family.samples]

    def said(self, words: str) -> int:
        """How many lines of its log have the words."""
        return sum(words in line for line in self._log.read_text(errors="replace").splitlines())

    def last_words(self) -> str:
        """The end of its log."""
        return " | ".join(self._log.read_text(errors="replace").splitlines()[-8:])

    def _spawn(self) -> subprocess.Popen[bytes]:
        words = ["serve", "--config", self._place.configs, "--var", self._place.var]
        command = [*RECSERVE, *map(str, words), "--host", "127.0.0.1", "--port", "0", "--operator-port", "0"]
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, self._cores)  # inherited, so that its pools are sized for these cores too
        try:
            with self._log.open("wb") as log:
                return subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self._env, start_new_session=True
                )
        finally:
            os.sched_setaffinity(0, before)

    def _addresses(self) -> list[tuple[str, tuple[str, int]]]:
        found = _ADDRESS.findall(self._log.read_text(errors="replace"))
        return [(name, (host, int(port))) for name, host, port in found]
