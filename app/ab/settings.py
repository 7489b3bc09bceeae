"""An experiment as the log and the configuration together know it, ready for tests and comparisons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from abtest import Experiment, Experiments
from abtest.analysis import Attribute
from app.ab.account import no_exposure
from app.ab.arms import Arms, all_experiments, arms_of
from app.ab.enrolled import SLICE, Enrolled
from app.ab.errors import AbError
from app.ab.exposures import Log
from app.ab.population import slice_length


@dataclass(frozen=True, slots=True)
class Setting:
    """`enrolled` has the buckets of `arms`; `experiment` is None where the configuration doesn't have it."""

    enrolled: Enrolled
    arms: Arms
    experiment: Experiment | None
    attributes: Mapping[str, Attribute]

    @property
    def every(self) -> int | None:
        """The seconds of a time slice where slices are the units: the configuration's, else as the log's times tell.

        Raises AbError where neither does, or they disagree.
        """
        if self.enrolled.key.unit_type != SLICE:
            return None
        return slice_length(self.enrolled, None if self.experiment is None else self.experiment.every)

    def facts(self) -> Iterator[tuple[str, str]]:
        """What to say about it, in pairs."""
        if self.experiment is not None:
            yield "owner", self.experiment.owner
            yield "status", self.experiment.status
            share = sum(high - low for low, high in self.experiment.slots) / 10_000
            yield "share", f"{share:.2%}"
        if len(self.enrolled.first):
            first, last = self.enrolled.first.min(), self.enrolled.first.max()
            yield "first exposures", f"{_day(first)} to {_day(last)}"


def settings(
    log: Log, experiments: Experiments | None, weights: str | None, control: str | None
) -> Iterator[Setting | AbError]:
    """A setting for each experiment of the log, or why there is none."""
    known = {} if experiments is None else {(e.scene, e.layer, e.key): e for e in all_experiments(experiments)}
    for enrolled in log.enrolled:
        key = enrolled.key
        if len(enrolled.unit_types) > 1:
            types = " and ".join(enrolled.unit_types)
            yield AbError(f"{key}: {types} were dealt under one version; they can't be told apart.")
            continue
        try:
            arms = arms_of(key, weights, control, experiments)
            yield Setting(arms.of(enrolled), arms, known.get((key.scene, key.layer, key.name)), {})
        except AbError as error:
            yield error


def the_one(log: Log, named: str) -> Enrolled:
    """The one experiment that was asked for. Raises AbError when the log has none, or several versions."""
    if not log.enrolled:
        raise AbError(no_exposure(log, named))
    if len(log.enrolled) > 1:
        raise AbError(f"{named!r} could be {', '.join(str(one.key) for one in log.enrolled)}. Name one of them.")
    return log.enrolled[0]


def _day(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")
