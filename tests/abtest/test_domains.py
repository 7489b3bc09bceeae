from collections import Counter
from typing import Any

import pytest

from abtest import SLOTS, Assignment, Experiments, slot
from tests.abtest.documents import (
    NOW,
    compiled,
    document,
    experiment,
    k_experiment,
    layer,
    only,
    problems_of,
    with_domains,
)

HOME = ("scenes", "home")
EVERYONE = [[0, SLOTS]]


def split(**changes: Any) -> dict[str, Any]:
    """Overlapping experiments in both layers, and exclusive ones: the lower half in re_rank, the upper in recall."""
    base = document(
        over_1=experiment(slots=EVERYONE),
        alone_1=experiment(domain="alone", slots=[[0, 5000]], **changes),
    )
    layer(base, "recall")["experiments"] = {
        "over_k@1": k_experiment(slots=EVERYONE, domain="shared"),
        "alone_k@1": k_experiment(domain="alone", slots=[[5000, 9000]]),
    }
    return with_domains(base)


def assigned(experiments: Experiments, unit: object, **units: Any) -> Assignment:
    return experiments.assign("home", {"user_id": unit, **units}, {}, NOW)  # type: ignore[dict-item]  # odd units too


def enrolled(assignment: Assignment) -> list[str]:
    return [each.experiment.key for each in assignment.decisions if each.bucket and each.experiment]


def test_a_unit_of_an_exclusive_domain_is_in_one_experiment_at_most() -> None:
    experiments = compiled(split())
    seen: Counter[tuple[str, ...]] = Counter()
    for user in range(4000):
        assignment = assigned(experiments, user)
        seen[tuple(enrolled(assignment))] += 1
        place, inside = slot("home/domains/1", user), slot("home/domains/alone/1", user)
        assert place is not None
        assert inside is not None
        reasons = [each.reason for each in assignment.decisions]
        if place < 8000:
            assert reasons == ["hash", "hash"]
            assert assignment.decisions[1].slot == slot("home/re_rank/1", user)
        else:
            expected = ["other_domain", "hash"] if inside < 5000 else ["hash", "other_domain"]
            assert reasons == (expected if inside < 9000 else ["unallocated", "unallocated"])
            assert {each.slot for each in assignment.decisions} == {inside}
    assert set(seen) == {("over_k@1", "over@1"), ("alone@1",), ("alone_k@1",), ()}
    assert 3100 < seen["over_k@1", "over@1"] < 3300
    assert 350 < seen["alone@1",] < 450
    assert 270 < seen["alone_k@1",] < 370


def test_without_the_unit_of_the_domains_nobody_is_anywhere() -> None:
    base = split()
    layer(base)["experiments"].pop("alone@1")
    layer(base)["unit"] = "device_id"
    experiments = compiled(base)
    assert [each.reason for each in assigned(experiments, None, device_id="d1").decisions] == ["no_unit", "no_unit"]
    inside = next(user for user in range(100) if (slot("home/domains/1", user) or 0) < 8000)
    decisions = assigned(experiments, inside, device_id="d1").decisions
    assert [each.unit for each in decisions] == [str(inside), "d1"]
    assert [each.reason for each in assigned(experiments, inside).decisions] == ["hash", "no_unit"]


def test_a_slot_of_no_domain_is_unallocated() -> None:
    base = split()
    with_domains(base, shared={"slots": [[0, 1000]]}, alone={"slots": [[1000, 2000]], "exclusive": True})
    experiments = compiled(base)
    outside = next(user for user in range(100) if (slot("home/domains/1", user) or 0) >= 2000)
    assert [each.reason for each in assigned(experiments, outside).decisions] == ["unallocated", "unallocated"]


def test_a_tester_belongs_to_the_domain_of_the_experiment() -> None:
    experiments = compiled(split(whitelist={"diverse": list(range(50))}))
    for user in range(50):
        assignment = assigned(experiments, user)
        assert assignment.buckets == {"recall": "default:other_domain", "re_rank": "alone@1/diverse"}
        assert assignment.decisions[1].reason == "whitelist"
    base = split()
    layer(base)["experiments"]["over@1"]["whitelist"] = {"control": list(range(50))}
    experiments = compiled(base)
    for user in range(50):
        assert enrolled(assigned(experiments, user)) == ["over_k@1", "over@1"]


def test_the_whitelist_of_an_exclusive_experiment_ends_with_it() -> None:
    experiments = compiled(split(whitelist={"diverse": [1, 2, 3, 4]}, end="2026-01-01T00:00:00Z"))
    for user in range(1, 5):
        assert "whitelist" not in {each.reason for each in assigned(experiments, user).decisions}


def test_the_held_out_are_in_no_domain() -> None:
    base = split()
    base["scenes"]["home"]["holdout"] = {"slots": SLOTS, "unit": "user_id"}
    assert set(assigned(compiled(base), 7).buckets.values()) == {"default:holdout"}


