"""What may not change about an experiment once it has run: each change with the count of those whom it would move."""

import tokenize
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import StringIO
from types import MappingProxyType
from typing import Final

from abtest.hashing import SLOTS
from abtest.plan import Bucket, Experiment, Layer
from abtest.problems import Path, Problem
from abtest.slots import size

STATES: Final[Mapping[str, str]] = MappingProxyType(
    {"running": "is running", "paused": "is paused", "ended": "has ended"}
)


@dataclass(frozen=True, slots=True)
class Change:
    """One experiment and its layer, before and after."""

    layer_before: Layer
    before: Experiment
    layer: Layer
    after: Experiment

    @property
    def comparable(self) -> bool:
        """Whether a slot holds the same units before and after."""
        same = self.layer.unit == self.layer_before.unit and self.after.domain == self.before.domain
        return same and (self.after.domain is not None or self.layer.salt == self.layer_before.salt)

    @property
    def what(self) -> str:
        """What its slots are called."""
        return "layer slots" if self.after.domain is None else "domain slots"

    def frozen(self, now: float | None) -> Iterator[Problem]:
        """Yield a problem for each change other than of slots."""
        before, after, path = self.before, self.after, self.after.place
        yield from self._place()
        if after.salt != before.salt:
            change = f"its salt changed from {before.salt!r} to {after.salt!r}"
            yield reshuffle((*path, "salt"), before, change, SLOTS, "bucket slots")
        elif after.every != before.every:
            change = f"its time slices changed from {_length(before)} to {_length(after)}"
            yield reshuffle((*path, "slices"), before, change, SLOTS, "bucket slots")
        else:
            yield from moved_buckets(before, after, (*path, "buckets"))
        held = size(before.slots)
        if not _same_condition(before, after):
            change = f"its condition changed from {condition(before)} to {condition(after)}"
            yield reshuffle((*path, "when"), before, change, held, self.what)
        elif _types(after) != _types(before):
            change = "an attribute that its condition reads changed its type"
            yield reshuffle((*path, "when"), before, change, held, self.what)
        elif (was := _defaults(before)) != (defaults := _defaults(after)):
            names = ", ".join(sorted({name for name, _ in was ^ defaults}))
            change = f"the default of what its condition reads changed ({names})"
            yield reshuffle((*path, "when"), before, change, held, self.what)
        if _put_off(before.start, after.start, now):
            moves = f"{held} from their buckets to the defaults"
            yield refusal((*path, "start"), before, "its start was put off", held, self.what, moves)
        yield from _changed_buckets(before, after, (*path, "buckets"))

    def _place(self) -> Iterator[Problem]:
        before, after, layer = self.before, self.after, self.layer
        held = size(before.slots)
        if layer.unit != self.layer_before.unit:
            change = f"the unit of its layer changed from {self.layer_before.unit} to {layer.unit}"
            yield reshuffle((*layer.place, "unit"), before, change, held, self.what)
        elif after.domain != before.domain:
            names = [each or "the overlapping one" for each in (before.domain, after.domain)]
            change = f"its domain changed from {names[0]} to {names[1]}"
            yield reshuffle((*after.place, "domain"), before, change, held, self.what)
        elif after.domain is None and layer.salt != self.layer_before.salt:
            change = f"the salt of its layer changed from {self.layer_before.salt!r} to {layer.salt!r}"
            yield reshuffle((*layer.place, "salt"), before, change, held, self.what)


def moved_buckets(before: Experiment, after: Experiment, path: Path) -> Iterator[Problem]:
    """Yield the problem of bucket slots that have another bucket."""
    pairs = zip(bucket_table(before), bucket_table(after), strict=True)
    moved = Counter((was, now) for was, now in pairs if was != now)
    if moved:
        moves = ", ".join(f"{count} from {was} to {now}" for (was, now), count in moved.items())
        yield refusal(path, before, "its weights changed", moved.total(), "bucket slots", moves)


def reshuffle(path: Path, before: Experiment, change: str, count: int, what: str) -> Problem:
    """Return the problem of units that are all dealt anew, so that only the whole can be counted."""
    buckets = ", ".join(bucket.name for bucket in before.buckets)
    moves = f"{count} from any of {buckets} to any other or to the defaults"
    return refusal(path, before, change, count, what, moves)


def refusal(path: Path, before: Experiment, change: str, count: int, what: str, moves: str) -> Problem:
    """Return the problem of one change, with the ways out."""
    wrong = f"{before.key} {STATES[before.status]} and {change}"
    ways = "" if before.status == "ended" else ", or set the status to ended"
    fix = f"Give the change a new version (@{before.version + 1}){ways}."
    return Problem(path, f"{wrong}: {count} of {SLOTS:,} {what} would move users, {moves}. {fix}")


def bucket_table(experiment: Experiment) -> list[str]:
    """Return the names of the buckets of all 10,000 slots."""
    return [bucket.name for bucket in experiment.buckets for _ in range(bucket.weight)]


def condition(experiment: Experiment) -> str:
    """Return the condition as messages quote it."""
    return "none" if experiment.when is None else repr(experiment.when.text)


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
            yield refusal((*where, "set"), before, change, was.weight, "bucket slots", moves)
        if bucket.control != was.control:
            moves = f"{was.weight} from one side of the comparison to the other"
            change = f"the control changed at {bucket.name}"
            yield refusal((*where, "control"), before, change, was.weight, "bucket slots", moves)


def _put_off(before: float | None, after: float | None, now: float | None) -> bool:
    """Say whether what may have begun would begin later."""
    if after is None or (before is not None and after <= before):
        return False
    return now is None or ((before is None or before <= now) and after > now)


def _length(experiment: Experiment) -> str:
    return "none" if experiment.every is None else f"{experiment.every} s"


def _same_condition(before: Experiment, after: Experiment) -> bool:
    """Say whether both ask the same; how it is laid out doesn't matter."""
    if before.when is None or after.when is None:
        return before.when is after.when
    return before.when.text == after.when.text or _words(before.when.text) == _words(after.when.text)


def _words(text: str) -> list[str]:
    """Return the words of a condition that compiled: the language is written in Python's words."""
    spaces = (tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT)
    return [each.string for each in tokenize.generate_tokens(StringIO(f"({text})").readline) if each.type not in spaces]


def _types(experiment: Experiment) -> tuple[str, ...]:
    return () if experiment.when is None else tuple(kind for _, kind, _ in experiment.when.attributes)


def _defaults(experiment: Experiment) -> frozenset[tuple[str, object]]:
    return frozenset(() if experiment.when is None else experiment.when.defaults)
