"""The store behind its breaker and its budget of retries: scripted faults, an injected clock, and one real server."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from features.breaker import CLOSED, HALF_OPEN, OPEN
from features.commands import Command
from features.errors import CommandError, StoreError, StoreShunned, StoreTimeout, StoreUnavailable
from features.memory_store import MemoryStore
from features.redis_tier import RedisTier
from features.resilient import READS, Resilient, RetryBudget
from tests.valkey import running_valkey

FAIR, FIRST, LONGEST = 0.025, 0.25, 0.5
INNER = 0.05  # the inner store's own limit on one call
READ: list[Command] = [("GET", "k"), ("HMGET", "h", "f")]
WRITE: list[Command] = [("GET", "k"), ("SET", "k", "v")]


@dataclass
class Script(MemoryStore):
    """A store that does as told, on a clock that moves only when it takes its time. `sent` holds (when, timeout)."""

    now: float = 1000.0
    fate: str = "answer"
    took: float = 0.001
    sent: list[tuple[float, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(lambda: self.now)

    async def _arrive(self, commands: Sequence[Command], timeout: float) -> None:
        self.sent.append((self.now, timeout))
        limit = max(min(timeout, INNER), 0.0)
        if self.fate == "silence" or self.took > limit:
            self.now += limit
            raise StoreTimeout("late")
        self.now += self.took
        if self.fate == "reset":
            raise StoreUnavailable("reset")
        if self.fate == "hang":
            await asyncio.Event().wait()
        await super()._arrive(commands, 1.0)


def over(script: Script) -> Resilient:
    return Resilient(script, fair=FAIR, clock=lambda: script.now)


def ended(call: Coroutine[Any, Any, object]) -> object:
    """What a call that never waits for anything returns or raises; cheaper than a loop."""
    try:
        call.send(None)
    except StopIteration as done:
        return done.value
    except StoreError as error:
        return error
    raise AssertionError("it waits")


def ask(store: Resilient, commands: Sequence[Command] = READ, timeout: float = 0.1) -> object:
    return ended(store.execute(commands, timeout=timeout))


def saved(script: Script, store: Resilient, calls: int = 100) -> None:
    """Earn retries."""
    for _ in range(calls):
        ask(store)
    script.sent.clear()


def opened() -> tuple[Script, Resilient]:
    script = Script(fate="silence")
    store = over(script)
    for _ in range(5):
        ask(store)
    assert store.state is OPEN
    script.sent.clear()
    return script, store


def test_a_read_that_failed_is_sent_once_more() -> None:
    script = Script()
    store = over(script)
    saved(script, store)
    script.fate = "reset"
    assert isinstance(ask(store), StoreUnavailable)
    assert (len(script.sent), store.calls, store.retries) == (2, 101, 1)
    script.fate, script.took = "answer", INNER + 0.01
    assert isinstance(ask(store), StoreTimeout)
    assert (len(script.sent), store.retries) == (4, 2)


def test_a_retry_has_what_is_left_of_the_caller_s_time() -> None:
    script = Script()
    store = over(script)
    saved(script, store)
    script.fate = "silence"
    ask(store, timeout=INNER + FAIR + 0.001)
    assert [timeout for _, timeout in script.sent] == pytest.approx([INNER + FAIR + 0.001, FAIR + 0.001])
    script.sent.clear()
    ask(store, timeout=INNER + FAIR - 0.001)
    assert len(script.sent) == 1


@pytest.mark.parametrize("fate", ["reset", "silence"])
def test_writes_are_never_sent_twice(fate: str) -> None:
    script = Script()
    store = over(script)
    saved(script, store)
    script.fate = fate
    calls: list[Coroutine[Any, Any, object]] = [
        store.execute(WRITE, timeout=1.0),
        store.execute([(b"append", "k", "v")], timeout=1.0, atomic=True),
        store.trim(b"k", 3, timeout=1.0),
        store.update(b"k", ("GET", "k"), lambda _: [], timeout=1.0),
    ]
    for number, call in enumerate(calls, 1):
        assert isinstance(ended(call), StoreError)
        assert len(script.sent) == number


def test_every_read_is_a_command_that_the_store_knows_and_changes_nothing() -> None:
    writes = {"SET", "APPEND", "HSET", "EXPIRE", "RENAME", "DEL", "UNLINK"}
    assert set(MemoryStore().handlers) - READS == writes


def test_a_refused_command_is_an_answer() -> None:
    script = Script()
    store = over(script)
    saved(script, store)
    for _ in range(30):
        assert isinstance(ended(store.execute([("NOSUCH",)], timeout=0.1, atomic=True)), CommandError)
    assert (store.state, store.retries) == (CLOSED, 0)


def test_a_caller_with_hardly_any_time_left_says_nothing_of_the_store() -> None:
    script = Script(fate="silence")
    store = over(script)
    for timeout in (FAIR - 0.001, 0.001, 0.0, -1.0) * 10:
        assert isinstance(ask(store, timeout=timeout), StoreTimeout)
    assert (store.state, store.retries) == (CLOSED, 0)


def test_a_caller_with_hardly_any_time_left_is_no_probe() -> None:
    script, store = opened()
    script.now += LONGEST
    assert isinstance(ask(store, timeout=FAIR - 0.001), StoreShunned)
    assert not script.sent
    script.fate = "answer"
    assert ask(store, timeout=FAIR) == [None, [None]]
    assert store.state is CLOSED


def test_an_empty_batch_asks_nothing_and_proves_nothing() -> None:
    script, store = opened()
    script.now += LONGEST
    assert ask(store, []) == []
    assert store.state is OPEN


def test_open_answers_at_once_and_counts() -> None:
    script, store = opened()
    before = script.now
    for _ in range(50):
        error = ask(store)
        assert isinstance(error, StoreShunned)
        assert error.reason == "breaker"
    assert (script.sent, script.now, store.shunned, store.opened) == ([], before, 50, 1)


def test_a_failed_probe_is_not_sent_twice() -> None:
    script = Script()
    store = over(script)
    saved(script, store)
    script.fate = "silence"
    for _ in range(3):
        ask(store)
    assert (store.state, store.retries) == (OPEN, 2)  # the third call's failure opened it; the budget isn't used up
    script.now += FIRST
    script.sent.clear()
    assert isinstance(ask(store), StoreTimeout)
    assert (len(script.sent), store.state) == (1, OPEN)


def test_a_ping_goes_past_the_breaker_and_its_answer_closes_it() -> None:
    script, store = opened()
    assert isinstance(ended(store.ping(timeout=1.0)), StoreTimeout)
    assert store.state is OPEN
    script.fate = "answer"
    assert ended(store.ping(timeout=1.0)) == b"PONG"
    assert ask(store) == [None, [None]]


@pytest.mark.parametrize("waited", [FAIR / 2, FAIR * 1.5])
def test_a_cancelled_probe_makes_way_for_the_next(waited: float) -> None:
    script, store = opened()
    script.now += FIRST
    script.fate, script.took = "hang", waited

    async def scenario() -> None:
        probe = asyncio.create_task(store.execute(READ, timeout=0.1))
        await asyncio.sleep(0)
        assert store.state is HALF_OPEN
        with pytest.raises(StoreShunned):
            await store.execute(READ, timeout=0.1)
        probe.cancel()
        with pytest.raises(asyncio.CancelledError):
            await probe

    asyncio.run(scenario())
    script.now += LONGEST
    script.fate, script.took = "answer", 0.001
    assert ask(store) == [None, [None]]


def test_calls_cancelled_after_a_fair_wait_open_it_as_late_ones_do() -> None:
    """A channel's cap may be shorter than the store's own limit: then cancelling is all that is ever seen."""

    async def given_up(waited: float) -> Resilient:
        script = Script(fate="hang", took=waited)
        store = over(script)
        for _ in range(10):
            call = asyncio.create_task(store.execute(READ, timeout=0.1))
            await asyncio.sleep(0)
            call.cancel()
            await asyncio.wait([call])
        return store

    assert asyncio.run(given_up(FAIR * 1.5)).state is OPEN
    assert asyncio.run(given_up(FAIR / 2)).state is CLOSED


@given(st.integers(1, 20), st.integers(0, 10), st.lists(st.booleans(), max_size=400))
def test_the_budget_is_a_share_of_the_calls(every: int, burst: int, moves: list[bool]) -> None:
    budget, calls, spent, quiet = RetryBudget(every=every, burst=burst), 0, 0, 0
    for call in moves:
        if call:
            budget.earn()
            calls, quiet = calls + 1, quiet + 1
        elif budget.spend():
            spent += 1
        assert spent * every <= calls
    for _ in range(every * burst):
        budget.earn()
    assert sum(budget.spend() for _ in range(burst + 5)) == burst  # what is saved up is bounded


CALL = st.tuples(
    st.sampled_from(["answer", "answer", "reset", "silence"]),
    st.floats(0.0, 0.08),  # how long the store takes
    st.floats(-0.01, 0.2),  # the caller's time
    st.booleans(),  # a write
    st.floats(0.0, 0.3),  # time until the next call
)


@given(st.lists(st.tuples(CALL, st.integers(1, 15)), max_size=25))
def test_the_laws_hold_whatever_the_store_does(script_of: list[tuple[Any, int]]) -> None:
    script = Script()
    store = over(script)
    probes: list[float] = []
    for (fate, took, timeout, write, gap), times in script_of:
        for _ in range(times):
            script.fate, script.took = fate, took
            began, state, sent, shunned = script.now, store.state, len(script.sent), store.shunned
            outcome = ask(store, WRITE if write else READ, timeout)
            attempts = script.sent[sent:]
            assert len(attempts) <= (1 if write else 2)
            assert all(when + limit <= began + timeout + 1e-9 for when, limit in attempts)
            assert script.now <= began + max(timeout, 0.0) + 1e-9
            assert store.retries * 10 <= store.calls
            assert store.calls + store.retries == len(script.sent)
            assert store.state is not HALF_OPEN  # nothing is on its way now
            if state is CLOSED:
                assert attempts
                probes.clear()
            else:
                assert len(attempts) + (store.shunned - shunned) == 1
                assert isinstance(outcome, StoreShunned) == (not attempts)
                probes += [when for when, _ in attempts]
        script.now += gap
    assert all(later - earlier >= FIRST - 1e-9 for earlier, later in pairwise(probes))
    # The store is back: the first fair call after one pause is answered, and closes the breaker.
    script.fate, script.took = "answer", 0.001
    script.now += LONGEST
    assert ask(store) == [b"v" if script._values else None, [None]]
    assert store.state is CLOSED


def test_a_stopped_server_is_left_alone_and_found_again_when_it_goes_on() -> None:
    """Real sockets and a real server; only the breaker's clock is ours, so a slow machine changes nothing."""
    now = 0.0

    async def scenario(url: str, pid: int) -> None:
        nonlocal now
        tier = RedisTier(url, timeout=0.1)
        store = Resilient(tier, clock=lambda: now)
        assert await store.execute([("SET", "k", "v")], timeout=1.0) == [b"OK"]
        os.kill(pid, signal.SIGSTOP)
        try:
            for _ in range(5):
                with pytest.raises(StoreTimeout):
                    await store.execute([("GET", "k")], timeout=1.0)
            connections = tier.opened
            for _ in range(100):
                with pytest.raises(StoreShunned):
                    await store.execute([("GET", "k")], timeout=1.0)
            assert tier.opened == connections
        finally:
            os.kill(pid, signal.SIGCONT)
        value: object = None
        async with asyncio.timeout(10):
            while value != [b"v"]:  # the kernel may take its time to wake it
                now += LONGEST
                with contextlib.suppress(StoreTimeout):
                    value = await store.execute([("GET", "k")], timeout=1.0)
        assert store.state is CLOSED
        await store.close()

    with running_valkey() as server:
        assert server.pid is not None
        asyncio.run(scenario(server.url, server.pid))
