"""From files to a study: exposures, the test of the split, events, metrics, comparisons."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from abtest import Experiments
from abtest.analysis import Enrolment, Metric, SrmReport, check_srm, compare, enrol
from abtest.analysis.metrics import resolution
from app.ab.account import chosen_of, explained, left_out_of_units
from app.ab.errors import AbError
from app.ab.events import Events, Whose, read_events
from app.ab.exposures import Asked, Log, read_exposures
from app.ab.files import exposure_files
from app.ab.lines import Tick, no_tick
from app.ab.measure import Joined, Measuring, check, joined, measured
from app.ab.metrics import Formula
from app.ab.population import LeftOut, compared, compared_slices
from app.ab.resolution import check_resolutions, resolutions
from app.ab.settings import Setting, settings, the_one
from app.ab.study import Study
from app.ab.texts import srm_verdict
from app.ab.window import Window


class MismatchError(AbError):
    """The split isn't what it was meant to be, so nothing is compared."""

    def __init__(self, setting: Setting, report: SrmReport, log: Log) -> None:
        verdict = f"{setting.enrolled.key}: {srm_verdict(report)}"
        super().__init__("\n".join([verdict, *explained(log), "To compare anyway, add --despite-srm."]))
        self.setting = setting
        self.report = report
        self.log = log


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: see `recserve ab analyze --help`. `now` is epoch seconds, None for the clock's."""

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
    now: float | None = None


def analysed(question: Question, experiments: Experiments | None, tick: Tick = no_tick) -> Study:
    """The answer. Raises MismatchError, and AbError for what is missing or wrong in files and options."""
    until = math.inf if question.until is None else question.until
    log = read_exposures(exposure_files(question.exposures), Asked(question.experiment, until, question.now), tick)
    setting = _setting(log, question, experiments)
    _check_window(question.window, setting, log)
    everyone = enrol(setting.enrolled.exposures())
    srm = check_srm(everyone, setting.arms.weights)
    if not srm.sound and not question.despite_srm:
        raise MismatchError(setting, srm, log)
    whose = Whose(setting.enrolled.units, setting.enrolled.key.unit_type, setting.every)
    events = read_events(question.events, whose, question.mapping, tick, now=question.now).before(until)
    try:
        found = _outcome(question, setting, everyone, events)
    except AbError as error:
        raise AbError("\n".join([str(error), *explained(log, events.unread)])) from None
    names, control = setting.arms.buckets, setting.arms.control
    bucket, metrics = found.enrolment.bucket, found.metrics
    return Study(
        log=log,
        enrolled=setting.enrolled,
        enrolment=found.enrolment,
        srm=srm,
        formulas=question.formulas,
        analysis=compare(bucket, names, metrics, control, alpha=question.alpha, peeking=question.peeking),
        unread=events.unread,
        left_out=found.left_out,
        joined=found.joined,
        how=found.how,
        end=_end(question, events),
        without_history=[one.name for one in metrics if one.covariate is not None and not one.covariate.any()],
        description="" if setting.experiment is None else setting.experiment.description,
        facts=dict(setting.facts()),
    )


@dataclass(frozen=True, slots=True)
class _Outcome:
    enrolment: Enrolment
    left_out: LeftOut
    joined: Joined
    how: Measuring
    metrics: Sequence[Metric]


def _outcome(question: Question, setting: Setting, everyone: Enrolment, events: Events) -> _Outcome:
    """Who of `everyone` is compared, and what they did."""
    how = _measuring(question, events, setting.every)
    enrolment, left_out = _compared(everyone, setting, question, events)
    metrics = measured(setting.enrolled, enrolment, events, how)
    return _Outcome(enrolment, left_out, joined(enrolment, events, how), how, metrics)


def _setting(log: Log, question: Question, experiments: Experiments | None) -> Setting:
    the_one(log, question.experiment)
    (setting,) = settings(log, experiments, question.weights, question.control)
    if isinstance(setting, AbError):
        raise setting
    if not len(setting.enrolled.unit):
        words = f"{setting.enrolled.key}: no exposure of a unit whose bucket was drawn."
        raise AbError("\n".join([words, *explained(log), *chosen_of(setting.enrolled)]))
    return setting


def _check_window(window: Window, setting: Setting, log: Log) -> None:
    for option, given in (("--within", math.isfinite(window.within)), ("--cuped", window.before > 0)):
        if given and setting.every:
            raise AbError(
                f"{option}: {setting.enrolled.key} compares time slices. Each counts the events of its own time, all "
                "of it and nothing else."
            )
    if window.before and log.gone:
        raise AbError(
            f"--cuped: exposures are missing ({'; '.join(map(str, log.gone))}: rotated away, or not given), so that "
            "some units were exposed before what seems their first time. What they did before that may be the "
            "bucket's doing, and to correct by it would take the effect away. Give those files too (--exposures), or "
            "go without --cuped."
        )


def _measuring(question: Question, events: Events, every: int | None) -> Measuring:
    if not question.formulas:
        raise AbError(f"No metric. Give --metric, such as --metric {suggested(events)}. Events: {counted(events)}.")
    check(question.formulas, events, question.window)
    coarse = resolutions(events, question.formulas)
    check_resolutions(coarse, question.window, every)
    return Measuring(question.formulas, question.window, {} if every else coarse)


def _compared(everyone: Enrolment, setting: Setting, question: Question, events: Events) -> tuple[Enrolment, LeftOut]:
    """Who is compared. Raises AbError where that is nobody."""
    until, every = _end(question, events), setting.every
    if every:
        enrolment, left_out = compared_slices(everyone, setting.enrolled, every, until)
    else:
        size = resolution(events.time)
        enrolment, left_out = compared(everyone, setting.enrolled, question.window, until, size)
    if len(enrolment):
        return enrolment, left_out
    key = setting.enrolled.key
    if every:
        raise AbError(f"{key}: no time slice lies between the first exposure and the end of the data.")
    if math.isfinite(question.window.within):
        raise AbError(f"{key}: no unit's window has passed. Wait, or give a shorter --within.")
    raise AbError(f"{key}: no unit is left to compare. {left_out_of_units(left_out)}")


def _end(question: Question, events: Events) -> float:
    """Where the data end, in epoch seconds: as was told, else with the last event."""
    return events.last if question.until is None else question.until


def suggested(events: Events) -> str:
    """A metric over the events that there are."""
    names = sorted(events.seen, key=lambda name: events.seen[name])
    return f"{names[0]}_rate=any({names[0]})" if names else "ctr=click/impression"


def counted(events: Events) -> str:
    """The events of a file by name."""
    ordered = sorted(events.seen.items(), key=lambda item: -item[1])[:12]
    return ", ".join(f"{name} ({count:,})" for name, count in ordered) or "none"
