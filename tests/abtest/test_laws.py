from collections import Counter
from collections.abc import Callable
from itertools import combinations
from random import Random
from threading import Event, Thread
from typing import Any
from zlib import crc32

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from abtest import SLOTS, slot
from abtest.hashing import encode_unit, salt_prefix, slot_of
from abtest.moves import moves
from tests.abtest.documents import (
    NOW,
    arms,
    compiled,
    document,
    experiment,
    k_experiment,
    layer,
    with_domains,
)

UNITS = [encode_unit(unit) or b"" for unit in range(4000)]
IDS = st.text(min_size=1, max_size=40) | st.integers(0, 2**63)


def slots_under(salt: str) -> np.ndarray:
    prefix = salt_prefix(salt)
    return np.array([slot_of(prefix, unit) for unit in UNITS])


@st.composite
def cuts(draw: st.DrawFn) -> list[list[int]]:
    """Disjoint ranges in [0, 10000)."""
    ends = sorted(draw(st.sets(st.integers(0, SLOTS), min_size=2, max_size=8)))
    return [list(pair) for pair in zip(ends[::2], ends[1::2], strict=False)]


@st.composite
def weights(draw: st.DrawFn) -> dict[str, int]:
    """Buckets, some perhaps of no weight, that sum to 10,000."""
    ends = sorted(draw(st.lists(st.integers(0, SLOTS), max_size=4)))
    parts = [high - low for low, high in zip([0, *ends], [*ends, SLOTS], strict=True)]
    return {f"b{place}": part for place, part in enumerate(parts)}


@settings(max_examples=60, deadline=None)
@given(cuts(), weights(), st.lists(IDS, min_size=1, max_size=30))
def test_exactly_one_bucket_per_layer_and_never_one_of_no_weight(
    ranges: list[list[int]], parts: dict[str, int], ids: list[Any]
) -> None:
    named = {
        f"exp_{place + 1}": experiment(slots=[pair], buckets=arms(parts, "b0")) for place, pair in enumerate(ranges)
    }
    experiments = compiled(document(**named))
    for unit in ids:
        assignment = experiments.assign("home", {"user_id": unit}, {}, NOW)
        assert list(assignment.buckets) == ["recall", "re_rank"]
        decision = assignment.decisions[1]
        place = slot("home/re_rank/1", unit)
        if place is None:
            assert decision.reason == "no_unit"
            continue
        holders = [n for n, (low, high) in enumerate(ranges) if low <= place < high]
        assert len(holders) == (decision.reason == "hash")
        if decision.bucket is not None and decision.experiment is not None:
            assert decision.experiment.key == f"exp@{holders[0] + 1}"
            assert decision.bucket.weight > 0


@settings(max_examples=60, deadline=None)
@given(cuts(), st.data(), weights())
def test_growing_slots_moves_no_enrolled_user(
    ranges: list[list[int]], data: st.DataObject, parts: dict[str, int]
) -> None:
    kept = data.draw(st.lists(st.sampled_from(ranges), unique_by=tuple, max_size=len(ranges)))
    ids = data.draw(st.lists(IDS, min_size=1, max_size=40))
    buckets = arms(parts, "b0")
    old = compiled(document(exp_1=experiment(slots=kept, buckets=buckets)))
    new = compiled(document(exp_1=experiment(slots=ranges, buckets=buckets)))
    assert new.refuses(old, NOW) == []
    assert {each.kind for each in moves(old, new, NOW).moves} <= {"enter"}
    for unit in ids:
        before = old.assign("home", {"user_id": unit}, {}, NOW)
        after = new.assign("home", {"user_id": unit}, {}, NOW)
        if before.decisions[1].reason == "hash":
            assert after.params == before.params
            assert after.buckets == before.buckets


@settings(max_examples=60, deadline=None)
@given(cuts(), cuts(), weights(), weights(), st.lists(IDS, min_size=1, max_size=40))
def test_what_the_rule_lets_pass_moves_no_enrolled_user(
    before: list[list[int]], after: list[list[int]], one: dict[str, int], two: dict[str, int], ids: list[Any]
) -> None:
    old = compiled(document(exp_1=experiment(slots=before, buckets=arms(one, "b0"))))
    new = compiled(document(exp_1=experiment(slots=after, buckets=arms(two, "b0"))))
    if new.refuses(old, NOW):
        kinds = {each.kind for each in moves(old, new, NOW).moves}
        assert kinds & {"move", "leave", "values"} or one != two
        return
    for unit in ids:
        decision = old.assign("home", {"user_id": unit}, {}, NOW).decisions[1]
        if decision.bucket is not None:
            assert new.assign("home", {"user_id": unit}, {}, NOW).buckets["re_rank"] == decision.label


