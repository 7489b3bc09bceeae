"""What is appended can be read, whatever somebody else put under the key."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from features.behaviour import Behaviour, Event, event_codes
from features.commands import Command, Commands, Reply
from features.errors import CommandError, StoreUnavailable
from features.event_codec import CHUNK_BYTES
from features.memory_store import MemoryStore
from features.proto.row_pb2 import History as HistoryMessage
from features.redis_tier import RedisTier

CODES = event_codes(["click"])
Run = Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.fixture
def run() -> Iterator[Run]:
    with asyncio.Runner() as runner:
        yield runner.run


@pytest.fixture(params=["valkey", "memory"])
def store(request: pytest.FixtureRequest, run: Run) -> Iterator[Commands]:
    store: Commands = MemoryStore()
    if request.param == "valkey":
        store = RedisTier(request.getfixturevalue("valkey_url"), timeout=5.0, connect_timeout=5.0)
        run(store.execute([("FLUSHALL",)], timeout=5.0))
    yield store
    run(store.close())


def key_of(behaviour: Behaviour, user: str) -> bytes:
    key = behaviour.read_commands(user)[1][1]
    assert isinstance(key, bytes)
    return key


def aside_of(behaviour: Behaviour, user: str) -> bytes:
    return key_of(behaviour, user).replace(b":1:", b":malformed:", 1)


def times(run: Run, store: Commands, behaviour: Behaviour, user: str) -> list[float]:
    replies: Sequence[Reply] = run(store.execute(behaviour.read_commands(user), timeout=5.0))
    return behaviour.decode(replies, lambda keys: np.full(len(keys), -1, np.int32)).ts.tolist()


FOREIGN: dict[str, Callable[[bytes], Command]] = {
    "text": lambda key: ("SET", key, "foreign"),
    "text as long as an event": lambda key: ("SET", key, "x" * CHUNK_BYTES),
    "a hash": lambda key: ("HSET", key, "f", "v"),
    "more than a reader reads": lambda key: ("SET", key, "x" * 100 * CHUNK_BYTES + "y"),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_events_are_read_back_whatever_stood_there(run: Run, store: Commands, kind: str) -> None:
    behaviour = Behaviour(store, CODES, cap=10, ttl=100)
    run(store.execute([FOREIGN[kind](key_of(behaviour, "u"))], timeout=5.0))
    for ts in (1, 2, 3):
        events = [Event("other", "a", "click", ts), Event("u", "a", "click", ts), Event("third", "a", "click", ts)]
        run(behaviour.append(events, timeout=5.0))
        for user in ("other", "u", "third"):
            assert times(run, store, behaviour, user) == list(range(1, ts + 1))
    assert behaviour.counts.displaced == (kind != "text as long as an event")


@pytest.mark.parametrize("kind", ["text", "a hash"])
def test_what_stood_there_is_kept_for_as_long_as_behaviour(
    run: Run, store: Commands, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    behaviour = Behaviour(store, CODES, ttl=100)
    for count, user in enumerate(("u", "v", "u"), 1):
        run(store.execute([("DEL", key_of(behaviour, user)), FOREIGN[kind](key_of(behaviour, user))], timeout=5.0))
        with caplog.at_level(logging.WARNING):
            run(behaviour.append([Event(user, "a", "click", count)], timeout=5.0))
        aside = aside_of(behaviour, user)
        read: Command = ("HGET", aside, "f") if kind == "a hash" else ("GETRANGE", aside, 0, 6)
        replies = run(store.execute([read, ("TTL", aside), ("TTL", key_of(behaviour, user))], timeout=5.0))
        assert replies == [b"v" if kind == "a hash" else b"foreign", 100, 100]
        assert times(run, store, behaviour, user) == [count]
        assert behaviour.counts.displaced == count
    assert [record.message for record in caplog.records] == [
        f"{key_of(behaviour, 'u')!r} held something that isn't behaviour. It is {aside_of(behaviour, 'u')!r} now;"
        " others are only counted."
    ]


def test_a_valid_encoding_by_another_writer_stays_and_counts(run: Run, store: Commands) -> None:
    message = HistoryMessage()
    event = message.events.add()
    event.item, event.ts, event.event, event.weight = 7, 5, CODES["click"], 1.0
    behaviour = Behaviour(store, CODES)
    value = message.SerializeToString() + b"\xf8\x01\x01"  # an unknown field: 31, a varint
    run(store.execute([("SET", key_of(behaviour, "u"), value)], timeout=5.0))
    for ts in (8, 9):
        run(behaviour.append([Event("u", "a", "click", ts)], timeout=5.0))
    assert times(run, store, behaviour, "u") == [5, 8, 9]
    assert behaviour.counts.displaced == 0
    (length,) = run(store.execute([("STRLEN", key_of(behaviour, "u"))], timeout=5.0))
    assert length == len(value) + 2 * CHUNK_BYTES


def test_no_event_is_lost_when_many_meet_a_foreign_value_at_once(run: Run, valkey_url: str) -> None:
    async def scenario() -> None:
        tiers = [RedisTier(valkey_url, timeout=5.0, connect_timeout=5.0) for _ in range(3)]
        await tiers[0].execute([("FLUSHALL",)], timeout=5.0)
        behaviours = [Behaviour(tier, CODES) for tier in tiers]
        await tiers[0].execute([("SET", key_of(behaviours[0], "u"), "foreign")], timeout=5.0)
        appends = [behaviours[ts % 3].append([Event("u", "a", "click", ts)], timeout=5.0) for ts in range(9)]
        outcomes = await asyncio.gather(*appends, return_exceptions=True)
        written = {float(ts) for ts, outcome in enumerate(outcomes) if outcome is None}
        replies = await tiers[0].execute(behaviours[0].read_commands("u"), timeout=5.0)
        for tier in tiers:
            await tier.close()
        assert sum(behaviour.counts.displaced for behaviour in behaviours) == 1
        found = behaviours[0].decode(replies, lambda keys: np.full(len(keys), -1, np.int32)).ts.tolist()
        assert written  # who lost too many races was told so
        assert written <= set(found)

    run(scenario())


def test_giving_up_and_other_refusals_are_errors(run: Run) -> None:
    class Contended(MemoryStore):
        async def update(self, *_: Any, **__: Any) -> None:
            """Somebody else always gets in between."""

    store = Contended()
    behaviour = Behaviour(store, CODES)
    run(store.execute([("SET", key_of(behaviour, "u"), "foreign")], timeout=5.0))
    with pytest.raises(StoreUnavailable, match="kept writing"):
        run(behaviour.append([Event("u", "a", "click", 1)], timeout=5.0))
    full = MemoryStore()
    full.handlers["APPEND"] = lambda *_: CommandError("ERR no")
    with pytest.raises(CommandError, match="ERR no"):
        run(Behaviour(full, CODES).append([Event("u", "a", "click", 1)], timeout=5.0))
