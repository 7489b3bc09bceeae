"""Experiments that can be trusted: scenes, orthogonal layers, experiments, buckets, typed parameters.

Importable alone: plain data in, decisions out; no I/O but the exposure log, no global state.

>>> from abtest import Experiments
>>> document = {
...     "params": {"re_rank.relevance": {"float": [0, 1], "default": 0.9, "layer": "home/re_rank"}},
...     "scenes": {"home": {
...         "holdout": {"slots": 200, "unit": "user_id"},
...         "layers": {"re_rank": {"unit": "user_id", "experiments": {"exp_mmr@1": {
...             "owner": "ranking", "status": "running", "slots": [[0, 2000]],
...             "when": "context.app_version >= '3.0'",
...             "buckets": {
...                 "control": {"weight": 5000, "control": True, "set": {"re_rank.relevance": 0.9}},
...                 "diverse": {"weight": 5000, "set": {"re_rank.relevance": 0.7}}},
...             "whitelist": {"diverse": ["u42"]}}}}}}},
... }
>>> experiments, problems = Experiments.compile(document, {"app_version": "semver"}, ["home"])
>>> problems
[]
>>> answer = experiments.assign("home", {"user_id": "u42"}, {"app_version": "3.2.0"}, now=1_770_000_000.0)
>>> answer.buckets, answer.params["re_rank.relevance"], answer.decisions[0].reason
({'re_rank': 'exp_mmr@1/diverse'}, 0.7, 'whitelist')
>>> experiments.assign("home", {"user_id": None}, {}, now=1_770_000_000.0).buckets
{'re_rank': 'default:no_unit'}
>>> experiments.values_of("re_rank.relevance")
(0.9, 0.7)

A configuration with problems compiles to None and all of them:

>>> document["scenes"]["home"]["layers"]["re_rank"]["experiments"]["exp_mmr@1"]["slots"] = [[2000, 0]]
>>> Experiments.compile(document, {"app_version": "semver"}, ["home"])[1][0].message
'the slot range [2000, 0) of exp_mmr@1 is inverted. Expected [from, to) with from below to.'

Why a request is assigned as it is:

>>> document["scenes"]["home"]["layers"]["re_rank"]["experiments"]["exp_mmr@1"]["slots"] = [[0, 2000]]
>>> experiments, _ = Experiments.compile(document, {"app_version": "semver"}, ["home"])
>>> why = experiments.explain("home", {"user_id": "user_7"}, {}, now=1_770_000_000.0)
>>> why.layers[0].place.salt, why.layers[0].place.slot, why.layers[0].reason
('home/re_rank/1', 5632, 'unallocated')

What its author may change while an experiment runs says `Experiments.refuses`, who would move says
`abtest.moves.moves`, and `abtest.freed.free_slots` finds slots that have rested. What was seen is written by
`ExposureLog`.
"""

from abtest.assign import ForcedError
from abtest.decision import REASONS, Assignment, Decision
from abtest.experiments import Experiments
from abtest.explain import Explanation
from abtest.exposure import ExposureLog
from abtest.hashing import MAX_UNIT_BYTES, SLOTS, encode_unit, slot
from abtest.params import Param, Value
from abtest.plan import UNITS, Bucket, Domain, Domains, Experiment, Freed, Holdout, Launch, Layer, ScenePlan
from abtest.problems import Problem

__all__ = [
    "MAX_UNIT_BYTES",
    "REASONS",
    "SLOTS",
    "UNITS",
    "Assignment",
    "Bucket",
    "Decision",
    "Domain",
    "Domains",
    "Experiment",
    "Experiments",
    "Explanation",
    "ExposureLog",
    "ForcedError",
    "Freed",
    "Holdout",
    "Launch",
    "Layer",
    "Param",
    "Problem",
    "ScenePlan",
    "Value",
    "encode_unit",
    "slot",
]