@settings(max_examples=40, deadline=None)
@given(st.randoms(use_true_random=False), st.lists(IDS, min_size=1, max_size=20))
def test_the_order_of_keys_in_the_document_decides_nothing(random: Random, ids: list[Any]) -> None:
    def shuffled(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        entries = [(key, shuffled(entry)) for key, entry in value.items()]
        random.shuffle(entries)
        return dict(entries)

    base = document(
        a_1=experiment(slots=[[0, 5000]], buckets=arms({"x": 1000, "y": 4000, "z": 5000}, "x")),
        b_1=experiment(domain="alone"),
    )
    layer(base, "recall")["experiments"] = {"k@1": k_experiment(slots=[[0, 9000]])}
    layer(base)["launches"] = {
        "m@1": {"set": {"re_rank.method": "dpp"}},
        "f@1": {"set": {"re_rank.fresh": True}, "when": "context.hour > 3"},
    }
    base = with_domains(base)
    one, two = compiled(base), compiled(shuffled(base))
    for unit in ids:
        before, after = (each.assign("home", {"user_id": unit}, {"hour": 9}, NOW) for each in (one, two))
        assert (after.params, after.buckets) == (before.params, before.buckets)


def dependence(one: np.ndarray, two: np.ndarray) -> float:
    """The p-value of independence of the quarters of slots."""
    one, two = one * 4 // SLOTS, two * 4 // SLOTS
    table = np.bincount(one * 4 + two, minlength=16)
    expected = np.outer(np.bincount(one, minlength=4), np.bincount(two, minlength=4)).ravel() / len(one)
    return float(chi2.sf(((table - expected) ** 2 / expected).sum(), 9))


def test_layers_are_independent_of_each_other_near_identical_salts_too() -> None:
    names = ["home/rank/1", "home/rank/2", "home/rank/11", "home/rank/1 ", "home/ranl/1", "Home/rank/1"]
    names += ["home/recall/1", "home/re_rank/1", "discover/rank/1", "a", "b", "aa", "ab", "ba", "0", "1"]
    names += [f"home/layer_{number}/1" for number in range(12)] + [f"home/rank/exp/{number}" for number in range(12)]
    slots = {name: slots_under(name) for name in names}
    for one, two in combinations(names, 2):
        assert dependence(slots[one], slots[two]) > 1e-4, (one, two)


def fnv1a(data: bytes) -> int:
    found = 0x811C9DC5
    for byte in data:
        found = ((found ^ byte) * 0x01000193) & 0xFFFFFFFF
    return found


@pytest.mark.parametrize("hashed", [crc32, fnv1a])
def test_weaker_hashes_fail_where_ours_passes(hashed: Callable[[bytes], int]) -> None:
    one, two = (
        np.array([hashed(salt_prefix(salt) + unit) * SLOTS >> 32 for unit in UNITS])
        for salt in ("home/rank/1", "home/rank/2")
    )
    assert dependence(one, two) < 1e-4


@pytest.mark.parametrize("salt", ["home/rank/1", "home/rank/2", "", "a" * 100, "💰"])
def test_slots_are_even(salt: str) -> None:
    counts = np.bincount(slots_under(salt) // 100, minlength=100)
    assert chi2.sf(((counts - 40) ** 2 / 40).sum(), 99) > 1e-4


def test_layer_and_bucket_hashes_are_independent_within_a_small_slot_range() -> None:
    parts = {"a": 2500, "b": 2500, "c": 2500, "d": 2500}
    experiments = compiled(document(exp_1=experiment(slots=[[4000, 4200]], buckets=arms(parts, "a"))))
    seen: Counter[str] = Counter()
    for user in range(40_000):
        decision = experiments.assign("home", {"user_id": user}, {}, NOW).decisions[1]
        if decision.bucket is not None:
            seen[decision.bucket.name] += 1
    expected = seen.total() / 4
    statistic = sum((count - expected) ** 2 / expected for count in seen.values())
    assert chi2.sf(statistic, 3) > 1e-4
    assert 700 < seen.total() < 900


def test_a_swap_of_the_configuration_never_mixes_two() -> None:
    """Readers take one reference and see one document, however fast it is replaced."""
    sides = []
    for number in range(2):
        base = document(exp_1=experiment(slots=[[0, SLOTS]], buckets=arms({"a": 5000, "b": 5000}, "a")))
        base["params"]["re_rank.method"]["default"] = ("mmr", "dpp")[number]
        base["params"]["recall.vector_k"]["default"] = (200, 300)[number]
        sides.append(compiled(base))
    current, done = [sides[0]], Event()

    def swap() -> None:
        while not done.is_set():
            current[0] = sides[0] if current[0] is sides[1] else sides[1]

    thread = Thread(target=swap)
    thread.start()
    try:
        seen = set()
        for user in range(3000):
            params = current[0].assign("home", {"user_id": user}, {}, NOW).params
            seen.add((params["re_rank.method"], params["recall.vector_k"]))
    finally:
        done.set()
        thread.join()
    assert seen <= {("mmr", 200), ("dpp", 300)}


def test_ten_slots_get_a_thousandth() -> None:
    experiments = compiled(document(exp_1=experiment(slots=[[9990, 10000]])))
    decisions = [experiments.assign("home", {"user_id": user}, {}, NOW).decisions[1] for user in range(40_000)]
    enrolled = sum(decision.reason == "hash" for decision in decisions)
    assert 15 < enrolled < 70


@pytest.mark.parametrize("wanted", [0, 4999, 5000, 9999])
def test_the_outermost_slots_resolve(wanted: int) -> None:
    experiments = compiled(document(exp_1=experiment(slots=[[0, SLOTS]])))
    bucket_prefix, layer_prefix = salt_prefix("home/re_rank/exp/1"), salt_prefix("home/re_rank/1")
    by_layer = next(unit for unit in range(10**6) if slot_of(layer_prefix, b"%d" % unit) == wanted)
    by_bucket = next(unit for unit in range(10**6) if slot_of(bucket_prefix, b"%d" % unit) == wanted)
    decision = experiments.assign("home", {"user_id": by_layer}, {}, NOW).decisions[1]
    assert (decision.slot, decision.reason) == (wanted, "hash")
    decision = experiments.assign("home", {"user_id": by_bucket}, {}, NOW).decisions[1]
    assert decision.bucket_slot == wanted
    assert decision.label == f"exp@1/{'control' if wanted < 5000 else 'diverse'}"


@given(st.integers(0, 2**63))
def test_integer_and_text_ids_share_their_buckets(number: int) -> None:
    experiments = compiled(document(exp_1=experiment(slots=[[0, SLOTS]])))
    as_text = experiments.assign("home", {"user_id": str(number)}, {}, NOW)
    assert experiments.assign("home", {"user_id": number}, {}, NOW) == as_text
