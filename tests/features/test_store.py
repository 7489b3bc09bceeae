import asyncio
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from expression.strings import Strings
from features.behaviour import Behaviour, Event, event_codes
from features.codec import RowField, RowSchema, encode_rows
from features.commands import Command
from features.errors import CommandError, StoreTimeout, StoreUnavailable
from features.ids import key_hashes
from features.keys import KeyTemplate, OwnKey, tag, tag_contract
from features.live import CachePolicy, LiveField, LiveView
from features.memory_store import MemoryStore
from features.redis_tier import RedisTier
from features.store import FeatureStore, UserPlan, UserRead

PROFILE = LiveView(
    "profile",
    KeyTemplate.compile("u:{id}"),
    "hash",
    (LiveField("age", "f32", 41.5), LiveField("city", "vocab", "other"), LiveField("taste", "f32[2]", source="emb")),
    cache=CachePolicy(capacity=10_000, ttl=30.0),
)
SCHEMA = RowSchema(3, (RowField("embedding", "f16", 2), RowField("spend")))
VECTOR = LiveView(
    "vector",
    OwnKey("vector", "2"),
    "row",
    (LiveField("embedding", "f32[2]"), LiveField("spend", "f32", 0.5)),
    schema=SCHEMA,
)
STOCK = LiveView(
    "stock",
    KeyTemplate.compile("item:{id}:live"),
    "hash",
    (
        LiveField("stock", "i32", 0),
        LiveField("price", "f32"),
        LiveField("status", "str", "off"),
        LiveField("on", "bool"),
        LiveField("tag", "str"),
        LiveField("v", "f32[2]"),
    ),
)
PLAN = UserPlan((PROFILE, VECTOR))


class World:
    def __init__(self) -> None:
        self.now = 0.0
        self.memory = MemoryStore()
        self.behaviour = Behaviour(self.memory, event_codes(["click"]))
        self.features = FeatureStore(self.memory, self.behaviour, lambda: self.now)
        self.features.prepare([PLAN])

    def send(self, *commands: Command) -> None:
        asyncio.run(self.memory.execute(commands, timeout=1.0))

    def user(self, user_id: str | None = "u1", plan: UserPlan = PLAN) -> UserRead:
        return asyncio.run(
            self.features.user(plan, user_id, rows_of=lambda keys: np.zeros(len(keys), np.int32), timeout=1.0)
        )

    def fail(self, error: Exception | None) -> None:
        async def before(commands: Sequence[Command]) -> None:
            assert error is not None
            raise error

        self.memory.before = before if error else None


@pytest.fixture
def world() -> World:
    return World()


def row(user: str, embedding: Sequence[float], spend: float) -> bytes:
    columns = {"embedding": np.array([embedding]), "spend": np.array([spend])}
    return encode_rows(key_hashes([user]), columns, SCHEMA)[0]


def test_a_user_is_read_in_one_round_trip(world: World) -> None:
    world.send(
        ("HSET", "u:u1", "age", "33", "city", "Zürich", "emb", np.array([1, 2], "<f4").tobytes()),
        ("SET", VECTOR.key.key(b"u1"), row("u1", [0.5, -1], 7)),
    )
    asyncio.run(world.behaviour.append([Event("u1", "a", "click", 5)], timeout=1.0))
    before = world.memory.round_trips
    read = world.user()
    assert world.memory.round_trips == before + 1
    profile, vector = read.views["profile"], read.views["vector"]
    assert profile.outcome == vector.outcome == "values"
    assert (profile.values["age"], profile.values["city"]) == (33.0, "Zürich")
    np.testing.assert_array_equal(profile.values["taste"], [1, 2])
    np.testing.assert_array_equal(vector.values["embedding"], [0.5, -1])
    assert vector.values["spend"] == 7
    assert (read.history.ts.tolist(), read.history_error) == ([5], None)


def test_missing_is_not_an_error_and_defaults_stand_in(world: World) -> None:
    for user_id in ("nobody", None):
        read = world.user(user_id)
        assert read.views["profile"].outcome == read.views["vector"].outcome == "missing"
        assert read.views["profile"].values == {"age": 41.5, "city": "other", "taste": None}
        assert read.views["vector"].values == {"embedding": None, "spend": 0.5}
        assert (len(read.history), read.history_error) == (0, None)
    world.send(("HSET", "u:u1", "age", "33"))
    partial = world.user().views["profile"]
    assert (partial.outcome, partial.values) == ("values", {"age": 33.0, "city": "other", "taste": None})


def test_anonymous_request_asks_the_store_nothing(world: World) -> None:
    world.user(None)
    assert world.memory.round_trips == 0


