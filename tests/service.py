"""The service as its users run it: real processes, their own ports, an own store; and what tests ask of them."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from features.commands import Command, Reply
from features.redis_tier import RedisTier
from tests.waiting import until

STOP_SECONDS = 30.0
IDLE_SECONDS = 60.0
"""As proxies do: shorter than the service keeps an idle connection."""
_READY = re.compile(r"page +http://127\.0\.0\.1:(\d+)/\n(?:.*\n)*? +operator +http://127\.0\.0\.1:(\d+)/")


def recserve(
    *words: str | Path, env: Mapping[str, str] | None = None, seconds: float = 120.0
) -> subprocess.CompletedProcess[str]:
    """Run one verb to its end, in an empty folder: what `make serve` has left in this one's `var` is none of its."""
    command = [str(_executable()), *map(str, words)]
    with tempfile.TemporaryDirectory(prefix="recserve-test-") as nowhere:
        return subprocess.run(
            command,
            env=_environment(env),
            cwd=nowhere,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=seconds,
            check=False,
        )


@dataclass(frozen=True)
class Place:
    """A configuration and what was made at run time."""

    configs: Path
    var: Path

    @classmethod
    def under(cls, folder: Path) -> Place:
        """The two folders under one, not made yet."""
        return cls(folder / "configs", folder / "var")

    def copy(self, folder: Path) -> Place:
        """The same in another folder, store included; nothing may serve from here meanwhile."""
        other = Place.under(folder)
        shutil.copytree(self.configs, other.configs)
        shutil.copytree(self.var, other.var, symlinks=True)
        return other

    @property
    def words(self) -> list[str | Path]:
        """`--config` and `--var`."""
        return ["--config", self.configs, "--var", self.var]

    def read(self, name: str) -> str:
        """A configuration file."""
        return (self.configs / name).read_text(encoding="utf-8")

    def replace(self, name: str, old: str, new: str) -> None:
        """Edit a configuration file: every `old` becomes `new`, and there must be one."""
        text = self.read(name)
        assert old in text, f"{name} has no {old!r}"
        (self.configs / name).write_text(text.replace(old, new), encoding="utf-8")


