import asyncio
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.behaviour import BATCH, Behaviour, Event, event_code, event_codes, unique_events
from features.commands import Command
from features.errors import CommandError, StoreTimeout, StoreUnavailable
from features.event_codec import CHUNK_BYTES, EVENT, encode_events
from features.history import History
from features.ids import key_hash, key_hashes
from features.memory_store import MemoryStore
from features.redis_tier import RedisTier

CODES = event_codes(["click", "purchase"])


def no_rows(keys: np.ndarray) -> np.ndarray:
    return np.full(len(keys), -1, np.int32)


def read(store: MemoryStore, behaviour: Behaviour, user: str = "u") -> History:
    replies = asyncio.run(store.execute(behaviour.read_commands(user), timeout=1.0))
    return behaviour.decode(replies, no_rows)


def records(*rows: tuple[str, int, str]) -> np.ndarray:
    return np.array([(key_hash(item.encode()), ts, CODES[event], 1.0) for item, ts, event in rows], EVENT)


def append(behaviour: Behaviour, *events: Event) -> None:
    asyncio.run(behaviour.append(events, timeout=1.0))


def import_history(behaviour: Behaviour, users: Sequence[tuple[str, np.ndarray]], **options: int) -> list[int]:
    done: list[int] = []
    asyncio.run(behaviour.import_history(users, progress=done.append, **options))
    return done


def test_history_and_events_are_read_as_one_by_time_without_repeats() -> None:
    store = MemoryStore()
    behaviour = Behaviour(store, CODES)
    append(behaviour, Event("u", "c", "click", 30.9, 2.5), Event("u", "a", "click", 10), Event("v", "x", "click", 5))
    import_history(behaviour, [("u", records(("b", 20, "purchase"), ("a", 10, "click"), ("b", 20, "purchase")))])
    history = read(store, behaviour)
    assert history.keys.tolist() == [key_hash(b"a"), key_hash(b"b"), key_hash(b"c")]
    assert history.ts.tolist() == [10, 20, 30]
    assert history.event.tolist() == [CODES["click"], CODES["purchase"], CODES["click"]]
    assert history.weight.tolist() == [1, 1, 2.5]
    assert store.round_trips == 3


def test_rows_come_from_the_release_that_the_reader_pins() -> None:
    store = MemoryStore()
    behaviour = Behaviour(store, CODES)
    append(behaviour, Event("u", "a", "click", 1), Event("u", "b", "click", 2))
    replies = asyncio.run(store.execute(behaviour.read_commands("u"), timeout=1.0))
    known: Callable[[np.ndarray], np.ndarray] = lambda keys: np.where(keys == key_hash(b"b"), 7, -1).astype(np.int32)  # noqa: E731 - typed inline
    assert behaviour.decode(replies, known).rows.tolist() == [-1, 7]


def test_user_without_behaviour_has_an_empty_history() -> None:
    store = MemoryStore()
    assert len(read(store, Behaviour(store, CODES))) == 0


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 5), st.sampled_from(["click", "purchase"])), max_size=20),
    st.data(),
)
def test_retries_and_repeated_imports_change_nothing(rows: list[tuple[str, int, str]], data: st.DataObject) -> None:
    store = MemoryStore()
    behaviour = Behaviour(store, CODES)
    imported = data.draw(st.lists(st.sampled_from(rows), max_size=10)) if rows else []
    for _ in range(data.draw(st.integers(1, 3))):
        append(behaviour, *[Event("u", item, event, ts) for item, ts, event in rows])
        import_history(behaviour, [("u", records(*imported))])
    history = read(store, behaviour)
    expected = {(ts, key_hash(item.encode()), CODES[event]) for item, ts, event in rows}
    assert list(zip(history.ts, history.keys, history.event, strict=True)) == sorted(expected)


def test_events_for_many_users_are_all_or_nothing() -> None:
    store = MemoryStore()
    behaviour = Behaviour(store, CODES)
    for bad in (Event("v", "b", "view", 2), Event("v", "b", "click", -1), Event("v", "b", "click", 2.0**32)):
        with pytest.raises(ValueError):
            append(behaviour, Event("u", "a", "click", 1), bad)
    for number in (float("nan"), float("inf"), 1e39):
        with pytest.raises(ValueError, match="weight"):
            append(behaviour, Event("u", "a", "click", 1, number))
        with pytest.raises(ValueError, match="ts"):
            append(behaviour, Event("u", "a", "click", number))
    with pytest.raises(ValueError, match=str(BATCH)):
        append(behaviour, *[Event("u", str(i), "click", i) for i in range(BATCH + 1)])
    assert len(read(store, behaviour)) == 0
    append(behaviour, *[Event(f"u{i % 7}", str(i), "click", i) for i in range(BATCH)])
    assert sum(len(read(store, behaviour, f"u{i}")) for i in range(7)) == BATCH


