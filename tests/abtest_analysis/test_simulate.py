import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from abtest.analysis import Simulation, simulate, synthetic
from tests.abtest.documents import NOW, compiled, document, experiment, layer

VECTOR_K = "recall.vector_k"


def _layers(**changes: Any) -> dict[str, Any]:
    """Two layers of `home`: half of `re_rank`, a fifth of `recall`, and a holdout of 5%."""
    plan = document(exp_mmr_1=experiment(slots=[[0, 5000]], **changes))
    other = experiment(slots=[[1000, 3000]], buckets=None)
    other["buckets"] = {
        "control": {"weight": 2500, "control": True, "set": {VECTOR_K: 500}},
        "wide": {"weight": 7500, "set": {VECTOR_K: 800}},
    }
    layer(plan, "recall")["experiments"] = {"exp_k@1": other}
    plan["scenes"]["home"]["holdout"] = {"slots": 500, "unit": "user_id"}
    return plan


def _simulated(plan: dict[str, Any], units: int = 20_000, **context: object) -> Simulation:
    return simulate(compiled(plan), "home", units, context, NOW)


def test_shares_are_those_of_slots_weights_and_holdout() -> None:
    recall, re_rank = _simulated(_layers()).layers
    assert recall.shares == pytest.approx(
        {
            "default:holdout": 0.05,
            "default:unallocated": 0.95 * 0.8,
            "exp_k@1/control": 0.95 * 0.2 * 0.25,
            "exp_k@1/wide": 0.95 * 0.2 * 0.75,
        },
        abs=0.01,
    )
    assert sum(re_rank.shares.values()) == pytest.approx(1)
    assert min(recall.p, re_rank.p) > 1e-4
    assert recall.df == 99


def test_buckets_get_their_weights_even_in_few_slots() -> None:
    plan = document(exp_mmr_1=experiment(slots=[[9990, 10_000]]))
    (split,) = _simulated(plan, 60_000).layers[1].splits
    assert split.buckets == ("control", "diverse")
    assert 20 < sum(split.counts) < 120
    assert split.p > 1e-4


def test_layers_with_salts_of_their_own_are_independent() -> None:
    (pair,) = _simulated(_layers()).pairs
    assert (pair.left, pair.right) == ("recall", "re_rank")
    assert pair.v < 0.03
    assert pair.p > 1e-4
    assert pair.units == pytest.approx(19_000, abs=200)


def test_layers_that_share_a_salt_are_found() -> None:
    experiments = compiled(_layers())
    # A configuration that says this is refused, so one layer's hash is put in place of the other's.
    home = experiments.scenes["home"]
    recall, re_rank = home.layers
    same = replace(home, layers=(replace(recall, prefix=re_rank.prefix), re_rank))
    (pair,) = simulate(replace(experiments, scenes={"home": same}), "home", 5_000, {}, NOW).pairs
    assert pair.v > 0.3
    assert pair.p < 1e-4


def test_units_that_are_alike_are_found_by_the_uniformity_of_slots() -> None:
    units = [{"user_id": f"u{number % 40}"} for number in range(4_000)]
    assert simulate(compiled(_layers()), "home", units, {}, NOW).layers[0].p < 1e-4


def test_who_fails_a_condition_is_no_part_of_the_split() -> None:
    plan = _layers(when="context.hour == 9")
    outside, inside = (_simulated(plan, 2_000, hour=hour).layers[1] for hour in (8, 9))
    assert outside.splits == ()
    assert outside.shares["default:condition"] == pytest.approx(0.475, abs=0.05)
    assert inside.splits[0].p > 1e-4


def test_a_time_slice_puts_everybody_into_one_bucket_and_is_no_split() -> None:
    outcome = _simulated(_layers(slices={"every": "1h"}), 2_000).layers[1]
    assert outcome.splits == ()
    assert sum(label.startswith("exp_mmr@1/") for label in outcome.shares) == 1


def test_exclusive_domains_are_no_dependence_of_layers() -> None:
    plan = _layers(domain="alone")
    plan["scenes"]["home"]["domains"] = {
        "shared": {"slots": [[0, 4000]]},
        "alone": {"slots": [[4000, 10_000]], "exclusive": True},
    }
    layer(plan)["experiments"]["exp_mmr@2"] = experiment(slots=[[0, 5000]])
    outcome = _simulated(plan)
    assert outcome.pairs[0].units == pytest.approx(20_000 * 0.95 * 0.4, abs=300)
    assert outcome.pairs[0].p > 1e-4
    assert outcome.layers[0].shares["default:other_domain"] == pytest.approx(0.95 * 0.6 * 0.5, abs=0.02)
    assert all(each.p > 1e-4 for each in outcome.layers)
    assert [split.experiment for split in outcome.layers[1].splits] == ["exp_mmr@1", "exp_mmr@2"]


def test_a_scene_without_experiments_has_nothing_to_pair() -> None:
    outcome = simulate(compiled(document()), "discover", 100, {}, NOW)
    assert (outcome.layers, outcome.pairs, outcome.units) == ((), (), 100)


def test_a_pair_is_said_to_have_too_few_units_only_where_both_layers_vary() -> None:
    few, none = _simulated(_layers(), 40).pairs, _simulated(document(), 40).pairs
    assert [(each.too_few, np.isnan(each.p)) for each in few] == [(True, True)]
    assert [(each.too_few, np.isnan(each.p)) for each in none] == [(False, True)] * len(none)
    assert not _simulated(_layers()).pairs[0].too_few


def test_the_units_whose_slots_are_tested_are_counted() -> None:
    recall, _ = _simulated(_layers(), 1_000).layers
    assert recall.units == round(1_000 * (1 - recall.shares["default:holdout"]))


def test_the_simulation_is_json() -> None:
    data = json.loads(json.dumps(_simulated(_layers(), 500).as_json(), allow_nan=False))
    assert [each["layer"] for each in data["layers"]] == ["recall", "re_rank"]
    assert data["layers"][0]["shares"]["default:holdout"] < 0.2


def test_synthetic_units_are_distinct_in_every_kind() -> None:
    ids = [value for unit in synthetic(100) for value in unit.values()]
    assert len(np.unique(ids)) == len(ids) == 400
