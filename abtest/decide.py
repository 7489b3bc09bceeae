"""What layers decide about one unit: whitelist, slot, time, condition, bucket."""

from collections.abc import Mapping, Sequence

from abtest.decision import Found
from abtest.hashing import SLOTS, murmur3_32, slot_of
from abtest.plan import Bucket, Experiment, Layer


def decide(
    layers: Sequence[Layer], encoded: Mapping[str, bytes | None], context: Mapping[str, object], now: float
) -> list[Found]:
    """Decide all layers in the overlapping domain, for encoded units that aren't held out.

    What most requests meet is written out here: a call for each layer costs as much as its hash.
    """
    found: list[Found] = []
    for layer in layers:
        key = encoded[layer.unit]
        if key is None:
            found.append(outside(layer, "no_unit"))
            continue
        slot = murmur3_32(layer.prefix + key, 0) * SLOTS >> 32
        if layer.testers:
            tester = layer.testers.get(key)
            if tester is not None and lives(tester[0], now):
                found.append(whitelisted(layer, key, slot, *tester))
                continue
        holder = layer.table[slot]
        if holder is None:
            found.append((layer, "unallocated", key, slot, None, None, None, False, None))
        elif holder.steady:
            bucket_slot = murmur3_32(holder.prefix + key, 0) * SLOTS >> 32
            bucket = holder.buckets[holder.split[bucket_slot]]
            found.append((layer, "hash", key, slot, holder, bucket_slot, bucket, False, None))
        else:
            found.append(enter(layer, key, slot, holder, context, now))
    return found


def enter(layer: Layer, key: bytes, slot: int, holder: Experiment, context: Mapping[str, object], now: float) -> Found:
    """Decide about the unit whose slot `holder` has: its bucket, or what keeps it out."""
    reason = obstacle(holder, context, now)
    if reason is not None:
        return (layer, reason, key, slot, holder, None, None, False, None)
    number = None if holder.every is None else int(now // holder.every)
    split = key if number is None else b"%d" % number
    bucket_slot = murmur3_32(holder.prefix + split, 0) * SLOTS >> 32
    bucket = holder.buckets[holder.split[bucket_slot]]
    return (layer, "hash", key, slot, holder, bucket_slot, bucket, False, number)


def outside(layer: Layer, reason: str, key: bytes | None = None, slot: int | None = None) -> Found:
    """Return the decision for the defaults of a unit that no experiment of the layer has."""
    return (layer, reason, key, slot, None, None, None, False, None)


def whitelisted(layer: Layer, key: bytes, slot: int, experiment: Experiment, bucket: Bucket) -> Found:
    """Return the decision that a whitelist makes."""
    return (layer, "whitelist", key, slot, experiment, slot_of(experiment.prefix, key), bucket, False, None)


def lives(experiment: Experiment, now: float) -> bool:
    """Say whether the end hasn't come yet."""
    return experiment.end is None or now < experiment.end


def obstacle(experiment: Experiment, context: Mapping[str, object], now: float) -> str | None:
    """Return the reason why nobody enters now, or this request doesn't."""
    if experiment.resting is not None:
        return experiment.resting
    if experiment.start is not None and now < experiment.start:
        return "not_started"
    if experiment.end is not None and now >= experiment.end:
        return "ended"
    if experiment.when is not None and not experiment.when.holds(context, now):
        return "condition"
    return None
