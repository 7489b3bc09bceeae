"""One behaviour for every implementation of `Commands`."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

import pytest

from features.commands import Command, Commands, Reply
from features.errors import CommandError, StoreTimeout, StoreUnavailable
from features.memory_store import MemoryStore
from features.redis_tier import RedisTier
from features.resilient import Resilient
from tests.valkey import EXTERNAL_URL

T = TypeVar("T")
Run = Callable[[Coroutine[Any, Any, T]], T]
WITHOUT = pytest.mark.skipif(not EXTERNAL_URL, reason="RECSERVE_TEST_REDIS_URL is unset")


@pytest.fixture
def run() -> Iterator[Run[Any]]:
    """One loop per test, because connections belong to a loop."""
    with asyncio.Runner() as runner:
        yield runner.run


STORES = ["valkey", "memory", "resilient valkey", "resilient memory", pytest.param("external", marks=WITHOUT)]


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, run: Run[Any]) -> Iterator[Commands]:
    store: Commands
    if request.param.endswith("memory"):
        store = MemoryStore()
    else:
        url = EXTERNAL_URL if request.param == "external" else request.getfixturevalue("valkey_url")
        store = RedisTier(url, timeout=5.0, connect_timeout=5.0)
        run(store.execute([("FLUSHALL",)], timeout=5.0))
    if request.param.startswith("resilient"):
        store = Resilient(store)
    yield store
    run(store.close())


Ask = Callable[..., list[Reply]]


@pytest.fixture
def ask(store: Commands, run: Run[list[Reply]]) -> Ask:
    def send(*commands: Command, timeout: float = 5.0, atomic: bool = False) -> list[Reply]:
        return run(store.execute(commands, timeout=timeout, atomic=atomic))

    return send


def test_replies_come_in_the_order_of_the_commands(ask: Ask) -> None:
    assert ask(("SET", "a", b"\x00\xff"), ("GET", "a"), ("GET", "b"), ("STRLEN", b"a")) == [b"OK", b"\x00\xff", None, 2]
    assert ask() == []


def test_a_batch_of_strings_has_none_for_what_is_absent_or_no_string(ask: Ask) -> None:
    ask(("SET", "a", "1"), ("HSET", "h", "f", 2))
    assert ask(("MGET", "a", "missing", "h")) == [[b"1", None, None]]


def test_hashes_are_read_by_field(ask: Ask) -> None:
    assert ask(("HSET", "h", "age", 3, "city", "São Paulo")) == [2]
    assert ask(("HMGET", "h", "city", "none", "age"), ("HMGET", "none", "age"), ("HGET", "h", "age")) == [
        ["São Paulo".encode(), None, b"3"],
        [None],
        b"3",
    ]
    assert ask(("HSET", "h", "age", 4), ("HGETALL", "h")) == [0, [b"age", b"4", b"city", "São Paulo".encode()]]


def test_appending_returns_the_length_and_ranges_count_from_the_end(ask: Ask) -> None:
    assert ask(("APPEND", "k", "abc"), ("APPEND", "k", "def")) == [3, 6]
    ranges: list[Command] = [("GETRANGE", "k", *r) for r in ((-2, -1), (-100, -1), (0, 1), (4, 2), (2, 100), (-3, -2))]
    assert ask(*ranges, ("GETRANGE", "none", -5, -1)) == [b"ef", b"abcdef", b"ab", b"", b"cdef", b"de", b""]


def test_time_to_live_is_set_kept_and_removed(ask: Ask) -> None:
    assert ask(("SET", "k", "v", "EX", 100), ("TTL", "k"), ("APPEND", "k", "w"), ("TTL", "k")) == [b"OK", 100, 2, 100]
    assert ask(("SET", "k", "v"), ("TTL", "k"), ("EXPIRE", "k", 7), ("TTL", "k")) == [b"OK", -1, 1, 7]
    assert ask(("EXPIRE", "none", 7), ("TTL", "none"), ("EXISTS", "k", "none"), ("DEL", "k", "none")) == [0, -2, 1, 1]


def test_a_key_is_renamed_with_its_time_to_live_over_what_is_there(ask: Ask) -> None:
    ask(("SET", "k", "v", "EX", 100), ("HSET", "h", "f", "w"), ("EXPIRE", "h", 7))
    assert ask(("RENAME", "k", "h"), ("GET", "h"), ("TTL", "h"), ("EXISTS", "k")) == [b"OK", b"v", 100, 0]
    (refused,) = ask(("RENAME", "none", "h"))
    assert isinstance(refused, CommandError)
    assert ask(("SET", "p", "v"), ("RENAME", "p", "h"), ("TTL", "h")) == [b"OK", b"OK", -1]


def test_an_update_answers_what_was_read(ask: Ask, store: Commands, run: Run[list[Reply] | None]) -> None:
    def change(found: Reply) -> list[Command]:
        return [("SET", "k", b"%b!" % found), ("GET", "k")] if isinstance(found, bytes) else []

    ask(("SET", "k", "v"), ("HSET", "h", "f", "w"))
    assert run(store.update(b"k", ("GET", b"k"), change, timeout=5.0)) == [b"OK", b"v!"]
    for key in (b"none", b"h"):
        assert run(store.update(key, ("GET", key), change, timeout=5.0)) == []
    assert ask(("GET", "k"), ("PING",)) == [b"v!", b"PONG"]


def test_a_refused_command_leaves_its_neighbours_alone(ask: Ask) -> None:
    ask(("HSET", "h", "f", "v"))
    first, second, third, fourth = ask(("GET", "h"), ("SET", "k", "v"), ("NOSUCH", "k"), ("GET", "k"))
    assert isinstance(first, CommandError)
    assert str(first).startswith("WRONGTYPE")
    assert isinstance(third, CommandError)
    assert (second, fourth) == (b"OK", b"v")


def test_atomic_batch_that_cannot_be_queued_changes_nothing(ask: Ask) -> None:
    with pytest.raises(CommandError, match="unknown command"):
        ask(("SET", "k", "v"), ("NOSUCH", "k"), atomic=True)
    assert ask(("GET", "k"), ("PING",)) == [None, b"PONG"]


def test_atomic_batch_replies_like_a_plain_one(ask: Ask) -> None:
    ask(("HSET", "h", "f", "v"))
    first, second, third = ask(("APPEND", "k", "ab"), ("APPEND", "h", "x"), ("GET", "k"), atomic=True)
    assert (first, third) == (2, b"ab")
    assert isinstance(second, CommandError)


def test_trim_keeps_the_end_and_the_time_to_live(ask: Ask, store: Commands, run: Run[bool]) -> None:
    ask(("SET", "k", "abcdef", "EX", 100), ("HSET", "h", "f", "v"))
    assert run(store.trim(b"k", 4, timeout=5.0))
    assert ask(("GET", "k"), ("TTL", "k")) == [b"cdef", 100]
    assert run(store.trim(b"none", 4, timeout=5.0))
    assert ask(("EXISTS", "none")) == [0]
    with pytest.raises(CommandError):
        run(store.trim(b"h", 4, timeout=5.0))
    assert ask(("PING",)) == [b"PONG"]


def test_no_time_left_is_a_timeout_without_a_round_trip(ask: Ask) -> None:
    for timeout in (0.0, -1.0):
        with pytest.raises(StoreTimeout):
            ask(("SET", "k", "v"), timeout=timeout)
    assert ask(("GET", "k")) == [None]


def test_closed_store_is_unavailable(ask: Ask, store: Commands, run: Run[None]) -> None:
    ask(("PING",))
    run(store.close())
    with pytest.raises(StoreUnavailable):
        ask(("PING",))
