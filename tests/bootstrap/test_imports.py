import asyncio

import pytest

from bootstrap.imports import import_history
from features.behaviour import Behaviour, event_codes
from features.errors import StoreUnavailable
from features.memory_store import MemoryStore
from tests.bootstrap.small import dataset, shop_rows


@pytest.fixture
def data(tmp_path):
    return dataset(tmp_path, shop_rows(), users={"user_id": ["u1", "quiet"], "region": ["n", "s"]})


def histories(data, store):
    behaviour = Behaviour(store, event_codes(data.found.events))

    async def read():
        return [await store.execute(behaviour.read_commands(name), timeout=1.0) for name in data.user_ids]

    return asyncio.run(read())


def test_everybody_with_a_history_is_written_and_counted(data):
    store, seen = MemoryStore(), []
    assert asyncio.run(import_history(data, store, seen.append)) == 40
    assert seen[-1] == 40
    assert seen == sorted(seen)
    written = [history for history, _ in histories(data, store)]
    assert sum(map(bool, written)) == 40
    assert not written[data.user_ids.index("quiet")]


def test_importing_again_changes_nothing_and_leaves_newer_events_alone(data):
    store = MemoryStore()
    asyncio.run(import_history(data, store, lambda _: None))
    behaviour = Behaviour(store, event_codes(data.found.events))
    from features.behaviour import Event

    asyncio.run(behaviour.append([Event("u1", "i3", "purchase", 1.7e9)], timeout=1.0))
    before = histories(data, store)
    asyncio.run(import_history(data, store, lambda _: None))
    assert histories(data, store) == before
    assert before[data.user_ids.index("u1")][1]


def test_a_store_that_is_gone_is_an_error(data):
    async def gone(commands):
        raise StoreUnavailable("down")

    with pytest.raises(StoreUnavailable):
        asyncio.run(import_history(data, MemoryStore(before=gone), lambda _: None))
