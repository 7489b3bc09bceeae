"""One request's assignment: which bucket of which experiment, in every layer, and why."""

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

from abtest.hashing import encode_unit, slot_of
from abtest.params import Value
from abtest.plan import Bucket, Experiment, Layer, ScenePlan

REASONS: Final = (
    "hash",
    "whitelist",
    "holdout",
    "no_unit",
    "condition",
    "not_started",
    "ended",
    "paused",
    "unallocated",
)
"""Why a layer decided as it did: a bucket comes by `hash` or `whitelist`, all others are the defaults."""

_DEFAULT_LABELS: Final = MappingProxyType({reason: f"default:{reason}" for reason in REASONS})


class Decision(NamedTuple):
    """What one layer decided.

    `experiment` is the one that holds the unit's slot, `bucket` is set only for the enrolled. `encoded` is
    the unit as hashed, `slot` its place in the layer and `bucket_slot` its place in the experiment; each is
    None where the decision fell before it was needed.
    """

    layer: Layer
    reason: str
    encoded: bytes | None = None
    slot: int | None = None
    experiment: Experiment | None = None
    bucket_slot: int | None = None
    bucket: Bucket | None = None

    @property
    def label(self) -> str:
        """`experiment@version/bucket`, or `default:reason`."""
        return _DEFAULT_LABELS[self.reason] if self.bucket is None else self.bucket.label

    @property
    def unit(self) -> str | None:
        """The unit as text."""
        return None if self.encoded is None else self.encoded.decode()


@dataclass(frozen=True, slots=True)
class Assignment:
    """All of one request's decisions.

    `params` holds a value for every parameter of the scene and is read-only. `buckets` (layer to label) is
    a dictionary of the caller's own, ready for an answer. `decisions` has one entry per layer.
    """

    params: Mapping[str, Value]
    buckets: dict[str, str]
    decisions: tuple[Decision, ...]


def assign(
    plan: ScenePlan, units: Mapping[str, str | int | None], context: Mapping[str, object], now: float
) -> Assignment:
    """Decide every layer of a scene; see `Experiments.assign`."""
    encoded: dict[str, bytes | None] = {}
    held = False
    holdout = plan.holdout
    if holdout is not None:
        key = encoded[holdout.unit] = encode_unit(units.get(holdout.unit))
        held = key is not None and slot_of(holdout.prefix, key) < holdout.slots
    params = dict(plan.defaults)
    buckets: dict[str, str] = {}
    decisions: list[Decision] = []
    for layer in plan.layers:
        unit = layer.unit
        if unit in encoded:
            key = encoded[unit]
        else:
            key = encoded[unit] = encode_unit(units.get(unit))
        decision = Decision(layer, "holdout", key) if held else decide(layer, key, context, now)
        bucket = decision.bucket
        if bucket is None:
            buckets[layer.name] = _DEFAULT_LABELS[decision.reason]
        else:
            buckets[layer.name] = bucket.label
            params.update(bucket.values)
        decisions.append(decision)
    return Assignment(MappingProxyType(params), buckets, tuple(decisions))


def decide(layer: Layer, key: bytes | None, context: Mapping[str, object], now: float) -> Decision:
    """Decide one layer for an encoded unit that isn't held out."""
    if key is None:
        return Decision(layer, "no_unit")
    slot = slot_of(layer.prefix, key)
    tester = layer.testers.get(key)
    if tester is not None:
        experiment, bucket = tester
        if experiment.end is None or now < experiment.end:
            return Decision(layer, "whitelist", key, slot, experiment, slot_of(experiment.prefix, key), bucket)
    holder = layer.table[slot]
    if holder is None:
        return Decision(layer, "unallocated", key, slot)
    obstacle = _obstacle(holder, context, now)
    if obstacle is not None:
        return Decision(layer, obstacle, key, slot, holder)
    bucket_slot = slot_of(holder.prefix, key)
    bucket = holder.buckets[bisect_right(holder.bounds, bucket_slot)]
    return Decision(layer, "hash", key, slot, holder, bucket_slot, bucket)


def _obstacle(experiment: Experiment, context: Mapping[str, object], now: float) -> str | None:
    if experiment.resting is not None:
        return experiment.resting
    if experiment.start is not None and now < experiment.start:
        return "not_started"
    if experiment.end is not None and now >= experiment.end:
        return "ended"
    if experiment.when is not None and not experiment.when.holds(context):
        return "condition"
    return None
