from hypothesis import given
from hypothesis import strategies as st

from features.user_cache import ENTRY_OVERHEAD, UserCache


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_value_is_forgotten_after_its_time_to_live() -> None:
    clock = Clock()
    cache: UserCache[str] = UserCache(10_000, 30.0, clock)
    cache.put("u", "value", 10)
    clock.now = 29.9
    assert cache.get("u") == "value"
    clock.now = 30.0
    assert cache.get("u") is None
    assert (cache.hits, cache.misses, len(cache), cache.bytes) == (1, 1, 0, 0)


def test_value_larger_than_the_cache_is_not_kept_and_neither_is_its_predecessor() -> None:
    cache: UserCache[str] = UserCache(1000, 30.0, Clock())
    cache.put("u", "old", 10)
    cache.put("u", "new", 2000)
    assert cache.get("u") is None
    cache.put("u", "again", 10)
    cache.discard("u")
    assert cache.get("u") is None


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 400), st.booleans()), max_size=40))
def test_cache_agrees_with_a_first_in_first_out_list(steps: list[tuple[str, int, bool]]) -> None:
    capacity = 1500
    cache: UserCache[int] = UserCache(capacity, 30.0, Clock())
    model: list[tuple[str, int]] = []
    for user, size, reading in steps:
        if reading:
            assert cache.get(user) == dict(model).get(user)
            continue
        cache.put(user, size, size)
        model = [entry for entry in model if entry[0] != user] + [(user, size)]
        while sum(s + ENTRY_OVERHEAD + 1 for _, s in model) > capacity:
            model.pop(0)
        assert cache.bytes == sum(s + ENTRY_OVERHEAD + 1 for _, s in model) <= capacity
    assert len(cache) == len(model)
