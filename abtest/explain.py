"""Why one request is assigned as it is: every salt, hash and slot, and where each parameter's value comes from."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from abtest.assign import assign, placed
from abtest.decide import lives
from abtest.decision import Decision
from abtest.hashing import SLOTS, encode_unit, murmur3_32, salt_prefix
from abtest.params import Value
from abtest.plan import Bucket, Experiment, Layer, ScenePlan

Units = Mapping[str, str | int | None]


@dataclass(frozen=True, slots=True)
class Hashed:
    """One hash: `slot` is `(hash * 10000) >> 32`, and `hash` the murmur3 of `salt:unit`."""

    salt: str
    unit_type: str
    unit: str
    hash: int
    slot: int


@dataclass(frozen=True, slots=True)
class HoldoutExplanation:
    """Whether the unit is held out: its slot is below `slots`. `hashed` is None where there is no unit."""

    hashed: Hashed | None
    slots: int
    held: bool


@dataclass(frozen=True, slots=True)
class DomainExplanation:
    """In which domain the unit is (None: in none), and whether a whitelist put it there."""

    hashed: Hashed | None
    name: str | None
    exclusive: bool
    whitelisted: bool


@dataclass(frozen=True, slots=True)
class LayerExplanation:
    """One layer's decision.

    `place` is the first hash, in the layer or in its exclusive domain, `holder` the experiment that has that
    slot. What follows is of the experiment decided about, which a whitelist may have named: `meets` is the
    outcome of its condition (None: it has none), `split` the second hash.
    """

    layer: str
    unit_type: str
    unit: str | None
    reason: str
    label: str
    forced: bool
    place: Hashed | None
    holder: str | None
    experiment: str | None
    status: str | None
    when: str | None
    meets: bool | None
    start: float | None
    end: float | None
    split: Hashed | None
    bucket: str | None


@dataclass(frozen=True, slots=True)
class ParamExplanation:
    """A parameter's value; `source` is `default`, `launch` or `experiment`, `by` its launch or its bucket."""

    name: str
    value: Value
    source: str
    by: str | None


@dataclass(frozen=True, slots=True)
class Explanation:
    """All about one request; `now` in epoch seconds."""

    scene: str
    now: float
    holdout: HoldoutExplanation | None
    domain: DomainExplanation | None
    layers: tuple[LayerExplanation, ...]
    params: tuple[ParamExplanation, ...]

    def as_json(self) -> dict[str, Any]:
        """Return plain nested data."""
        return asdict(self)


def explain(
    plan: ScenePlan, units: Units, context: Mapping[str, object], now: float, forced: Mapping[str, str]
) -> Explanation:
    """Explain one request; see `Experiments.explain`."""
    assignment = assign(plan, units, context, now, forced)
    holdout = None
    if plan.holdout is not None:
        hashed = _hashed(plan.holdout.salt, plan.holdout.unit, encode_unit(units.get(plan.holdout.unit)))
        held = hashed is not None and hashed.slot < plan.holdout.slots
        holdout = HoldoutExplanation(hashed, plan.holdout.slots, held)
    domain = _domain(plan, units, now)
    layers = tuple(
        _layer(plan, domain, decision, encode_unit(units.get(decision.layer.unit)), context, now)
        for decision in assignment.decisions
    )
    launched = {}
    if holdout is None or not holdout.held:
        for layer in plan.layers:
            for launch in layer.launches:
                if launch.holds(context, now):
                    launched.update(dict.fromkeys(launch.values, launch.key))
    enrolled = {name: each.bucket.label for each in assignment.decisions if each.bucket for name in each.bucket.values}
    params = tuple(_param(name, value, launched, enrolled) for name, value in assignment.params.items())
    return Explanation(plan.name, now, holdout, domain, layers, params)


def _param(name: str, value: Value, launched: Mapping[str, str], enrolled: Mapping[str, str]) -> ParamExplanation:
    if name in enrolled:
        return ParamExplanation(name, value, "experiment", enrolled[name])
    if name in launched:
        return ParamExplanation(name, value, "launch", launched[name])
    return ParamExplanation(name, value, "default", None)


def _domain(plan: ScenePlan, units: Units, now: float) -> DomainExplanation | None:
    domains = plan.domains
    if domains is None:
        return None
    key = encode_unit(units.get(domains.unit))
    if key is None:
        return DomainExplanation(None, None, False, False)
    domain, _ = placed(domains, key, now)
    hashed = _hashed(domains.salt, domains.unit, key)
    whitelisted = key in domains.testers and domains.testers[key][0] is domain
    if domain is None:
        return DomainExplanation(hashed, None, False, False)
    return DomainExplanation(hashed, domain.name, domain.exclusive, whitelisted)


def _layer(
    plan: ScenePlan,
    domain: DomainExplanation | None,
    decision: Decision,
    key: bytes | None,
    context: Mapping[str, object],
    now: float,
) -> LayerExplanation:
    layer = decision.layer
    salt, table = layer.salt, layer.table
    if domain is not None and domain.exclusive and domain.name is not None:
        exclusive = plan.domain(domain.name)
        assert exclusive is not None
        salt, table = exclusive.salt, exclusive.table
    place = _hashed(salt, layer.unit, key)
    holder = None if place is None else table[place.slot]
    experiment = decision.experiment or _tested(layer, key, now) or holder
    when = experiment.when if experiment else None
    return LayerExplanation(
        layer=layer.name,
        unit_type=decision.unit_type,
        unit=None if key is None else key.decode(),
        reason=decision.reason,
        label=decision.label,
        forced=decision.forced,
        place=place,
        holder=holder.key if holder else None,
        experiment=experiment.key if experiment else None,
        status=experiment.status if experiment else None,
        when=when.text if when else None,
        meets=when.holds(context, now) if when else None,
        start=experiment.start if experiment else None,
        end=experiment.end if experiment else None,
        split=_split(experiment, layer, key, decision, now) if experiment else None,
        bucket=decision.bucket.name if decision.bucket else None,
    )


def _tested(layer: Layer, key: bytes | None, now: float) -> Experiment | None:
    """Return the experiment that would have had the unit by its whitelist, had the holdout not come first."""
    tester: tuple[Experiment, Bucket] | None = None if key is None else layer.testers.get(key)
    return tester[0] if tester is not None and lives(tester[0], now) else None


def _split(experiment: Experiment, layer: Layer, key: bytes | None, decision: Decision, now: float) -> Hashed | None:
    if experiment.every is None or decision.reason in ("whitelist", "forced"):
        return _hashed(experiment.salt, layer.unit, key)
    return _hashed(experiment.salt, "slice", b"%d" % int(now // experiment.every))


def _hashed(salt: str, unit_type: str, key: bytes | None) -> Hashed | None:
    if key is None:
        return None
    found = murmur3_32(salt_prefix(salt) + key, 0)
    return Hashed(salt, unit_type, key.decode(), found, (found * SLOTS) >> 32)
