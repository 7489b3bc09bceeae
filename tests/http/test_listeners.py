"""Binding, starting, signals and draining."""

import asyncio
import os
import signal
import socket
import threading
from collections.abc import Awaitable, Callable

import pytest
import uvloop

from app.asgi import Message, Scope
from app.listeners import Listener, ListenError, bind, serve, url
from tests.http.service import Reply, Service
from tests.waiting import until


async def empty(scope: Scope, receive: Callable[[], Awaitable[Message]], send: Callable[..., Awaitable[None]]) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body"})


async def nothing() -> None:
    """Does nothing."""


def test_a_taken_port_says_how_to_choose_another() -> None:
    with bind("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ListenError) as error:
            bind("127.0.0.1", port)
    assert str(error.value).startswith(f"port {port} on 127.0.0.1 is taken")
    assert f"Set PORT={port + 10}" in str(error.value)


def test_a_foreign_address_is_named() -> None:
    with pytest.raises(ListenError, match=r"host 192\.0\.2\.1 is not an address of this machine"):
        bind("192.0.2.1", 0)


def test_the_url_of_a_socket() -> None:
    with bind("127.0.0.1", 0) as sock:
        assert url(sock) == f"http://127.0.0.1:{sock.getsockname()[1]}"


def test_a_drain_finishes_what_is_in_flight_and_takes_nothing_new() -> None:
    with Service() as service:
        replies: list[Reply] = []
        slow = threading.Thread(target=lambda: replies.append(service.recommend(user_id="slow")))
        slow.start()
        assert service.engine.entered.wait(10)
        idle = socket.create_connection(("127.0.0.1", service.port))
        service.stop()
        until(lambda: service.readiness.draining, "draining")
        until(lambda: refused(service.port), "a refusal")
        assert idle.recv(1) == b""
        idle.close()
        # The operator's listener goes last.
        assert service.ask("GET", "/metrics", operator=True).status == 200
        service.engine.release.set()
        slow.join(10)
        assert replies[0].status == 200


def test_a_drain_is_bounded_and_what_did_not_finish_is_told(caplog: pytest.LogCaptureFixture) -> None:
    with Service(drain_seconds=0) as service:
        replies: list[Reply] = []
        slow = threading.Thread(target=lambda: replies.append(service.recommend(user_id="slow")))
        slow.start()
        assert service.engine.entered.wait(10)
        service.stop()
        slow.join(10)
        assert (replies[0].status, replies[0].headers["retry-after"]) == (503, "1")
        assert "Exception in ASGI" not in caplog.text


def test_a_draining_service_is_not_ready(service: Service) -> None:
    service.readiness.draining = True
    try:
        reply = service.ask("GET", "/readyz")
    finally:
        service.readiness.draining = False
    assert (reply.status, reply.json()["reasons"]) == (503, ["draining: the service was told to stop"])


def refused(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except ConnectionRefusedError:
        return True
    return False


def test_sighup_reloads_and_sigterm_stops() -> None:
    seen: list[str] = []

    async def reload() -> None:
        seen.append("reload")
        if len(seen) == 2:
            os.kill(os.getpid(), signal.SIGHUP)
            raise ValueError("a broken configuration")
        os.kill(os.getpid(), signal.SIGTERM)

    def ready() -> None:
        seen.append("ready")
        os.kill(os.getpid(), signal.SIGHUP)

    uvloop.run(
        serve(
            [Listener("public", empty, bind("127.0.0.1", 0))],
            start=nothing,
            on_drain=lambda: seen.append("drain"),
            on_reload=reload,
            ready=ready,
        )
    )
    assert seen == ["ready", "reload", "reload", "drain"]


def test_a_sighup_while_starting_waits_until_it_is_ready() -> None:
    seen: list[str] = []

    async def start() -> None:
        os.kill(os.getpid(), signal.SIGHUP)
        for _ in range(5):
            await asyncio.sleep(0)
        seen.append("started")

    async def reload() -> None:
        seen.append("reload")
        os.kill(os.getpid(), signal.SIGTERM)

    listener = Listener("public", empty, bind("127.0.0.1", 0))
    uvloop.run(
        serve([listener], start=start, on_drain=lambda: None, on_reload=reload, ready=lambda: seen.append("ready"))
    )
    assert seen == ["started", "ready", "reload"]
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_DFL


def test_a_start_that_fails_ends_the_servers_and_is_raised() -> None:
    async def start() -> None:
        raise LookupError("no release")

    sock = bind("127.0.0.1", 0)
    port = sock.getsockname()[1]
    arguments = {"on_drain": lambda: None, "on_reload": nothing, "ready": lambda: pytest.fail("it isn't ready")}
    with pytest.raises(LookupError, match="no release"):
        asyncio.run(serve([Listener("public", empty, sock)], start=start, signals=False, **arguments))
    assert refused(port)
