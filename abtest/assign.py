"""One request's assignment: which bucket of which experiment, in every layer, and why."""

from collections.abc import Mapping
from types import MappingProxyType

from abtest.decide import decide, enter, lives, whitelisted
from abtest.decision import DEFAULT_LABELS, Assignment, Found
from abtest.hashing import SLOTS, encode_unit, murmur3_32, slot_of
from abtest.params import Value
from abtest.plan import Bucket, Domain, Domains, Experiment, Holdout, Layer, ScenePlan
from abtest.problems import nearest

Units = Mapping[str, str | int | None]
"""What is known of each type of unit."""

# A named tuple's own constructor takes arguments by name, and twice the time.
_new = tuple.__new__


def assign(
    plan: ScenePlan, units: Units, context: Mapping[str, object], now: float, forced: Mapping[str, str]
) -> Assignment:
    """Decide every layer of a scene; see `Experiments.assign`."""
    encoded: dict[str, bytes | None] = {}
    for unit in plan.units:
        encoded[unit] = encode_unit(units.get(unit))
    held = plan.holdout is not None and _is_held(plan.holdout, encoded)
    # A mapping proxy's own copy, which its type doesn't have: dict() of one takes longer.
    params: dict[str, Value] = (plan.defaults if held else plan.launched).copy()  # type: ignore[attr-defined]
    if plan.launches and not held:
        for launch in plan.launches:
            if launch.holds(context, now):
                params |= launch.settings
    wanted = _wanted(plan, forced) if forced else None
    place = _Place(plan.domains, encoded, now) if plan.domains is not None and not held else None
    buckets: dict[str, str] = {}
    found: list[Found] = []
    for layer in plan.layers:
        key = encoded[layer.unit]
        if wanted is not None and layer.name in wanted:
            decision = _force(layer, key, wanted[layer.name])
        elif held:
            decision = _out(layer, "holdout", key)
        elif key is None:
            decision = _out(layer, "no_unit")
        elif place is None:
            decision = decide(layer, key, context, now)
        else:
            decision = place.decide(layer, key, context, now)
        bucket = decision[6]
        if bucket is None:
            buckets[layer.name] = DEFAULT_LABELS[decision[1]]
        else:
            buckets[layer.name] = bucket.label
            params |= bucket.settings
        found.append(decision)
    read_only: Mapping[str, Value] = MappingProxyType(params)
    return _new(Assignment, (read_only, buckets, tuple(found)))


def _out(layer: Layer, reason: str, key: bytes | None = None, slot: int | None = None) -> Found:
    return (layer, reason, key, slot, None, None, None, False, None)


def _is_held(holdout: Holdout, encoded: Mapping[str, bytes | None]) -> bool:
    key = encoded[holdout.unit]
    return key is not None and murmur3_32(holdout.prefix + key, 0) * SLOTS >> 32 < holdout.slots


class _Place:
    """Where one unit is among the domains of a scene."""

    def __init__(self, domains: Domains, encoded: Mapping[str, bytes | None], now: float) -> None:
        self.key = encoded[domains.unit]
        self.domain, self.tester = (None, None) if self.key is None else placed(domains, self.key, now)

    def decide(self, layer: Layer, key: bytes, context: Mapping[str, object], now: float) -> Found:
        if self.key is None:
            return _out(layer, "no_unit", key)
        if self.domain is None:
            return _out(layer, "unallocated", key)
        if not self.domain.exclusive:
            return decide(layer, key, context, now)
        slot = slot_of(self.domain.prefix, self.key)
        holder = self.domain.table[slot] if self.tester is None else self.tester[0]
        if holder is None:
            return _out(layer, "unallocated", key, slot)
        if holder.layer != layer.name:
            return _out(layer, "other_domain", key, slot)
        if self.tester is not None:
            return whitelisted(layer, key, slot, *self.tester)
        return enter(layer, key, slot, holder, context, now)


def placed(domains: Domains, key: bytes, now: float) -> tuple[Domain | None, tuple[Experiment, Bucket] | None]:
    """Return a unit's domain, and what an exclusive experiment's whitelist gives it.

    A tester belongs to the domain of the experiment, so that the exclusive ones stay so.
    """
    tester = domains.testers.get(key)
    if tester is not None and (tester[1] is None or lives(tester[1][0], now)):
        return tester
    return domains.table[slot_of(domains.prefix, key)], None


def _wanted(plan: ScenePlan, forced: Mapping[str, str]) -> dict[str, tuple[Experiment, Bucket] | None]:
    """Return what was forced, by layer; None for the defaults."""
    wanted: dict[str, tuple[Experiment, Bucket] | None] = {}
    names = [layer.name for layer in plan.layers]
    for name, label in forced.items():
        if name not in names:
            raise ValueError(f"the scene {plan.name} has no layer {name!r}. {nearest(name, names)}")
        pairs = {b.label: (e, b) for e in plan.layer(name).experiments for b in e.buckets}
        if label not in pairs and label.partition(":")[0] != "default":
            raise ValueError(f"the layer {name} has no bucket {label!r}. {nearest(label, (*pairs, 'default'))}")
        wanted[name] = pairs.get(label)
    return wanted


def _force(layer: Layer, key: bytes | None, wanted: tuple[Experiment, Bucket] | None) -> Found:
    slot = None if key is None else slot_of(layer.prefix, key)
    if wanted is None:
        return (layer, "forced", key, slot, None, None, None, True, None)
    experiment, bucket = wanted
    bucket_slot = None if key is None else slot_of(experiment.prefix, key)
    return (layer, "forced", key, slot, experiment, bucket_slot, bucket, True, None)
