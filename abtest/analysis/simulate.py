"""What a configuration does to synthetic units, before a real one meets it.

Every unit is assigned by `Experiments.assign` itself, under one context and one time, so that a layer's
outcome depends on nothing but its hashes: shares must be those of the configuration and layers must be
independent.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np

from abtest.analysis.chisquare import cramers_v, goodness_of_fit
from abtest.analysis.columns import Codes
from abtest.analysis.result import Result
from abtest.assign import placed
from abtest.decision import Decision
from abtest.experiments import Experiments
from abtest.hashing import SLOTS, encode_unit
from abtest.plan import UNITS, Domains, Layer

RANGES: Final = 100
"""Into how many equal ranges the slots are gathered for the test of their uniformity."""

_SET_ASIDE: Final = frozenset({"holdout", "no_unit", "whitelist", "forced"})


@dataclass(frozen=True, slots=True)
class Split(Result):
    """How the units that an experiment enrolled by hash fell into its buckets, against the weights.

    A time-slice experiment has none: all units share a bucket for a while.
    """

    experiment: str
    buckets: tuple[str, ...]
    counts: tuple[int, ...]
    expected: tuple[float, ...]
    chi_square: float
    df: int
    p: float


@dataclass(frozen=True, slots=True)
class LayerOutcome(Result):
    """One layer: the share of units per label (`experiment@version/bucket` or `default:reason`).

    `chi_square`, `df` and `p` test that the slots of `units` in the overlapping domain are uniform over
    `RANGES` equal ranges; NaN where the units are fewer than `ENOUGH` for each.
    """

    layer: str
    shares: dict[str, float]
    chi_square: float
    df: int
    p: float
    splits: tuple[Split, ...]
    units: int = 0


@dataclass(frozen=True, slots=True)
class Pair(Result):
    """How two layers' labels depend on each other: Cramer's `v` and its p (NaN where one never varies).

    Over `units` of the overlapping domain that neither layer had set aside (holdout, no unit, whitelist,
    forced): those depend on each other on purpose. `too_few` says that both vary, but too rarely for a test
    among so few units; then `v` and p are NaN too.
    """

    left: str
    right: str
    v: float
    p: float
    df: int
    units: int
    too_few: bool = False


@dataclass(frozen=True, slots=True)
class Simulation(Result):
    """All layers of a scene, and all pairs of them."""

    scene: str
    units: int
    layers: tuple[LayerOutcome, ...]
    pairs: tuple[Pair, ...]


def simulate(
    experiments: Experiments,
    scene: str,
    units: int | Iterable[Mapping[str, str | int | None]],
    context: Mapping[str, object],
    now: float,
) -> Simulation:
    """Assign many units and test what came out. Some microseconds per unit.

    `units` is how many synthetic ones to make (see `synthetic`), or the units themselves, distinct ones.
    `context` and `now` (epoch seconds) are those of every request. Raises KeyError for an unknown scene.
    """
    plan = experiments.scenes[scene]
    layers = plan.layers
    tallies = [_Tally(layer) for layer in layers]
    count = 0
    for each in synthetic(units) if isinstance(units, int) else units:
        count += 1
        overlapping = _overlapping(plan.domains, each, now)
        decisions = experiments.assign(scene, each, context, now).decisions
        for tally, decision in zip(tallies, decisions, strict=True):
            tally.add(decision, overlapping)
    codes = [np.asarray(tally.codes, np.int64) for tally in tallies]
    pairs = tuple(
        _pair(layers[left].name, layers[right].name, codes[left], codes[right])
        for left, right in combinations(range(len(layers)), 2)
    )
    return Simulation(scene, count, tuple(tally.outcome(count) for tally in tallies), pairs)


def synthetic(count: int) -> Iterable[dict[str, str | int | None]]:
    """Yield distinct units, each with every kind of id; kinds never share an id."""
    for number in range(count):
        yield {unit: f"{unit}-{number}" for unit in UNITS}


def _overlapping(domains: Domains | None, units: Mapping[str, str | int | None], now: float) -> bool:
    """Say whether all layers run for this unit, independently of each other."""
    if domains is None:
        return True
    key = encode_unit(units.get(domains.unit))
    domain = None if key is None else placed(domains, key, now)[0]
    return domain is not None and not domain.exclusive


class _Tally:
    """One layer's outcomes, unit by unit; `codes` are of labels, -1 for a unit that was set aside."""

    def __init__(self, layer: Layer) -> None:
        self._layer = layer
        self._labels: Counter[str] = Counter()
        self._dealt: Counter[str] = Counter()
        self._slots = np.zeros(RANGES, np.int64)
        self._numbers: dict[str, int] = {}
        self.codes: list[int] = []

    def add(self, decision: Decision, overlapping: bool) -> None:
        label, reason = decision.label, decision.reason
        self._labels[label] += 1
        if overlapping and decision.slot is not None:
            self._slots[decision.slot * RANGES // SLOTS] += 1
        if reason == "hash":
            self._dealt[label] += 1
        aside = not overlapping or reason in _SET_ASIDE
        self.codes.append(-1 if aside else self._numbers.setdefault(label, len(self._numbers)))

    def outcome(self, units: int) -> LayerOutcome:
        fit = goodness_of_fit(self._slots, [1.0] * RANGES)
        shares = {label: number / units for label, number in sorted(self._labels.items())}
        splits, reached = tuple(self._splits()), int(self._slots.sum())
        return LayerOutcome(self._layer.name, shares, float(fit.statistic), fit.df, float(fit.p), splits, reached)

    def _splits(self) -> Iterable[Split]:
        for experiment in self._layer.experiments:
            counts = np.array([self._dealt[bucket.label] for bucket in experiment.buckets], np.int64)
            if experiment.every is not None or not counts.any():
                continue
            weights = [float(bucket.weight) for bucket in experiment.buckets]
            fit = goodness_of_fit(counts, weights)
            names = tuple(bucket.name for bucket in experiment.buckets)
            expected = tuple(int(counts.sum()) * weight / SLOTS for weight in weights)
            yield Split(
                experiment.key, names, tuple(counts.tolist()), expected, float(fit.statistic), fit.df, float(fit.p)
            )


def _pair(left: str, right: str, left_codes: Codes, right_codes: Codes) -> Pair:
    both = (left_codes >= 0) & (right_codes >= 0)
    codes = left_codes[both], right_codes[both]
    found = cramers_v(*codes)
    too_few = bool(np.isnan(found.p)) and all(len(np.unique(each)) > 1 for each in codes)
    return Pair(left, right, found.v, found.p, found.df, found.rows, too_few)
