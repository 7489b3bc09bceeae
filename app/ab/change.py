"""Starting, ramping and stopping an experiment: what changes in its file, checked before it is written."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from abtest import Experiment
from abtest.freed import free_slots
from abtest.ramp import judge
from app.ab.arms import one_experiment
from app.ab.edit import Edit, Range
from app.ab.errors import AbError
from app.ab.file import AbtestFile, located
from app.ab.places import EditError
from app.ab.slots import Ranges, grown, shrunk, size, written
from app.config.files import EXPERIMENTS
from app.config.problems import Path as DocumentPath

SLOTS = 10_000


@dataclass(frozen=True, slots=True)
class Changed:
    """What was (or would be) written for one experiment."""

    experiment: str
    domain: str | None
    before: str
    after: str
    slots: Sequence[Range]
    diff: str
    warnings: Sequence[str]
    written: bool

    @property
    def share(self) -> float:
        """Of the layer's, or its exclusive domain's, units."""
        return size(self.slots) / SLOTS

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "experiment": self.experiment,
            "domain": self.domain,
            "before": self.before,
            "after": self.after,
            "slots": [list(pair) for pair in self.slots],
            "share": self.share,
            "warnings": list(self.warnings),
            "diff": self.diff,
            "written": self.written,
        }


class Changer:
    """Changes to the abtest.yaml of a folder at `now` (epoch seconds).

    Every method edits, checks the whole configuration with the edited text, applies the rule for running experiments
    and writes (unless `dry`). They raise AbError, ConfigError and OSError; then the file is as it was.
    """

    def __init__(self, directory: Path, env: Mapping[str, str], now: float, *, dry: bool = False) -> None:
        self._file = AbtestFile(directory, env)
        self._now = now
        self._dry = dry

    def start(self, named: str, count: int | None) -> Changed:
        """Let a draft run in `count` slots (None: in those it has), or a paused experiment run again in its own."""
        experiment = self._find(named)
        own = self._entries(experiment)
        if experiment.status not in ("draft", "paused"):
            way = _MORE if experiment.status == "running" else _ANEW
            raise AbError(f"{experiment.key} is {experiment.status}. Expected a draft, or a paused one; {way}.")
        if experiment.end is not None and experiment.end <= self._now:
            raise AbError(f"{experiment.key}: its end has passed ({_moment(experiment.end)}). Change it first.")
        if count is None and not own:
            raise AbError(f"{experiment.key} has no slots. Give --share, such as --share 10%.")
        wanted = size(own) if count is None else count
        if experiment.status == "paused" and wanted != size(own):
            raise AbError(
                f"{experiment.key} is paused with {_percent(size(own))}. Start it without --share, then ramp."
            )
        return self._write(experiment, "running", self._resized(experiment, own, wanted))

    def ramp(self, named: str, count: int, *, shrink: bool = False) -> Changed:
        """Give a running experiment `count` slots; fewer than it has only with `shrink`."""
        experiment = self._find(named)
        own = self._entries(experiment)
        if experiment.status != "running":
            raise AbError(f"{experiment.key} is {experiment.status}. Expected a running experiment; start it first.")
        if count == size(own):
            raise AbError(f"{experiment.key} has {_percent(count)} already.")
        if count < size(own) and not shrink:
            raise AbError(
                f"{experiment.key} runs on {_percent(size(own))}: {_percent(count)} would take users out of their "
                "buckets, and with them what they did. If that is meant, add --shrink."
            )
        return self._write(experiment, "running", self._resized(experiment, own, count))

    def stop(self, named: str) -> Changed:
        """End an experiment; its slots are free for others, and rest for 14 days."""
        experiment = self._find(named)
        if experiment.status not in ("running", "paused"):
            way = "Take it out of the file" if experiment.status == "draft" else "There is nothing to do"
            raise AbError(f"{experiment.key} is {experiment.status}. {way}.")
        return self._write(experiment, "ended", Ranges(self._entries(experiment)))

    def _find(self, named: str) -> Experiment:
        return one_experiment(self._file.config.experiments, named)

    def _entries(self, experiment: Experiment) -> list[Range]:
        """Its slots in the order of the file."""
        value: Any = self._file.config.experiments_document
        for key in _place(experiment):
            value = value[key]
        return [(low, high) for low, high in value["slots"]]

    def _resized(self, experiment: Experiment, own: Sequence[Range], count: int) -> Ranges:
        if count <= size(own):
            return shrunk(own, count)
        plan = self._file.config.experiments.scenes[experiment.scene]
        try:
            more = free_slots(plan, experiment.layer, count - size(own), self._now, experiment.domain)
        except ValueError as error:
            raise AbError(f"{experiment.key} can't have {_percent(count)}: {error}") from None
        return grown(own, more)

    def _write(self, experiment: Experiment, status: str, ranges: Ranges) -> Changed:
        place = _place(experiment)
        try:
            text = self._edited(experiment, place, status, ranges)
        except EditError as error:
            raise AbError(f"{EXPERIMENTS}: {error}") from None
        config = self._file.checked(text)
        verdict = judge(self._file.config.experiments.scenes, config.experiments.scenes, self._now)
        if verdict.refusals:
            raise AbError("\n".join([*map(str, located(config, verdict.refusals)), "Nothing is written."]))
        if not self._dry:
            self._file.write(text)
        warnings = [problem.message for problem in verdict.warnings if problem.path[: len(place)] == place]
        diff = difflib.unified_diff(
            self._file.text.splitlines(), text.splitlines(), EXPERIMENTS, EXPERIMENTS, lineterm="", n=2
        )
        return Changed(
            experiment.key,
            experiment.domain,
            experiment.status,
            status,
            ranges.all,
            "\n".join(diff),
            warnings,
            not self._dry,
        )

    def _edited(self, experiment: Experiment, place: DocumentPath, status: str, ranges: Ranges) -> str:
        edit = Edit(self._file.text)
        if status != experiment.status:
            edit.set((*place, "status"), status)
        if status == "ended":
            self._end(edit, experiment, place)
        elif list(ranges.kept) != self._entries(experiment) or ranges.added:
            edit.set_ranges((*place, "slots"), ranges.kept, ranges.added)
        if ranges.freed and experiment.status == "running":
            self._remember(edit, experiment, place, ranges.freed)
        return edit.text()

    def _end(self, edit: Edit, experiment: Experiment, place: DocumentPath) -> None:
        """Its `end` tells since when its slots rest; one that nobody was in yet has nothing to rest from."""
        if experiment.start is not None and experiment.start >= self._now:
            return
        if experiment.end is None:
            edit.add((*place, "status"), "end", f'"{_moment(self._now)}"')
        elif experiment.end > self._now:
            edit.set((*place, "end"), f'"{_moment(self._now)}"')

    def _remember(self, edit: Edit, experiment: Experiment, place: DocumentPath, freed: Sequence[Range]) -> None:
        # Its times are keys, to the second; two shrinks may come within one.
        newest = max((entry.at + 1 for entry in experiment.freed), default=self._now)
        moment = f'"{_moment(max(self._now, newest))}"'
        if edit.has((*place, "freed")):
            edit.append((*place, "freed"), moment, written(freed))
        else:
            edit.add((*place, "status"), "freed", f"{{{moment}: {written(freed)}}}")


_MORE = "`recserve ab ramp` gives it more slots"
_ANEW = "what has ended stays so: copy it under the next version (@2 after @1)"


def _place(experiment: Experiment) -> DocumentPath:
    return ("scenes", experiment.scene, "layers", experiment.layer, "experiments", experiment.key)


def _moment(now: float) -> str:
    return datetime.fromtimestamp(int(now), UTC).isoformat()


def _percent(slots: int) -> str:
    return f"{slots / SLOTS:.2%}".replace(".00%", "%")
