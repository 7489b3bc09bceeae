import os
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import unquote

import pytest

from features.embedded import LONGEST_SOCKET_PATH, EmbeddedStore
from features.errors import StoreUnavailable
from tests.waiting import until

SERVICE = """
import sys, time
from pathlib import Path
from features.embedded import EmbeddedStore
store = EmbeddedStore(Path(sys.argv[1]))
url = store.start()
print(url, store.pid, flush=True)
time.sleep(600)
"""


def ask(url: str, command: str) -> bytes:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(2)
        connection.connect(unquote(url.removeprefix("unix://")))
        connection.sendall(command.encode() + b"\r\n")
        return connection.recv(4096)


def alive(pid: int) -> bool:
    """A zombie whose parent, perhaps the container's first process, doesn't reap it counts as dead."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def answers(url: str) -> bool:
    try:
        return ask(url, "PING") == b"+PONG\r\n"
    except OSError:
        return False


def test_data_survive_a_restart_of_the_service(tmp_path: Path) -> None:
    for expected in (b"$-1\r\n", b"$5\r\nvalue\r\n"):
        store = EmbeddedStore(tmp_path / "store")
        url = store.start()
        try:
            assert ask(url, "GET key") == expected
            assert ask(url, "SET key value") == b"+OK\r\n"
        finally:
            store.stop()
        assert not answers(url)
        assert not Path(unquote(url.removeprefix("unix://"))).parent.exists()


def test_killed_server_comes_back_with_its_data_at_the_same_url(tmp_path: Path) -> None:
    reports: list[str] = []
    store = EmbeddedStore(tmp_path / "store", report=reports.append)
    url = store.start()
    try:
        ask(url, "SET key value")
        first = store.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        until(lambda: store.restarts == 1 and answers(url), "a restart")
        assert ask(url, "GET key") == b"$5\r\nvalue\r\n"
        assert store.pid != first
        assert reports == ["The private store server exited with status -9; restarting it."]
    finally:
        store.stop()


def test_killed_watchdog_takes_the_server_along_and_both_come_back(tmp_path: Path) -> None:
    store = EmbeddedStore(tmp_path / "store")
    url = store.start()
    try:
        first, running = store.pid, store._watchdog
        assert first is not None
        assert running is not None
        running.kill()
        until(lambda: not alive(first), "its end")
        until(lambda: store.pid not in (None, first) and answers(url), "another server")
    finally:
        store.stop()
    assert not answers(url)


@pytest.fixture
def service(tmp_path: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", SERVICE, str(tmp_path / "store")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        cwd=Path(__file__).parents[2],
    )


def test_server_does_not_outlive_a_killed_service(service: "subprocess.Popen[str]", tmp_path: Path) -> None:
    with service:
        assert service.stdout is not None
        url, pid = service.stdout.readline().split()
        assert answers(url)
        service.kill()
    until(lambda: not alive(int(pid)), "its end")
    until(lambda: not Path(unquote(url.removeprefix("unix://"))).parent.exists(), "the folder's removal")
    # The lock went with the last process that could write: a new service starts at once.
    store = EmbeddedStore(tmp_path / "store")
    store.start()
    store.stop()


def test_signal_to_the_service_s_process_group_leaves_the_server_alone(
    service: "subprocess.Popen[str]",
) -> None:
    with service:
        assert service.stdout is not None
        url, pid = service.stdout.readline().split()
        assert os.getpgid(int(pid)) != os.getpgid(service.pid)
        os.killpg(service.pid, signal.SIGUSR1)
    # SIGUSR1 ended the service; its server follows by the pipe, not by the signal.
    until(lambda: not alive(int(pid)), "its end")
    assert not answers(url)


def test_second_service_on_one_directory_is_told_the_first_one_s_pid(tmp_path: Path) -> None:
    store = EmbeddedStore(tmp_path / "store")
    url = store.start()
    try:
        with pytest.raises(StoreUnavailable, match=rf"in use by process {os.getpid()}\b"):
            EmbeddedStore(tmp_path / "store").start()
        assert answers(url)
    finally:
        store.stop()


def test_server_that_cannot_start_is_an_error_with_its_last_words(tmp_path: Path) -> None:
    append_only = tmp_path / "store" / "appendonlydir"
    append_only.mkdir(parents=True)
    (append_only / "appendonly.aof.manifest").write_text("nonsense\n")
    store = EmbeddedStore(tmp_path / "store")
    with pytest.raises(StoreUnavailable, match="did not come up"):
        store.start()
    assert store.pid is None


def test_long_temporary_directory_is_left_for_a_shorter_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / ("x" * 120)))
    store = EmbeddedStore(tmp_path / "a directory with spaces, and a longish name so that no socket fits in it")
    url = store.start()
    try:
        assert len(unquote(url.removeprefix("unix://"))) <= LONGEST_SOCKET_PATH
        assert answers(url)
    finally:
        store.stop()