@pytest.mark.parametrize(("error", "reason"), [(StoreTimeout(""), "timeout"), (StoreUnavailable(""), "unavailable")])
def test_an_error_names_its_reason_and_is_never_cached(world: World, error: Exception, reason: str) -> None:
    world.send(("HSET", "u:u1", "age", "33"))
    world.fail(error)
    read = world.user()
    assert {(v.outcome, v.reason) for v in read.views.values()} == {("error", reason)}
    assert read.views["profile"].values["age"] == 41.5
    assert (read.history_error, len(read.history)) == (reason, 0)
    world.fail(None)
    assert world.user().views["profile"].values["age"] == 33.0


def test_cached_views_are_served_through_an_outage_while_behaviour_is_not(world: World) -> None:
    world.send(("HSET", "u:u1", "age", "33"))
    world.user()
    world.fail(StoreTimeout(""))
    read = world.user()
    assert read.views["profile"].values["age"] == 33.0
    assert read.views["vector"].outcome == "error"
    assert read.history_error == "timeout"


def test_cached_view_is_as_old_as_its_time_to_live_and_missing_is_cached_too(world: World) -> None:
    assert world.user().views["profile"].outcome == "missing"
    world.send(("HSET", "u:u1", "age", "33"))
    world.now = 29.0
    assert world.user().views["profile"].outcome == "missing"
    world.now = 31.0
    assert world.user().views["profile"].values["age"] == 33.0
    assert (world.features.caches[PROFILE].hits, world.features.caches[PROFILE].misses) == (1, 2)


def test_caches_outlive_a_reload_that_left_the_view_alone(world: World) -> None:
    world.user()
    same = LiveView(PROFILE.name, PROFILE.key, PROFILE.layout, PROFILE.fields, cache=PROFILE.cache)
    kept = world.features.caches[PROFILE]
    world.features.prepare([UserPlan((same,))])
    assert world.features.caches[same] is kept
    changed = LiveView(PROFILE.name, PROFILE.key, PROFILE.layout, PROFILE.fields[:1], cache=PROFILE.cache)
    world.features.prepare([UserPlan((changed,))])
    assert list(world.features.caches) == [changed]
    assert len(world.features.caches[changed]) == 0


def test_what_does_not_decode_is_counted_per_view_and_missing(world: World) -> None:
    world.send(
        ("HSET", "u:u1", "age", "old", "city", b"\xff", "emb", b"123"),
        ("SET", VECTOR.key.key(b"u1"), row("somebody else", [1, 2], 3)),
    )
    read = world.user()
    assert read.views["profile"].values == {"age": 41.5, "city": "other", "taste": None}
    assert read.views["vector"].outcome == "missing"
    world.send(("SET", "u:u2", "a string"), ("HSET", VECTOR.key.key(b"u2"), "f", "v"))
    assert {v.outcome for v in world.user("u2").views.values()} == {"missing"}
    assert world.features.undecoded == {"profile": 4, "vector": 2}


def test_a_refused_command_is_an_error_of_its_view_alone(world: World) -> None:
    world.memory.handlers["HMGET"] = lambda *_: CommandError("NOPERM this user has no permissions")
    asyncio.run(world.behaviour.append([Event("u1", "a", "click", 5)], timeout=1.0))
    read = world.user()
    assert (read.views["profile"].outcome, read.views["profile"].reason) == ("error", "command")
    assert read.views["vector"].outcome == "missing"
    assert len(read.history) == 1
    with pytest.raises(CommandError, match="NOPERM"):
        asyncio.run(world.features.fetch([STOCK], ["a"], timeout=1.0))


@pytest.fixture(params=["memory", "valkey"])
def features(request: pytest.FixtureRequest) -> Iterator[tuple[asyncio.Runner, FeatureStore, MemoryStore | RedisTier]]:
    store: MemoryStore | RedisTier
    with asyncio.Runner() as runner:
        if request.param == "memory":
            store = MemoryStore()
        else:
            store = RedisTier(request.getfixturevalue("valkey_url"), timeout=5.0)
        yield runner, FeatureStore(store, Behaviour(store, {}), lambda: 0.0), store
        runner.run(store.close())


Features = tuple[asyncio.Runner, FeatureStore, MemoryStore | RedisTier]


