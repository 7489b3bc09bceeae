from collections import Counter
from typing import Any

import pytest

from abtest import SLOTS, slot
from tests.abtest.documents import NOW, arms, compiled, document, experiment, only, problems_of

HOUR = 3600.0


def sliced(**changes: Any) -> dict[str, Any]:
    changes.setdefault("slots", [[0, SLOTS]])
    return document(exp_1=experiment(**{"slices": {"every": "1h"}, **changes}))


def test_all_users_share_a_bucket_for_one_slice() -> None:
    experiments = compiled(sliced())
    start = NOW // HOUR * HOUR
    for hour in range(48):
        labels, units = set(), set()
        for user in range(10):
            now = start + HOUR * hour + 359.9 * user
            decision = experiments.assign("home", {"user_id": user}, {}, now).decisions[1]
            labels.add(decision.label)
            units.add((decision.unit_type, decision.unit, decision.bucket_slot))
        number = str(int(start // HOUR) + hour)
        assert units == {("slice", number, slot("home/re_rank/exp/1", number))}
        assert len(labels) == 1


def test_slices_follow_the_weights() -> None:
    experiments = compiled(sliced(buckets=arms({"a": 2500, "b": 7500, "none": 0}, "a")))
    seen = Counter(
        experiments.assign("home", {"user_id": 1}, {}, HOUR * number).buckets["re_rank"] for number in range(4000)
    )
    assert set(seen) == {"exp@1/a", "exp@1/b"}
    assert 880 < seen["exp@1/a"] < 1120


def test_the_slot_of_the_unit_still_decides_who_takes_part() -> None:
    experiments = compiled(sliced(slots=[[0, 2000]], when="context.hour == 3", whitelist={"diverse": ["u42"]}))
    for user in range(50):
        decision = experiments.assign("home", {"user_id": user}, {"hour": 3}, NOW).decisions[1]
        assert (decision.reason == "hash") == ((slot("home/re_rank/1", user) or 0) < 2000)
        if decision.bucket is None:
            assert (decision.unit_type, decision.unit) == ("user_id", str(user))
    assert experiments.assign("home", {"user_id": "u42"}, {}, NOW).decisions[1].unit == "u42"
    assert experiments.assign("home", {}, {"hour": 3}, NOW).buckets["re_rank"] == "default:no_unit"


def test_slices_may_have_their_own_salt() -> None:
    experiments = compiled(sliced(slices={"every": "30m", "salt": "mine"}))
    decision = experiments.assign("home", {"user_id": 1}, {}, NOW).decisions[1]
    assert decision.unit == str(int(NOW // 1800))
    assert decision.bucket_slot == slot("mine", decision.unit)


@pytest.mark.parametrize(
    ("changes", "path", "message"),
    [
        (
            {"slices": {"every": "1 hour"}},
            ("slices", "every"),
            "the length of a slice of exp@1 is the text '1 hour'. Expected minutes, hours or days such as 30m, 1h or "
            "1d.",
        ),
        (
            {"slices": {"every": 3600}},
            ("slices", "every"),
            "the length of a slice of exp@1 is the integer 3600. Expected minutes, hours or days such as 30m, 1h or "
            "1d.",
        ),
        ({"slices": {}}, ("slices",), "the slices of exp@1 lacks 'every'. Expected every."),
        ({"slices": "1h"}, ("slices",), "the slices of exp@1 is the text '1h'. Expected a mapping."),
        (
            {"slices": {"every": "1h", "salt": "a"}, "salt": "b"},
            ("slices", "salt"),
            "exp@1 has two salts. Expected one: there is one split.",
        ),
        (
            {"unit": "device_id"},
            ("unit",),
            "the unit of exp@1 is the text 'device_id', and that of its layer user_id. Expected the layer's: its slots "
            "are those of the layer.",
        ),
    ],
)
def test_faulty_slices_and_units_are_refused(
    changes: dict[str, Any], path: tuple[str | int, ...], message: str
) -> None:
    found_path, found = only(problems_of(sliced(**changes)))
    assert (found_path[6:], found) == (path, message)


def test_an_experiment_may_repeat_the_unit_of_its_layer() -> None:
    compiled(sliced(unit="user_id"))
