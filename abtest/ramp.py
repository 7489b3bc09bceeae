"""The ramp rule: while an experiment runs, its slots may only grow, and nothing else about it may change.

An experiment that runs, under the same name and version, before and after a change keeps everybody where
they are. Stopping it (any other status, or taking it out) and starting a new version are always allowed;
so are changed whitelists, which move only the units that they name.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

from abtest.hashing import SLOTS
from abtest.plan import Bucket, Experiment, Holdout, Layer, ScenePlan
from abtest.problems import Path, Problem

_STAY = "Give the change a new version (@{next}), or set the status to ended first."


def refused_changes(old: Mapping[str, ScenePlan], new: Mapping[str, ScenePlan]) -> list[Problem]:
    """Return one problem for each change that would move enrolled units; paths are those of `new`."""
    problems: list[Problem] = []
    for name, plan in new.items():
        if name in old:
            problems += _scene(old[name], plan)
    return problems


def _scene(old: ScenePlan, new: ScenePlan) -> Iterator[Problem]:
    before = {key: (layer, each) for layer in old.layers for key, each in _running(layer)}
    kept = False
    for layer in new.layers:
        for (name, key), experiment in _running(layer):
            path: Path = ("scenes", new.name, "layers", name, "experiments", key)
            if (name, key) in before:
                kept = True
                yield from _experiment(*before[name, key], layer, experiment, path)
            else:
                yield from _strayed(old, new, experiment, path)
    if kept:
        yield from _holdout(old.holdout, new.holdout, ("scenes", new.name, "holdout"))


def _running(layer: Layer) -> Iterator[tuple[tuple[str, str], Experiment]]:
    for experiment in layer.experiments:
        if experiment.status == "running":
            yield (layer.name, experiment.key), experiment


def _strayed(old: ScenePlan, new: ScenePlan, experiment: Experiment, path: Path) -> Iterator[Problem]:
    """Report an experiment that ran in another layer, and runs there no longer."""
    still = {name for layer in new.layers for name, _ in _running(layer)}
    for layer in old.layers:
        for (name, key), before in _running(layer):
            if key == experiment.key and (name, key) not in still:
                change = f"moved from the layer {name} to {experiment.layer}"
                yield _reshuffle(path, experiment, change, _size(before), "layer slots")


def _experiment(
    layer_before: Layer, before: Experiment, layer: Layer, after: Experiment, path: Path
) -> Iterator[Problem]:
    held = _size(before)
    above: Path = path[:4]
    if layer.unit != layer_before.unit:
        change = f"the unit of its layer changed from {layer_before.unit} to {layer.unit}"
        yield _reshuffle((*above, "unit"), after, change, held, "layer slots")
    elif layer.salt != layer_before.salt:
        change = f"the salt of its layer changed from {layer_before.salt!r} to {layer.salt!r}"
        yield _reshuffle((*above, "salt"), after, change, held, "layer slots")
    else:
        yield from _lost_slots(before, layer, after, path)
    if after.salt != before.salt:
        change = f"its salt changed from {before.salt!r} to {after.salt!r}"
        yield _reshuffle((*path, "salt"), after, change, SLOTS, "bucket slots")
    else:
        yield from _moved_buckets(before, after, (*path, "buckets"))
    if _condition(after) != _condition(before):
        change = f"its condition changed from {_condition(before)} to {_condition(after)}"
        yield _reshuffle((*path, "when"), after, change, held, "layer slots")
    yield from _changed_buckets(before, after, (*path, "buckets"))


def _lost_slots(before: Experiment, layer: Layer, after: Experiment, path: Path) -> Iterator[Problem]:
    moved: Counter[str] = Counter()
    for low, high in before.slots:
        for slot in range(low, high):
            holder = layer.table[slot]
            if holder is not after:
                moved["the defaults" if holder is None or holder.resting else holder.key] += 1
    if moved:
        moves = ", ".join(f"{count} from {after.key} to {target}" for target, count in moved.items())
        yield _refusal((*path, "slots"), after, "its slots shrank", sum(moved.values()), "layer slots", moves)


def _moved_buckets(before: Experiment, after: Experiment, path: Path) -> Iterator[Problem]:
    pairs = zip(_bucket_table(before), _bucket_table(after), strict=True)
    moved = Counter((was, now) for was, now in pairs if was != now)
    if moved:
        moves = ", ".join(f"{count} from {was} to {now}" for (was, now), count in moved.items())
        yield _refusal(path, after, "its weights changed", moved.total(), "bucket slots", moves)


def _changed_buckets(before: Experiment, after: Experiment, path: Path) -> Iterator[Problem]:
    buckets: dict[str, Bucket] = {bucket.name: bucket for bucket in before.buckets}
    for bucket in after.buckets:
        was = buckets.get(bucket.name)
        if was is None:
            continue
        where = (*path, bucket.name)
        if bucket.values != was.values:
            moves = f"{was.weight} from {bucket.name} {dict(was.values)} to {bucket.name} {dict(bucket.values)}"
            change = f"what {bucket.name} sets changed"
            yield _refusal((*where, "set"), after, change, was.weight, "bucket slots", moves)
        if bucket.control != was.control:
            moves = f"{was.weight} from one side of the comparison to the other"
            change = f"the control changed at {bucket.name}"
            yield _refusal((*where, "control"), after, change, was.weight, "bucket slots", moves)


def _holdout(before: Holdout | None, after: Holdout | None, path: Path) -> Iterator[Problem]:
    """A holdout that grows takes enrolled units away; one that shrinks only lets new ones in."""
    if after is None:
        return
    grown = after.slots - (before.slots if before else 0)
    if before is not None and after.unit != before.unit:
        wrong = f"the unit of the holdout changed from {before.unit} to {after.unit} while experiments run"
        moves = f"{after.slots} of {SLOTS:,} slots would move users from their buckets to the holdout"
        yield Problem((*path, "unit"), f"{wrong}: {moves}. Expected {before.unit}.")
    elif grown > 0:
        wrong = "the holdout grew while experiments run"
        moves = f"{grown} of {SLOTS:,} slots would move users from their buckets to the holdout"
        yield Problem((*path, "slots"), f"{wrong}: {moves}. Expected at most {after.slots - grown}.")


def _reshuffle(path: Path, experiment: Experiment, change: str, count: int, what: str) -> Problem:
    """Everybody who was in these slots is dealt anew, so that only the whole can be counted."""
    buckets = ", ".join(bucket.name for bucket in experiment.buckets)
    moves = f"{count} from any of {buckets} to any other or to the defaults"
    return _refusal(path, experiment, change, count, what, moves)


def _refusal(path: Path, experiment: Experiment, change: str, count: int, what: str, moves: str) -> Problem:
    wrong = f"{experiment.key} is running and {change}"
    fix = _STAY.format(next=experiment.version + 1)
    return Problem(path, f"{wrong}: {count} of {SLOTS:,} {what} would move users, {moves}. {fix}")


def _bucket_table(experiment: Experiment) -> list[str]:
    return [bucket.name for bucket in experiment.buckets for _ in range(bucket.weight)]


def _size(experiment: Experiment) -> int:
    return sum(high - low for low, high in experiment.slots)


def _condition(experiment: Experiment) -> str:
    return "none" if experiment.when is None else repr(experiment.when.text)
