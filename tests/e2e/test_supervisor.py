"""Worker processes die, stop, are replaced and left alone, while the service serves."""

from __future__ import annotations

import http.client
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.shop import Shop
from tests.service import Place, Service, alive, children, ids, serving
from tests.waiting import until

CLIENTS = 6


@dataclass
class Traffic:
    """Clients that ask on and on over kept connections, and connect again only after a failure or a closing answer."""

    service: Service
    users: Sequence[str]
    answers: int = 0
    failures: list[str] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    def ask_on(self, client: int) -> None:
        own = self.service.another()
        at = client
        while not self.over.is_set():
            at += CLIENTS
            try:
                answer = own.ask("home", self.users[at % len(self.users)], size=10)
            except (OSError, http.client.HTTPException, AssertionError) as error:
                self.failures.append(repr(error))
            else:
                assert len(ids(answer)) == 10
                self.answers += 1
        own.close()

    def __enter__(self) -> Traffic:
        self._pool = ThreadPoolExecutor(CLIENTS)
        self._clients = [self._pool.submit(self.ask_on, client) for client in range(CLIENTS)]
        self.more(20)
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self._pool.shutdown()
        for client in self._clients:
            client.result()

    def more(self, count: int = 50) -> None:
        """Wait until so many more were answered."""
        wanted = self.answers + count
        until(lambda: self.answers >= wanted, f"{count} more answers")


@pytest.fixture(scope="module")
def live(fresh: Callable[[], Place]) -> Iterator[Service]:
    place = fresh()
    # Others use this machine too: what waits for the processor is not to be refused here.
    place.replace("service.yaml", "workers: 1", "workers: 2\ndrain: 2s")
    with serving(place) as running:
        yield running


def workers(service: Service) -> list[dict[str, Any]]:
    """The workers that serve."""
    return [one for one in service.get("/admin/status", operator=True)["workers"] if one["ready"]]


def whole(service: Service) -> bool:
    return service.get("/readyz", operator=True)["workers"] == {"ready": 2, "wanted": 2}


def answered(service: Service) -> float:
    return service.figure("recserve_requests_total", route="/recommend")


def test_status_shows_every_worker_and_readiness_counts_them(live: Service) -> None:
    status = live.get("/admin/status", operator=True)
    assert [one["slot"] for one in status["workers"]] == [0, 1]
    assert {one["pid"] for one in status["workers"]} == set(live.workers)
    assert {one["config"] for one in status["workers"]} == {status["config"]}
    assert all(one["rss"] > one["own"] > 0 and one["descriptors"] > 0 for one in status["workers"])
    assert live.get("/healthz", operator=True)["workers"] == {"ready": 2, "wanted": 2}
    assert live.figure("recserve_workers", state="ready") == 2
    for slot in "01":
        assert live.figure("recserve_worker_rss_bytes", worker=slot) > 0
        assert live.figure("process_resident_memory_bytes", worker=slot) > 0


def test_the_supervisor_holds_no_model_and_no_index(live: Service) -> None:
    def mapped(pid: int) -> str:
        return Path(f"/proc/{pid}/maps").read_text()

    assert not any(name in mapped(live.process.pid) for name in ("onnxruntime", "faiss"))
    assert all(name in mapped(pid) for name in ("onnxruntime", "faiss") for pid in live.workers)


def test_a_killed_worker_takes_no_more_than_it_held_and_no_count_falls(live: Service, shop: Shop) -> None:
    until(lambda: whole(live), "two workers")
    with Traffic(live, shop.user_ids) as traffic:
        before, restarts = answered(live), live.figure("recserve_worker_restarts_total", reason="exited")
        os.kill(live.workers[0], signal.SIGKILL)
        traffic.more()
        until(lambda: live.figure("recserve_worker_restarts_total", reason="exited") == restarts + 1, "the restart")
        until(lambda: whole(live), "another worker")
        traffic.more()
        assert answered(live) >= before
    # A client has one request at a time; it may have had another on a connection that was gone already.
    assert len(traffic.failures) <= CLIENTS


def test_a_stopped_worker_leaves_new_connections_to_the_others_and_is_replaced(live: Service, shop: Shop) -> None:
    until(lambda: whole(live), "two workers")
    stopped = live.workers[0]
    os.kill(stopped, signal.SIGSTOP)
    for user in shop.user_ids[:20]:
        with closing(live.another()) as own:
            assert len(own.ask("home", user)["items"]) == 10
    until(lambda: live.figure("recserve_worker_restarts_total", reason="stalled") == 1, "the restart")
    assert not alive(stopped)
    until(lambda: whole(live), "another worker")


def test_rolling_replaces_both_workers_without_an_error(live: Service, shop: Shop) -> None:
    until(lambda: whole(live), "two workers")
    before = {one["pid"] for one in workers(live)}
    with Traffic(live, shop.user_ids) as traffic:
        live.process.send_signal(signal.SIGUSR1)
        until(lambda: live.figure("recserve_worker_restarts_total", reason="asked") == 2, "the replacements")
        until(lambda: not any(map(alive, before)), "the end of the old ones")
        traffic.more()
    assert traffic.failures == []
    assert whole(live)


def test_a_release_that_is_gone_later_leaves_the_workers_that_serve(live: Service, shop: Shop) -> None:
    """What can't be loaded any more is told, tried again, and served once it can be."""
    until(lambda: whole(live), "two workers")
    [release] = live.output.parent.glob("releases/*/manifest.json")
    release.rename(release.with_name("was"))
    os.kill(live.workers[0], signal.SIGKILL)
    until(lambda: live.figure("recserve_worker_restarts_total", reason="refused") >= 1, "a refusal")
    until(lambda: "can't start" in live.text(), "its words in the log")
    assert "manifest.json" in live.text()
    with closing(live.another()) as own:
        assert len(own.ask("home", shop.user_ids[0])["items"]) == 10
    release.with_name("was").rename(release)
    until(lambda: whole(live), "two workers")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_outlives_the_supervisor(fresh: Callable[[], Place], number: signal.Signals) -> None:
    place = fresh()
    place.replace("service.yaml", "workers: 1", "workers: 2")
    with serving(place) as service:
        started = [*service.workers, service.watchdog, *children(service.watchdog)]
        assert len(started) == 4
        os.kill(service.process.pid, number)
        until(lambda: not any(map(alive, started)), "the end of all")
        service.process.wait(20)
    if number == signal.SIGKILL:
        with serving(place) as after:
            assert after.ask()["degraded"] == []