@dataclass
class Service:
    """A running service. `process` is its supervisor, `port` and `operator` its listeners; `output` what it printed."""

    process: subprocess.Popen[bytes]
    output: Path
    port: int = 0
    operator: int = 0
    _connections: dict[int, http.client.HTTPConnection] = field(default_factory=dict)
    _used: dict[int, float] = field(default_factory=dict)

    def text(self) -> str:
        """All output so far."""
        return self.output.read_text(encoding="utf-8", errors="replace")

    def request(
        self, method: str, path: str, body: Any = None, *, operator: bool = False
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Status, headers and body of one request on a kept connection."""
        port = self.operator if operator else self.port
        connection = self._connections.setdefault(port, http.client.HTTPConnection("127.0.0.1", port, timeout=20))
        if time.monotonic() - self._used.get(port, 0.0) > IDLE_SECONDS:
            connection.close()
        self._used[port] = time.monotonic()
        sent = None if body is None else json.dumps(body).encode()
        try:
            connection.request(method, path, sent, {} if body is None else {"content-type": "application/json"})
            response = connection.getresponse()
            return response.status, dict(response.getheaders()), response.read()
        except (OSError, http.client.HTTPException):
            connection.close()
            raise

    def get(self, path: str, *, operator: bool = False) -> Any:
        """The JSON of a page that must be there."""
        status, _, content = self.request("GET", path, operator=operator)
        assert status == 200, content
        return json.loads(content)

    def ask(self, scene: str = "home", user: str | None = None, size: int = 10, **more: Any) -> Any:
        """A `POST /recommend` that must succeed."""
        body = {"scene": scene, "user_id": user, "size": size, **more}
        status, _, content = self.request("POST", "/recommend", body)
        assert status == 200, content
        return json.loads(content)

    def did(self, *events: tuple[str, str, float], event: str = "purchase") -> None:
        """A `POST /events` that must succeed: (user, item, time) each."""
        body = {"events": [{"user_id": u, "item_id": i, "event": event, "ts": ts} for u, i, ts in events]}
        status, _, content = self.request("POST", "/events", body)
        assert status == 200, content

    def reload(self) -> list[str]:
        """`POST /admin/reload`; the errors."""
        status, _, content = self.request("POST", "/admin/reload", operator=True)
        return [] if status == 200 else list(json.loads(content)["errors"])

    def figure(self, name: str, **labels: str) -> float:
        """The sum of a metric's samples that have these labels; 0 without any."""
        status, _, content = self.request("GET", "/metrics", operator=True)
        assert status == 200, content
        families = text_string_to_metric_families(content.decode())
        samples = (sample for family in families for sample in family.samples)
        return sum(s.value for s in samples if s.name == name and labels.items() <= s.labels.items())

    def another(self) -> Service:
        """The same service over connections of its own: for another thread. Close it."""
        return Service(self.process, self.output, self.port, self.operator)

    def close(self) -> None:
        """Close the connections to it."""
        for connection in self._connections.values():
            connection.close()

    def stop(self) -> int:
        """SIGTERM, and the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOP_SECONDS)

    def store(self, command: Command, *more: Command) -> list[Reply]:
        """Replies of the private store."""
        return ask_store(self.store_url, command, *more)

    @property
    def store_url(self) -> str:
        """The private store's URL."""
        words = Path(f"/proc/{self.watchdog}/cmdline").read_bytes().decode().split("\0")
        return f"unix://{words[words.index('--unixsocket') + 1]}"

    @property
    def workers(self) -> list[int]:
        """Worker processes that run, those that load or drain too."""
        return [pid for pid in children(self.process.pid) if b"app.worker" in _command(pid)]

    @property
    def watchdog(self) -> int:
        """The process that keeps the private store."""
        return next(pid for pid in children(self.process.pid) if b"watchdog" in _command(pid))

    @property
    def valkey(self) -> int | None:
        """The private store's process, None between two of them."""
        return next(iter(children(self.watchdog)), None)


@contextlib.contextmanager
def serving(
    place: Place, *words: str | Path, env: Mapping[str, str] | None = None, ready: bool = True
) -> Iterator[Service]:
    """A service on ports of its own, ready unless not to be waited for. Ended on leaving, killed if need be."""
    place.var.mkdir(parents=True, exist_ok=True)
    output = place.var / f"output-{time.monotonic_ns()}.log"
    command = [str(_executable()), "serve", *map(str, (*place.words, "--port", 0, "--operator-port", 0, *words))]
    with output.open("ab") as log:
        process = subprocess.Popen(command, env=_environment(env), stdout=log, stderr=log)
    service = Service(process, output)
    try:
        if ready:
            found = until(lambda: _started(service), "the service's start")
            service.port, service.operator = map(int, found.groups())
        yield service
    finally:
        service.close()
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                raise AssertionError(f"the service didn't end:\n{service.text()}") from None


def ask_store(url: str, *commands: Command) -> list[Reply]:
    """Replies of any store."""

    async def ask() -> list[Reply]:
        tier = RedisTier(url, timeout=10.0, connect_timeout=10.0)
        try:
            return await tier.execute(list(commands), timeout=10.0)
        finally:
            await tier.close()

    return asyncio.run(ask())


def ids(answer: Mapping[str, Any]) -> list[str]:
    """An answer's item ids in order."""
    return [item["id"] for item in answer["items"]]


def children(pid: int) -> list[int]:
    """Processes that `pid` started and that still run, whichever of its threads started them."""
    found: list[int] = []
    for tasks in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += map(int, tasks.read_text().split())
    return found


def alive(pid: int) -> bool:
    """Whether the process runs (a zombie doesn't)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _started(service: Service) -> re.Match[str] | None:
    assert service.process.poll() is None, f"the service ended while starting:\n{service.text()}"
    return _READY.search(service.text())


def _executable() -> Path:
    return Path(sys.executable).with_name("recserve")


def _environment(env: Mapping[str, str] | None) -> dict[str, str]:
    """This process's environment without what would configure the service, and `env` on top."""
    kept: dict[str, str] = {k: v for k, v in os.environ.items() if k not in _SETTINGS}
    return {**kept, "OMP_NUM_THREADS": "1", **(env or {})}


_SETTINGS: Sequence[str] = ("PORT", "OPERATOR_PORT", "HOST", "REDIS_URL")