def test_growth_is_bounded_by_cutting_the_oldest() -> None:
    store = MemoryStore()
    behaviour = Behaviour(store, CODES, cap=10)
    lengths = []
    for ts in range(100):
        append(behaviour, Event("u", "a", "click", ts))
        (length,) = asyncio.run(store.execute([("STRLEN", behaviour.read_commands("u")[1][1])], timeout=1.0))
        assert isinstance(length, int)
        lengths.append(length)
        assert read(store, behaviour).ts.tolist() == list(range(max(0, ts - 9), ts + 1))
    assert max(lengths) == 20 * CHUNK_BYTES
    import_history(behaviour, [("v", records(*[("a", ts, "click") for ts in range(50)]))])
    assert read(store, behaviour, "v").ts.tolist() == list(range(40, 50))
    assert behaviour.counts.undecoded == behaviour.counts.untrimmed == 0


def test_failed_cut_is_counted_and_the_events_are_kept() -> None:
    store = MemoryStore()

    async def refuse(commands: Sequence[Command]) -> None:
        if commands[0][0] == "GETRANGE":
            raise StoreUnavailable("down")

    behaviour = Behaviour(store, CODES, cap=1)
    store.before = refuse
    append(behaviour, *[Event("u", "a", "click", ts) for ts in range(3)])
    store.before = None
    assert behaviour.counts.untrimmed == 1
    assert read(store, behaviour).ts.tolist() == [2]


def test_history_that_does_not_decode_is_counted_and_missing_and_a_wrong_type_is_an_error() -> None:
    store = MemoryStore()
    behaviour = Behaviour(store, CODES)
    append(behaviour, Event("u", "a", "click", 1))
    history_key, events_key = (command[1] for command in behaviour.read_commands("u"))
    asyncio.run(store.execute([("SET", history_key, b"\xff\xff")], timeout=1.0))
    assert read(store, behaviour).ts.tolist() == [1]
    assert behaviour.counts.undecoded == 1
    asyncio.run(store.execute([("DEL", events_key), ("HSET", events_key, "f", "v")], timeout=1.0))
    with pytest.raises(CommandError):
        read(store, behaviour)


def test_keys_live_as_long_as_told_and_appending_renews_them() -> None:
    now = [0.0]
    store = MemoryStore(clock=lambda: now[0])
    behaviour = Behaviour(store, CODES, ttl=100)
    import_history(behaviour, [("u", records(("b", 1, "click")))])
    append(behaviour, Event("u", "a", "click", 2))
    now[0] = 60.0
    append(behaviour, Event("u", "a", "click", 3))
    now[0] = 150.0
    assert read(store, behaviour).ts.tolist() == [2, 3]
    now[0] = 160.0
    assert len(read(store, behaviour)) == 0


def test_broken_import_resumes_where_it_stopped() -> None:
    store = MemoryStore()
    behaviour = Behaviour(store, CODES)
    users = [(f"u{i}", records(("a", i, "click"))) for i in range(10)]

    async def break_third(commands: Sequence[Command]) -> None:
        if store.round_trips == 2:
            store.before = None
            raise StoreTimeout("slow")

    store.before = break_third
    done: list[int] = []
    with pytest.raises(StoreTimeout):
        asyncio.run(behaviour.import_history(users, progress=done.append, batch=3))
    assert done == [3, 6]
    assert import_history(behaviour, users, batch=3, skip=done[-1]) == [9, 10]
    assert all(read(store, behaviour, f"u{i}").ts.tolist() == [i] for i in range(10))


def test_event_names_of_one_code_are_refused() -> None:
    assert event_code("purchase") == event_code("purchase") < 2**16
    names = [str(i) for i in range(2000)]
    with pytest.raises(ValueError, match=r"events '\d+' and '\d+' have the same code"):
        event_codes(names)
    assert event_codes(["a", "a"]) == {"a": event_code("a")}


def test_hashes_of_ids_are_murmur3_and_compare_bytes() -> None:
    # Reference: first half of MurmurHash3_x64_128 with seed 0.
    assert key_hash(b"") == 0
    assert key_hash(b"hello") == 0xCBD8A7B341BD9B02
    assert key_hashes(["hello", ""]).tolist() == [0xCBD8A7B341BD9B02, 0]
    assert key_hash("\u00e9".encode()) != key_hash("e\u0301".encode())
    assert key_hashes([]).shape == (0,)


def test_appended_batches_are_in_order_so_reads_need_no_sort(valkey_url: str) -> None:
    async def scenario() -> None:
        store = RedisTier(valkey_url, timeout=5.0)
        behaviour = Behaviour(store, CODES, cap=100)
        try:
            for ts in range(0, 500, 50):
                await behaviour.append(
                    [Event("real", "a", "click", t) for t in reversed(range(ts, ts + 50))], timeout=5.0
                )
            replies = await store.execute(behaviour.read_commands("real"), timeout=5.0)
            assert replies[1] == encode_events(unique_events([records(*[("a", t, "click") for t in range(400, 500)])]))
            assert behaviour.decode(replies, no_rows).ts.tolist() == list(range(400, 500))
            (ttl,) = await store.execute([("TTL", behaviour.read_commands("real")[1][1])], timeout=5.0)
            assert ttl in range(399 * 86400, 400 * 86400 + 1)
        finally:
            await store.close()

    asyncio.run(scenario())
