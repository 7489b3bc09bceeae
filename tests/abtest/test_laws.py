from collections import Counter
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2, chi2_contingency

from abtest import SLOTS, slot
from abtest.hashing import encode_unit, salt_prefix, slot_of
from tests.abtest.documents import NOW, arms, compiled, document, experiment

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


@settings(max_examples=40, deadline=None)
@given(st.integers(0, SLOTS - 1), st.data(), weights())
def test_growing_slots_moves_no_enrolled_user(size: int, data: st.DataObject, parts: dict[str, int]) -> None:
    grown = data.draw(st.integers(size + 1, SLOTS))
    ids = data.draw(st.lists(IDS, min_size=1, max_size=40))
    buckets = arms(parts, "b0")
    old = compiled(document(exp_1=experiment(slots=[[0, size]] if size else [], buckets=buckets)))
    new = compiled(document(exp_1=experiment(slots=[[0, grown]], buckets=buckets)))
    assert new.refuses(old) == []
    for unit in ids:
        before = old.assign("home", {"user_id": unit}, {}, NOW)
        after = new.assign("home", {"user_id": unit}, {}, NOW)
        if before.decisions[1].reason == "hash":
            assert after.params == before.params
            assert after.buckets == before.buckets


def test_layers_are_independent_of_each_other_near_identical_salts_too() -> None:
    names = ["home/rank/1", "home/rank/2", "home/rank/11", "home/rank/1 ", "home/ranl/1", "Home/rank/1"]
    names += ["home/recall/1", "home/re_rank/1", "discover/rank/1", "a", "b", "aa", "ab", "ba", "0", "1"]
    halves = {name: slots_under(name) * 4 // SLOTS for name in names}
    for one, two in combinations(names, 2):
        table = np.zeros((4, 4))
        np.add.at(table, (halves[one], halves[two]), 1)
        assert chi2_contingency(table).pvalue > 1e-4, (one, two)


def test_layer_and_bucket_hashes_are_independent_within_a_small_slot_range() -> None:
    parts = {"a": 2500, "b": 2500, "c": 2500, "d": 2500}
    experiments = compiled(document(exp_1=experiment(slots=[[4000, 5000]], buckets=arms(parts, "a"))))
    seen: Counter[str] = Counter()
    for user in range(40_000):
        decision = experiments.assign("home", {"user_id": user}, {}, NOW).decisions[1]
        if decision.bucket is not None:
            seen[decision.bucket.name] += 1
    expected = seen.total() / 4
    statistic = sum((count - expected) ** 2 / expected for count in seen.values())
    assert chi2.sf(statistic, 3) > 1e-4
    assert 3_700 < seen.total() < 4_300


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
