"""Who would move from where to where if one configuration followed another: every slot is looked at.

Hashes of different salts or units are independent of each other, so that what two of them decide together
is the product of what each decides; under one hash the 10,000 slots are walked side by side. Everybody is
taken to meet every condition, and whitelists are left out: they name their units.
"""

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, TypeVar

from abtest.decide import lives
from abtest.experiments import Experiments
from abtest.hashing import SLOTS
from abtest.plan import Experiment, Layer, ScenePlan
from abtest.problems import Problem
from abtest.ramp import judge

Cell = tuple[str, tuple[tuple[str, object], ...]]
"""Where a unit is: the label of its bucket and what that sets."""

OUTSIDE: Final[Cell] = ("default", ())

_T = TypeVar("_T", bound=Hashable)
_WHOLE: Final = SLOTS * SLOTS
_PAIR: Final = (OUTSIDE, OUTSIDE)


@dataclass(frozen=True, slots=True)
class Move:
    """A share of a layer's units that would be elsewhere.

    `source` and `target` are `experiment@version/bucket` or `default`; `kind` is `enter`, `leave`, `move`, or
    `values` where the bucket is the same and sets something else.
    """

    scene: str
    layer: str
    source: str
    target: str
    kind: str
    share: float


@dataclass(frozen=True, slots=True)
class Moves:
    """All moves, the largest of each layer first, and the rule's verdict; problems' paths are the new document's."""

    moves: tuple[Move, ...]
    refusals: tuple[Problem, ...]
    warnings: tuple[Problem, ...]

    def as_json(self) -> dict[str, Any]:
        """Return plain nested data."""
        return asdict(self)


def moves(old: Experiments, new: Experiments, now: float | None = None, *, shrink: bool = False) -> Moves:
    """Compare two configurations; `now` and `shrink` are those of `abtest.ramp.judge`.

    With `now`, what hasn't started or is over by then has nobody; without it, starts and ends aren't looked at.
    """
    verdict = judge(old.scenes, new.scenes, now, shrink=shrink)
    found: list[Move] = []
    for name in sorted({*old.scenes, *new.scenes}):
        before, after = (each.scenes.get(name) for each in (old, new))
        names = dict.fromkeys(layer.name for plan in (before, after) if plan for layer in plan.layers)
        for layer in names:
            found += _layer_moves(name, layer, _Side.of(before, layer, now), _Side.of(after, layer, now))
    return Moves(tuple(found), tuple(verdict.refusals), tuple(verdict.warnings))


@dataclass(frozen=True, slots=True)
class _Side:
    """A layer of one configuration, None where it isn't there."""

    plan: ScenePlan | None
    layer: Layer | None
    now: float | None

    @classmethod
    def of(cls, plan: ScenePlan | None, name: str, now: float | None) -> "_Side":
        layers = {layer.name: layer for layer in plan.layers} if plan else {}
        return cls(plan, layers.get(name), now)

    def held(self) -> tuple[Hashable, Sequence[bool]]:
        """The holdout's hash, and who is held out."""
        holdout = self.plan.holdout if self.plan else None
        if holdout is None:
            return None, [False] * SLOTS
        return (holdout.salt, holdout.unit), [slot < holdout.slots for slot in range(SLOTS)]

    def domains(self) -> tuple[Hashable, Sequence[str | None]]:
        """The hash of the domains, and the name of each slot's: "" is the overlapping one, None is none."""
        domains = self.plan.domains if self.plan else None
        if domains is None:
            return None, [""] * SLOTS
        return (domains.salt, domains.unit), [
            None if each is None else each.name if each.exclusive else "" for each in domains.table
        ]

    def space(self, domain: str | None) -> tuple[Hashable, Sequence[Experiment | None]]:
        """The hash of the layer inside of a domain, and the enrolling experiment of each slot."""
        if self.plan is None or self.layer is None or domain is None:
            return None, [None] * SLOTS
        exclusive = self.plan.domain(domain or None)
        salt, table = (exclusive.salt, exclusive.table) if exclusive else (self.layer.salt, self.layer.table)
        mine = self.layer.name
        enrolling = {each: each.layer == mine and self._enrols(each) for each in set(table) if each}
        return (salt, self.layer.unit), [each if each and enrolling[each] else None for each in table]

    def _enrols(self, experiment: Experiment) -> bool:
        if experiment.resting or self.now is None:
            return not experiment.resting
        return (experiment.start is None or experiment.start <= self.now) and lives(experiment, self.now)

    def cells(self, experiment: Experiment | None) -> tuple[Hashable, Sequence[Cell]]:
        """The second hash, and where each of its slots leads."""
        if experiment is None or self.layer is None:
            return None, [OUTSIDE] * SLOTS
        unit = self.layer.unit if experiment.every is None else experiment.every
        cells = [(bucket.label, tuple(sorted(bucket.settings.items()))) for bucket in experiment.buckets]
        weights = [bucket.weight for bucket in experiment.buckets]
        return (experiment.salt, unit), [
            cell for cell, weight in zip(cells, weights, strict=True) for _ in range(weight)
        ]


def _layer_moves(scene: str, name: str, old: _Side, new: _Side) -> Iterator[Move]:
    total: Counter[tuple[Cell, Cell]] = Counter()
    holdouts = _together(old.held(), new.held())
    for (before, after), many in _together(old.domains(), new.domains()).items():
        for pair, count in _inside(old, new, before, after).items():
            total[pair] += many * count
    shares: Counter[tuple[Cell, Cell]] = Counter()
    for (was_held, is_held), many in holdouts.items():
        for (source, target), count in total.items():
            shares[OUTSIDE if was_held else source, OUTSIDE if is_held else target] += many * count
    for (source, target), count in sorted(shares.items(), key=lambda item: (-item[1], item[0])):
        if source != target and count:
            yield Move(scene, name, source[0], target[0], _kind(source, target), count / _WHOLE**4)


def _kind(source: Cell, target: Cell) -> str:
    if source[0] == target[0]:
        return "values"
    if source == OUTSIDE:
        return "enter"
    return "leave" if target == OUTSIDE else "move"


def _inside(old: _Side, new: _Side, before: str | None, after: str | None) -> Counter[tuple[Cell, Cell]]:
    """Return pairs of cells within two domains, in parts of `_WHOLE` squared."""
    pairs: Counter[tuple[Cell, Cell]] = Counter()
    for (one, two), many in _together(old.space(before), new.space(after)).items():
        if one is None and two is None:
            pairs[_PAIR] += many * _WHOLE
            continue
        for pair, count in _together(old.cells(one), new.cells(two)).items():
            pairs[pair] += many * count
    return pairs


def _together(old: tuple[Hashable, Sequence[_T]], new: tuple[Hashable, Sequence[_T]]) -> Counter[tuple[_T, _T]]:
    """Return how often two outcomes meet, in parts of `_WHOLE`; a hash of None decides nothing."""
    (hash_before, before), (hash_after, after) = old, new
    if hash_before == hash_after:
        return Counter({pair: count * SLOTS for pair, count in Counter(zip(before, after, strict=True)).items()})
    ones, others = Counter(before), Counter(after)
    return Counter({(one, two): many * count for one, many in ones.items() for two, count in others.items()})
