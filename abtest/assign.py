"""One request's assignment: which bucket of which experiment, in every layer, and why."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from abtest.decide import decide, enter, lives, outside, whitelisted
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
    if held:
        found = [outside(layer, "holdout", encoded[layer.unit]) for layer in plan.layers]
    elif plan.domains is None:
        found = decide(plan.layers, encoded, context, now)
    else:
        found = _in_domains(plan.layers, plan.domains, encoded, context, now)
    if forced:
        found = _forced(plan, forced, encoded, found)
    buckets: dict[str, str] = {}
    for decision in found:
        bucket = decision[6]
        if bucket is None:
            buckets[decision[0].name] = DEFAULT_LABELS[decision[1]]
        else:
            buckets[decision[0].name] = bucket.label
            params |= bucket.settings
    read_only: Mapping[str, Value] = MappingProxyType(params)
    return _new(Assignment, (read_only, buckets, tuple(found)))


def _is_held(holdout: Holdout, encoded: Mapping[str, bytes | None]) -> bool:
    key = encoded[holdout.unit]
    return key is not None and murmur3_32(holdout.prefix + key, 0) * SLOTS >> 32 < holdout.slots


def _in_domains(
    layers: Sequence[Layer],
    domains: Domains,
    encoded: Mapping[str, bytes | None],
    context: Mapping[str, object],
    now: float,
) -> list[Found]:
    key = encoded[domains.unit]
    domain, tester = (None, None) if key is None else placed(domains, key, now)
    slot, holder = None, None
    if domain is not None and key is not None:
        if not domain.exclusive:
            return decide(layers, encoded, context, now)
        slot = slot_of(domain.prefix, key)
        holder = domain.table[slot] if tester is None else tester[0]
    found: list[Found] = []
    for layer in layers:
        own = encoded[layer.unit]
        if own is None or key is None:
            found.append(outside(layer, "no_unit", own))
        elif holder is None or slot is None:
            found.append(outside(layer, "unallocated", own, slot))
        elif holder.layer != layer.name:
            found.append(outside(layer, "other_domain", own, slot))
        elif tester is not None:
            found.append(whitelisted(layer, own, slot, *tester))
        else:
            found.append(enter(layer, own, slot, holder, context, now))
    return found


def placed(domains: Domains, key: bytes, now: float) -> tuple[Domain | None, tuple[Experiment, Bucket] | None]:
    """Return a unit's domain, and what an exclusive experiment's whitelist gives it.

    A tester belongs to the domain of the experiment, so that the exclusive ones stay so.
    """
    tester = domains.testers.get(key)
    if tester is not None and (tester[1] is None or lives(tester[1][0], now)):
        return tester
    return domains.table[slot_of(domains.prefix, key)], None


class ForcedError(ValueError):
    """What was asked to be forced isn't there; `layer` is the name that was asked for."""

    def __init__(self, message: str, layer: str) -> None:
        super().__init__(message)
        self.layer = layer


def _forced(
    plan: ScenePlan, forced: Mapping[str, str], encoded: Mapping[str, bytes | None], found: list[Found]
) -> list[Found]:
    """Return the decisions with those that were forced in their places. Raises ForcedError."""
    at = {layer.name: number for number, layer in enumerate(plan.layers)}
    found = found.copy()
    for name, label in forced.items():
        if name not in at:
            raise ForcedError(f"the scene {plan.name} has no layer {name!r}. {nearest(name, list(at))}", name)
        layer = plan.layers[at[name]]
        pairs = {b.label: (e, b) for e in layer.experiments for b in e.buckets}
        if label not in pairs and label.partition(":")[0] != "default":
            raise ForcedError(f"the layer {name} has no bucket {label!r}. {nearest(label, (*pairs, 'default'))}", name)
        found[at[name]] = _force(layer, encoded[layer.unit], pairs.get(label))
    return found


def _force(layer: Layer, key: bytes | None, wanted: tuple[Experiment, Bucket] | None) -> Found:
    slot = None if key is None else slot_of(layer.prefix, key)
    if wanted is None:
        return (layer, "forced", key, slot, None, None, None, True, None)
    experiment, bucket = wanted
    bucket_slot = None if key is None else slot_of(experiment.prefix, key)
    return (layer, "forced", key, slot, experiment, bucket_slot, bucket, True, None)