def test_live_hashes_of_items_become_typed_columns(features: Features) -> None:
    runner, store, commands = features
    v = np.array([3, 4], "<f4").tobytes()
    writes: list[Command] = [
        ("HSET", "item:a:live", "stock", "3", "price", "2.5", "status", "on", "on", "1", "tag", "x", "v", v),
        ("HSET", "item:b:live", "stock", "99999999999", "price", "nan", "on", "maybe", "v", b"short"),
        ("SET", "item:c:live", "not a hash"),
    ]
    runner.run(commands.execute([("DEL", "item:a:live", "item:b:live", "item:c:live"), *writes], timeout=5.0))
    [fetched] = runner.run(store.fetch([STOCK], ["a", "b", "c", "d"], timeout=5.0))
    c = fetched.columns
    assert fetched.present.tolist() == [True, True, False, False]
    assert isinstance(c["status"], Strings)
    assert isinstance(c["tag"], Strings)
    assert c["status"].decode() == ["on", "off", "off", "off"]
    assert c["tag"].decode() == ["x", None, None, None]
    for name, dtype, expected in (
        ("stock", np.int32, [3, 0, 0, 0]),
        ("price", np.float32, [2.5, np.nan, np.nan, np.nan]),
        ("on", np.bool_, [True, False, False, False]),
        ("v", np.float32, [[3, 4]] + [[np.nan] * 2] * 3),
    ):
        column = c[name]
        assert isinstance(column, np.ndarray)
        assert column.dtype == dtype
        np.testing.assert_array_equal(column, np.array(expected, dtype))
    assert store.undecoded == {"stock": 5}
    assert len(runner.run(store.fetch([STOCK], [], timeout=5.0))[0].present) == 0


def test_live_rows_of_items_come_in_one_batch(features: Features) -> None:
    runner, store, commands = features
    ids = [f"item {i}" for i in range(300)]
    keys = key_hashes(ids)
    spend = np.arange(300, dtype=np.float32)
    spend[5] = np.nan
    values = encode_rows(keys, {"embedding": np.ones((300, 2)), "spend": spend}, SCHEMA)
    writes: list[Command] = [
        ("SET", VECTOR.key.key(text.encode()), value) for text, value in zip(ids[:200], values[:200], strict=True)
    ]
    runner.run(commands.execute([*writes, ("SET", VECTOR.key.key(b"item 7"), b"garbage")], timeout=5.0))
    [fetched] = runner.run(store.fetch([VECTOR], ids, timeout=5.0))
    assert fetched.present.sum() == 199
    assert store.undecoded == {"vector": 1}
    column = fetched.columns["spend"]
    assert isinstance(column, np.ndarray)
    assert column[[4, 5, 7, 8, 299]].tolist() == [4, 0.5, 0.5, 8, 0.5]


def test_numbers_as_text_are_read_strictly() -> None:
    whole, real = LiveField("n", "i32").parser(), LiveField("x", "f32").parser()
    assert [whole(raw) for raw in (b"17850", b"-3", b"17850.0")] == [17850, -3, 17850]
    assert [real(raw) for raw in (b"1e3", b"-0.5")] == [1000, -0.5]
    for raw in (b"", b"1_000", b"nan", b"inf", b"x", b"1.5", b"2147483648", b"9" * 5000):
        with pytest.raises(ValueError):
            whole(raw)
    for raw in (b"", b"1_000", b"nan", b"-inf", b"1e999", b"0x10"):
        with pytest.raises(ValueError):
            real(raw)


def test_view_whose_layout_and_schema_do_not_fit_is_refused() -> None:
    key = OwnKey("v", "1")
    for layout, fields, schema in (
        ("row", (LiveField("x", "f32"),), None),
        ("row", (LiveField("x", "f32"),), SCHEMA),
        ("row", (LiveField("embedding", "f32[3]"),), SCHEMA),
        ("row", (LiveField("spend", "str"),), SCHEMA),
        ("hash", (LiveField("spend", "f32"),), SCHEMA),
        ("hash", (), None),
    ):
        with pytest.raises(ValueError, match="view 'v'"):
            LiveView("v", key, layout, fields, schema)  # type: ignore[arg-type]  # the tuple's strings aren't literals
    with pytest.raises(ValueError, match="no such type"):
        LiveField("x", "float")


def test_keys_are_named_alike_by_every_writer() -> None:
    # Reference: the public vectors of MurmurHash3_x86_32, seed 0: "" is 0, "hello" is 0x248bfa47.
    assert (tag(b""), tag(b"hello")) == (0, 0x47)
    assert OwnKey("vector", "2").key(b"hello") == b"{47}vector:2:hello"
    assert OwnKey("v", "1").key(b"a:b\x00\xff").endswith(b"}v:1:a:b\x00\xff")
    assert tag_contract()["count"] == 256
    assert KeyTemplate.compile("{u}:{id}:p").key(b"1") == b"{u}:1:p"
    for template in ("u:", "{id}{id}"):
        with pytest.raises(ValueError, match="exactly once"):
            KeyTemplate.compile(template)
    with pytest.raises(ValueError):
        OwnKey("a:b", "1")