RULES: list[tuple[dict[str, Any], tuple[str | int, ...], str]] = [
    (
        {"shared": {"slots": [[0, 8000]]}, "alone": {"slots": [[7000, 10000]], "exclusive": True}},
        ("alone", "slots"),
        "slots [7000, 10000) of alone overlap [0, 8000) of shared in 1000 slots. Free in the scene home: none.",
    ),
    (
        {"shared": {"slots": [[0, 8000]]}, "alone": {"slots": [[8000, 10000]], "exclusive": "yes"}},
        ("alone", "exclusive"),
        "exclusive is the text 'yes'. Expected true or false.",
    ),
    (
        {"shared": {"slots": [[0, 8000]]}, "alone": {"slots": [[8000, 10001]], "exclusive": True}},
        ("alone", "slots", 0, 1),
        "a slot of the domain alone is 10001, out of range. Expected an integer from 0 to 10000.",
    ),
    (
        {
            "shared": {"slots": [[0, 8000]]},
            "alone": {"slots": [], "exclusive": True},
            "more": {"slots": [[9000, 9100]]},
        },
        ("shared",),
        "more and shared are both overlapping. Expected `exclusive: true` in all but one domain.",
    ),
    (
        {
            "shared": {"slots": [[0, 8000]], "unit": "user_id"},
            "alone": {"slots": [[8000, 10000]], "exclusive": True, "unit": "device_id"},
        },
        ("shared", "unit"),
        "the domains are split by device_id and user_id. Expected one unit: a request is in one domain.",
    ),
]


@pytest.mark.parametrize(("domains", "path", "message"), RULES)
def test_faulty_domains_are_refused(domains: dict[str, Any], path: tuple[str | int, ...], message: str) -> None:
    found = problems_of(with_domains(split(), **domains))
    assert (found[0].path, found[0].message) == ((*HOME, "domains", *path), message)


def test_an_unknown_domain_and_a_wrong_unit_are_refused() -> None:
    base = split()
    layer(base)["experiments"]["alone@1"]["domain"] = "alome"
    layer(base)["experiments"]["alone@1"]["slots"] = []
    place = (*HOME, "layers", "re_rank", "experiments", "alone@1", "domain")
    assert only(problems_of(base)) == (place, "there is no domain 'alome'. Did you mean 'alone'?")
    base = split()
    layer(base)["unit"] = "session_id"
    assert only(problems_of(base)) == (
        place,
        "the unit of the layer re_rank is session_id, and that of the domains user_id. Expected the same for alone@1: "
        "else the domain couldn't be exclusive.",
    )


def test_experiments_of_an_exclusive_domain_may_not_overlap_across_layers() -> None:
    base = split()
    layer(base, "recall")["experiments"]["alone_k@1"]["slots"] = [[4000, 6000]]
    assert only(problems_of(base)) == (
        (*HOME, "layers", "recall", "experiments", "alone_k@1", "slots"),
        "slots [4000, 6000) of alone_k@1 overlap [0, 5000) of alone@1 in 1000 slots. Free in the domain alone: "
        "[6000, 10000).",
    )


def test_a_tester_of_an_exclusive_experiment_is_in_no_other_whitelist() -> None:
    base = split(whitelist={"diverse": ["u1"]})
    layer(base, "recall")["experiments"]["over_k@1"]["whitelist"] = {"few": ["u1"]}
    assert only(problems_of(base)) == (
        (*HOME, "layers", "re_rank", "experiments", "alone@1", "whitelist", "diverse"),
        "'u1' is in the whitelists of over_k@1 and alone@1. Expected one experiment: one of them is in an exclusive "
        "domain.",
    )


def test_where_all_domains_are_exclusive_an_experiment_names_its_own() -> None:
    base = with_domains(document(exp_1=experiment()), alone={"slots": [[0, 10000]], "exclusive": True})
    assert only(problems_of(base)) == (
        (*HOME, "layers", "re_rank", "experiments", "exp@1"),
        "exp@1 is in no domain. Expected `domain`, one of alone: no domain is overlapping.",
    )


def test_domains_may_only_grow_while_experiments_run_in_them() -> None:
    def refusals(before: Any, after: Any) -> list[tuple[Any, str]]:
        old, new = (compiled(with_domains(split(), **domains)) for domains in (before, after))
        return [(problem.path, problem.message) for problem in new.refuses(old)]

    small: dict[str, Any] = {"shared": {"slots": [[0, 5000]]}, "alone": {"slots": [[8000, 10000]], "exclusive": True}}
    large: dict[str, Any] = {"shared": {"slots": [[0, 8000]]}, "alone": {"slots": [[8000, 10000]], "exclusive": True}}
    assert refusals(small, large) == []
    assert refusals(large, small) == [
        (
            (*HOME, "domains"),
            "the overlapping domain shrank while experiments run in it: 3000 of 10,000 slots of the scene would move "
            "users to other domains. Expected at least [0, 8000).",
        )
    ]
    moved = {"shared": {"slots": [[2000, 10000]]}, "alone": {"slots": [[0, 2000]], "exclusive": True}}
    assert [message.partition(" while")[0] for _, message in refusals(large, moved)] == [
        "the overlapping domain shrank",
        "the domain alone shrank",
    ]
    by_device = {name: {**entry, "unit": "device_id"} for name, entry in large.items()}
    old = compiled(with_domains(document(exp_1=experiment()), **large))
    new = compiled(with_domains(document(exp_1=experiment()), **by_device))
    assert [problem.message for problem in new.refuses(old)] == [
        "the unit of the domains changed from user_id to device_id while experiments run: it would move users. "
        "Expected user_id."
    ]


def test_an_experiment_stays_in_its_domain_and_one_domain_of_all_slots_is_as_none() -> None:
    base = document(exp_1=experiment())
    whole = {"shared": {"slots": [[0, 10000]]}}
    assert compiled(with_domains(document(exp_1=experiment()), **whole)).refuses(compiled(base)) == []
    old = compiled(with_domains(document(exp_1=experiment())))
    new = compiled(with_domains(document(exp_1=experiment(domain="alone"))))
    (problem,) = new.refuses(old)
    assert problem.path[-1] == "domain"
    assert problem.message.startswith(
        "exp@1 is running and its domain changed from the overlapping one to alone: 2000 of 10,000 domain slots"
    )
