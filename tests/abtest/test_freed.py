from typing import Any

import pytest

from abtest.freed import free_slots
from abtest.moves import moves
from tests.abtest.documents import NOW, compiled, document, experiment, k_experiment, layer, with_domains

EXP = ("scenes", "home", "layers", "re_rank", "experiments")
DAY = 86_400.0
MOMENT = "2026-02-02T02:40:00+00:00"  # NOW


def test_the_lowest_free_slots_are_given() -> None:
    plan = compiled(document(a_1=experiment(slots=[[100, 200]]), b_1=experiment(slots=[[300, 400]]))).scenes["home"]
    assert free_slots(plan, "re_rank", 250, NOW) == [(0, 100), (200, 300), (400, 450)]
    assert free_slots(plan, "recall", 10_000, NOW) == [(0, 10_000)]
    assert free_slots(plan, "re_rank", 0, NOW) == []
    with pytest.raises(ValueError, match=r"9801 slots are wanted and 9800 are free: \[0, 100\), \[200, 300\), \[400, "):
        free_slots(plan, "re_rank", 9801, NOW)
    with pytest.raises(KeyError):
        free_slots(plan, "rank", 1, NOW)


def test_slots_freed_lately_are_taken_last() -> None:
    ended = experiment(status="ended", end=MOMENT)
    shrunk = experiment(slots=[[3000, 4000]], freed={MOMENT: [[4000, 5000]]})
    plan = compiled(document(a_1=ended, b_1=shrunk)).scenes["home"]
    assert free_slots(plan, "re_rank", 6000, NOW + 13 * DAY) == [(2000, 3000), (5000, 10_000)]
    assert free_slots(plan, "re_rank", 6500, NOW + 13 * DAY) == [(0, 500), (2000, 3000), (5000, 10_000)]
    assert free_slots(plan, "re_rank", 3500, NOW + 14 * DAY) == [(0, 3000), (4000, 4500)]
    assert free_slots(plan, "re_rank", 1500, NOW - DAY) == [(2000, 3000), (5000, 5500)]  # a clock that was set back


def test_the_slots_of_an_exclusive_domain_are_its_own() -> None:
    base = document(a_1=experiment(), b_1=experiment(domain="alone", slots=[[0, 500]]))
    layer(base, "recall")["experiments"] = {"k@1": k_experiment(domain="alone", slots=[[700, 800]])}
    plan = compiled(with_domains(base)).scenes["home"]
    assert free_slots(plan, "re_rank", 300, NOW, "alone") == [(500, 700), (800, 900)]
    assert free_slots(plan, "re_rank", 300, NOW, "shared") == free_slots(plan, "re_rank", 300, NOW) == [(2000, 2300)]
    with pytest.raises(KeyError):
        free_slots(plan, "re_rank", 1, NOW, "nowhere")


def test_slots_of_another_that_have_not_rested_are_warned_of() -> None:
    ended = experiment(status="ended", end=MOMENT)
    old = compiled(document(a_1=ended))
    new = compiled(document(a_1=ended, b_1=experiment(slots=[[1500, 2500]])))
    (warning,) = moves(old, new, NOW + DAY).warnings
    assert warning.path == (*EXP, "b@1", "slots")
    assert warning.message == (
        "b@1 takes [1500, 2000), which a@1 gave up on 2026-02-02, under 14 days ago. Its units still carry what they "
        "saw; the slots have rested on 2026-02-16."
    )
    assert new.recently_freed(NOW + DAY) == [warning]
    assert new.recently_freed(NOW + 14 * DAY) == []
    assert moves(old, new, NOW + 14 * DAY).warnings == ()
    assert moves(new, new, NOW + DAY).warnings == ()  # what holds its slots already


def test_slots_given_up_in_the_same_change_are_warned_of() -> None:
    old = compiled(document(a_1=experiment()))
    for after in ({}, {"a_1": experiment(status="ended")}):
        new = compiled(document(b_1=experiment(slots=[[1500, 2500]]), **after))
        (warning,) = moves(old, new, NOW).warnings
        assert warning.message == (
            "b@1 takes [1500, 2000), which a@1 gives up in the same change. Its units still carry what they saw; let "
            "them rest for 14 days."
        )
        assert new.refuses(old) == []
    for end in ("2026-02-01T00:00:00Z", "2030-01-01T00:00:00Z"):
        ended = experiment(status="ended", end=end)
        new = compiled(document(a_1=ended, b_1=experiment(slots=[[1500, 2500]])))
        assert len(moves(old, new, NOW).warnings) == 1


def test_an_experiment_may_shrink_when_it_says_so() -> None:
    old = compiled(document(a_1=experiment()))
    silent = compiled(document(a_1=experiment(slots=[[0, 1500]])))
    said = compiled(document(a_1=experiment(slots=[[0, 1500]], freed={MOMENT: [[1500, 2000]]})))
    in_part = compiled(document(a_1=experiment(slots=[[0, 1500]], freed={MOMENT: [[1700, 2000]]})))
    assert [problem.path for problem in silent.refuses(old)] == [(*EXP, "a@1", "slots")]
    assert "200 of 10,000 layer slots" in in_part.refuses(old)[0].message
    assert said.refuses(old) == []
    warning = (
        "a@1 gives up [1500, 2000): 500 of 10,000 layer slots move users, 500 from a@1 to the defaults. They should "
        "rest for 14 days."
    )
    assert [each.message for each in moves(old, said, NOW).warnings] == [warning]
    flagged = moves(old, silent, NOW, shrink=True)
    said_to_reload = f'{warning} A reload wants `freed` to say so: {{"...": [[1500, 2000]]}}.'
    assert (flagged.refusals, [each.message for each in flagged.warnings]) == ((), [said_to_reload])


def test_an_old_entry_of_freed_permits_nothing_new() -> None:
    freed = {MOMENT: [[1500, 2000]]}
    grown_again = compiled(document(a_1=experiment(freed=freed)))
    small = compiled(document(a_1=experiment(slots=[[0, 1500]], freed=freed)))
    assert len(small.refuses(grown_again)) == 1
    again = {**freed, "2026-02-03T00:00:00Z": [[1500, 2000]]}
    assert compiled(document(a_1=experiment(slots=[[0, 1500]], freed=again))).refuses(grown_again) == []


def test_an_experiment_may_take_its_own_slots_back() -> None:
    freed: dict[str, Any] = {MOMENT: [[1500, 2000]]}
    small = compiled(document(a_1=experiment(slots=[[0, 1500]], freed=freed)))
    back = compiled(document(a_1=experiment(freed=freed)))
    assert moves(small, back, NOW).warnings == ()
    assert back.recently_freed(NOW) == []
