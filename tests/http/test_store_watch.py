"""What is said of a store that doesn't answer, and of one that does again: real servers, real sockets."""

from __future__ import annotations

import asyncio
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.observe import Metrics
from app.store import connect
from app.store_watch import StoreWatch
from features.embedded import server_binary
from features.errors import CommandError, StoreError, StoreShunned, StoreTimeout, StoreUnavailable
from features.memory_store import MemoryStore
from features.resilient import Resilient
from tests.waiting import until

PASSWORD = "hunter2"


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A server with a password on a port of its own."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        number = int(free.getsockname()[1])
    words = ["--port", str(number), "--bind", "127.0.0.1", "--requirepass", PASSWORD, "--save", ""]
    folder: Path = tmp_path_factory.mktemp("valkey")
    with subprocess.Popen([server_binary(), *words], cwd=folder, stdout=subprocess.DEVNULL) as process:
        until(lambda: accepts(number), "the server's start")
        yield number
        process.terminate()


def accepts(number: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", number)).close()
    except ConnectionRefusedError:
        return False
    return True


def pinged(url: str) -> StoreWatch:
    """A watch that has pinged once."""
    watch = StoreWatch(url, Metrics())

    async def ping() -> None:
        commands = connect(url, timeout=0.5, connect_timeout=0.5, observe=watch.seen)
        await watch.ping(commands)
        await commands.close()

    asyncio.run(ping())
    return watch


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "recserve.store"]


@pytest.mark.parametrize(
    ("url", "words", "reason"),
    [
        ("redis://:wrong-secret@127.0.0.1:{port}/0", "invalid username-password pair", "unavailable"),
        ("redis://127.0.0.1:{port}/0", "Authentication required", "unavailable"),
        ("redis://:hunter2@127.0.0.1:{port}/99", "DB index is out of range", "unavailable"),
        ("redis://:hunter2@127.0.0.1:1/0", "Connect", "unavailable"),
        ("rediss://:hunter2@127.0.0.1:{port}/0", "without TLS", "timeout"),
        ("redis://nobody:hunter2@127.0.0.1:{port}/0", "invalid username-password pair", "unavailable"),
    ],
)
def test_a_store_that_cannot_be_used_is_named_with_its_own_words(
    port: int, url: str, words: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    watch = pinged(url.format(port=port))
    [line] = lines(caplog)
    assert "is down" in line
    assert words in line
    assert PASSWORD not in line
    assert "wrong-secret" not in line
    status = watch.status()
    assert status["state"] == "down"
    assert words in status["last_error"]["message"]
    assert PASSWORD not in str(status)
    assert watch.errors == {reason: 1}


def test_a_store_that_answers_is_up_and_nothing_is_logged(port: int, caplog: pytest.LogCaptureFixture) -> None:
    watch = pinged(f"redis://:{PASSWORD}@127.0.0.1:{port}/0")
    assert (watch.up, watch.status()["last_error"], lines(caplog)) == (True, None, [])


def test_going_and_coming_back_are_logged_once_each_and_not_too_often(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    watch = StoreWatch("redis://host/0", Metrics(), clock=clock, quiet=10.0)
    watch.seen(None)
    for _ in range(100):
        watch.seen(StoreUnavailable("refused"))
    assert watch.status()["state"] == "down"
    assert len(lines(caplog)) == 1
    for _ in range(50):
        watch.seen(None)
        watch.seen(StoreUnavailable("refused"))
    watch.seen(None)
    assert watch.up is True
    assert len(lines(caplog)) == 1
    clock.now += 10.0
    watch.seen(None)
    assert lines(caplog)[1:] == ["store redis://host/0 answers again"]


def test_a_timeout_now_and_then_or_a_refused_command_do_not_make_it_down(caplog: pytest.LogCaptureFixture) -> None:
    watch = StoreWatch("redis://host/0", Metrics())
    for error in (None, StoreTimeout("late"), StoreTimeout("late"), None, StoreTimeout("late"), CommandError("no")):
        watch.seen(error)
    assert watch.up is True
    for _ in range(3):
        watch.seen(StoreTimeout("late"))
    assert watch.up is False
    assert watch.errors == {"timeout": 6, "command": 1}
    assert len(lines(caplog)) == 1


def test_a_password_in_an_error_is_masked() -> None:
    watch = StoreWatch("redis://shop:p%40ss@host/0?password=other", Metrics())
    watch.seen(StoreUnavailable("p@ss and p%40ss and other were refused"))
    assert watch.status()["last_error"]["message"] == "*** and *** and *** were refused"
    assert watch.status()["address"] == "redis://host/0"


def test_state_and_errors_are_metrics() -> None:
    metrics = Metrics()
    watch = StoreWatch("redis://host/0", metrics)
    watch.seen(None)
    assert "recserve_store_up 1.0" in metrics.exposition().decode()
    watch.seen(StoreUnavailable("refused"))
    text = metrics.exposition().decode()
    assert "recserve_store_up 0.0" in text
    assert 'recserve_store_errors_total{reason="unavailable"} 1.0' in text


def test_the_breaker_is_a_metric_and_a_ping_that_is_answered_closes_it() -> None:
    metrics, shown = Metrics(), list[str]()
    fate: list[StoreError | None] = [StoreTimeout("late")]

    async def before(_: object) -> None:
        if fate[0] is not None:
            raise fate[0]

    async def scenario() -> None:
        watch, store = StoreWatch("redis://host/0", metrics), Resilient(MemoryStore(before=before))
        watching = asyncio.create_task(watch.run(store))
        await asyncio.sleep(0)
        for error in [StoreTimeout] * 5 + [StoreShunned] * 3:
            with pytest.raises(error):
                await store.execute([("GET", "k")], timeout=0.1)
        shown.append(metrics.exposition().decode())
        fate[0] = None
        await watch.ping(store)
        shown.append(metrics.exposition().decode())
        watching.cancel()

    asyncio.run(scenario())
    for name, value in (("breaker_state", 2), ("breaker_opened_total", 1), ("calls_total", 5), ("shunned_total", 3)):
        assert f"recserve_store_{name} {value}.0" in shown[0]
    assert "recserve_store_retries_total 0.0" in shown[0]
    assert "recserve_store_breaker_state 0.0" in shown[1]


def test_a_refused_command_of_a_batch_is_seen(port: int) -> None:
    url = f"redis://:{PASSWORD}@127.0.0.1:{port}/0"
    watch = StoreWatch(url, Metrics())

    async def ask() -> None:
        commands = connect(url, timeout=1.0, connect_timeout=1.0, observe=watch.seen)
        await commands.execute([("SET", "k", "v"), ("HGETALL", "k")], timeout=1.0)
        with pytest.raises(CommandError):
            await commands.execute([("NOSUCH",)], timeout=1.0, atomic=True)
        await commands.close()

    asyncio.run(ask())
    assert watch.up is True
    assert watch.errors == {"command": 2}
