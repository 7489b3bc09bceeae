"""Small documents, as parsed YAML would be."""

from collections.abc import Mapping
from typing import Any

from abtest import Experiments, Problem

CONTEXT = {"region": "str", "hour": "int", "app_version": "semver", "share": "float", "paid": "bool"}
SCENES = ("home", "discover")
NOW = 1_770_000_000.0
KNOB = "re_rank.relevance"
KNOB_K = "recall.vector_k"


def experiment(**changes: Any) -> dict[str, Any]:
    """A running experiment on `re_rank.relevance`; a change to None takes the key out."""
    entry: dict[str, Any] = {
        "owner": "ranking",
        "status": "running",
        "slots": [[0, 2000]],
        "buckets": {
            "control": {"weight": 5000, "control": True, "set": {KNOB: 0.9}},
            "diverse": {"weight": 5000, "set": {KNOB: 0.7}},
        },
    } | changes
    return {key: value for key, value in entry.items() if value is not None}


def document(**experiments: Any) -> dict[str, Any]:
    """A document with two layers in `home`; keyword `exp_mmr_1` names the experiment `exp_mmr@1`."""
    named = {f"{key.rpartition('_')[0]}@{key.rpartition('_')[2]}": entry for key, entry in experiments.items()}
    return {
        "version": 1,
        "params": {
            "recall.vector_k": {"int": [100, 1000], "default": 500, "layer": "home/recall"},
            KNOB: {"float": [0, 1], "default": 0.9, "layer": "home/re_rank"},
            "re_rank.method": {"choice": ["mmr", "dpp"], "default": "mmr", "layer": "home/re_rank"},
            "re_rank.fresh": {"bool": True, "default": False, "layer": "home/re_rank"},
        },
        "scenes": {
            "home": {
                "layers": {
                    "recall": {"unit": "user_id", "experiments": {}},
                    "re_rank": {"unit": "user_id", "experiments": named},
                }
            }
        },
    }


def k_experiment(**changes: Any) -> dict[str, Any]:
    """A running experiment on `recall.vector_k`."""
    sides = {"few": 200, "many": 800}
    buckets = {name: {"weight": 5000, "control": name == "few", "set": {KNOB_K: k}} for name, k in sides.items()}
    return experiment(buckets=buckets, **changes)


def with_domains(document: dict[str, Any], **domains: Any) -> dict[str, Any]:
    """The document with domains in `home`; without any, 8,000 overlapping slots and 2,000 exclusive ones."""
    usual = {"shared": {"slots": [[0, 8000]]}, "alone": {"slots": [[8000, 10000]], "exclusive": True}}
    document["scenes"]["home"]["domains"] = domains or usual
    return document


def layer(document: Mapping[str, Any], name: str = "re_rank") -> dict[str, Any]:
    found: dict[str, Any] = document["scenes"]["home"]["layers"][name]
    return found


def compiled(document: Mapping[str, Any]) -> Experiments:
    experiments, problems = Experiments.compile(document, CONTEXT, SCENES)
    assert problems == []
    assert experiments is not None
    return experiments


def problems_of(document: Any) -> list[Problem]:
    experiments, problems = Experiments.compile(document, CONTEXT, SCENES)
    assert (experiments is None) == bool(problems)
    return problems


def only(found: list[Problem]) -> tuple[tuple[str | int, ...], str]:
    """Path and message of the one problem there is."""
    assert len(found) == 1, [str(problem) for problem in found]
    return found[0].path, found[0].message


def arms(weights: Mapping[str, int], control: str) -> dict[str, Any]:
    """Buckets of the given weights, all setting the knob, each to its own value."""
    step = 1 / max(1, len(weights))
    return {
        name: {"weight": weight, "control": name == control, "set": {KNOB: round(place * step, 3)}}
        for place, (name, weight) in enumerate(weights.items())
    }
