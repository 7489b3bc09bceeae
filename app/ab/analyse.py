"""From files to a study: exposures, the test of the split, events, metrics, comparisons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from abtest import Experiments
from abtest.analysis import SrmReport, check_srm, compare, enrol
from app.ab.errors import AbError
from app.ab.events import Events, Whose, read_events
from app.ab.exposures import exposure_files, read_exposures
from app.ab.lines import Tick, no_tick
from app.ab.measure import Window, complete, measured
from app.ab.metrics import Formula
from app.ab.settings import Setting, settings, the_one
from app.ab.study import Study
from app.ab.texts import srm_verdict


class MismatchError(AbError):
    """The split isn't what it was meant to be, so nothing is compared."""

    def __init__(self, setting: Setting, report: SrmReport) -> None:
        super().__init__(f"{setting.enrolled.key}: {srm_verdict(report)}\nTo compare anyway, add --despite-srm.")
        self.setting = setting
        self.report = report


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: see `recserve ab analyze --help`."""

    experiment: str
    exposures: Sequence[Path]
    events: Path
    mapping: Mapping[str, str]
    formulas: Sequence[Formula]
    window: Window
    until: float | None
    alpha: float
    peeking: bool
    despite_srm: bool
    weights: str | None = None
    control: str | None = None


def analysed(question: Question, experiments: Experiments | None, tick: Tick = no_tick) -> Study:
    """The answer. Raises MismatchError, and AbError for what is missing or wrong in files and options."""
    files = exposure_files(question.exposures)
    log = read_exposures(files, question.experiment, tick)
    the_one(log, question.experiment)
    (setting,) = settings(log, experiments, question.weights, question.control)
    if isinstance(setting, AbError):
        raise setting
    srm = check_srm(setting.enrolled.exposures(), setting.arms.weights)
    if not srm.sound and not question.despite_srm:
        raise MismatchError(setting, srm)
    key = setting.enrolled.key
    whose = Whose(setting.enrolled.units, key.unit_type, setting.every)
    events = read_events(question.events, whose, question.mapping, tick)
    if not question.formulas:
        raise AbError(f"No metric. Give --metric, such as --metric {suggested(events)}. Events: {counted(events)}.")
    until = question.until if question.until is not None else float(events.time.max(initial=-np.inf))
    enrolled = complete(setting.enrolled, question.window, until)
    enrolment = enrol(enrolled.exposures())
    if not len(enrolment):
        raise AbError(f"{key}: no unit's window has passed. Wait, or give a shorter --within.")
    metrics = measured(enrolled, enrolment, events, question.formulas, question.window)
    arms = setting.arms
    analysis = compare(
        enrolment.bucket, arms.buckets, metrics, arms.control, alpha=question.alpha, peeking=question.peeking
    )
    experiment = setting.experiment
    return Study(
        log=log,
        enrolled=setting.enrolled,
        enrolment=enrolment,
        srm=srm,
        formulas=question.formulas,
        analysis=analysis,
        unread=events.unread,
        waiting=len(enrol(setting.enrolled.exposures())) - len(enrolment),
        description="" if experiment is None else experiment.description,
        facts=dict(setting.facts()),
    )


def suggested(events: Events) -> str:
    """A metric over the events that there are."""
    names = sorted(events.seen, key=lambda name: events.seen[name])
    return f"{names[0]}_rate=any({names[0]})" if names else "ctr=click/impression"


def counted(events: Events) -> str:
    """The events of a file by name."""
    ordered = sorted(events.seen.items(), key=lambda item: -item[1])[:12]
    return ", ".join(f"{name} ({count:,})" for name, count in ordered) or "none"
