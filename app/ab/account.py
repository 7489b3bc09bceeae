"""What was read and what of it counts, as people read it, in the terminal and on the page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from app.ab.enrolled import SLICE, Enrolled
from app.ab.exposures import Log
from app.ab.files import Gone
from app.ab.lines import Unread
from app.ab.measure import Joined
from app.ab.metrics import EXPOSURES
from app.ab.population import LeftOut
from app.ab.resolution import said_of_times
from app.ab.study import Study
from app.ab.texts import reduction, srm_verdict
from app.cli.table import clean


def data_of(study: Study) -> list[str]:
    """All that was read of an analysis, and what of it counts for nothing, in lines."""
    lines = [
        read_of(study.log),
        *chosen_of(study.enrolled),
        *events_of(study.joined),
        *unread_of(study.unread, "event"),
        *said_of_times(study.how.units_of_time, study.how.window),
    ]
    terms = [term.event for formula in study.formulas for term in formula.terms]
    if EXPOSURES in terms and study.enrolled.last > study.end and not _of_slices(study):
        lines.append("Exposures go on after the last event, and count. To end both at one time, give --until TIME.")
    return [*lines, srm_verdict(study.srm), *filter(None, [left_out_of_units(study.left_out)])]


def read_of(log: Log) -> str:
    """How much was read, what couldn't be, and what was left out of it."""
    head = f"{log.records:,} exposures in {_files(len(log.files))}"
    lines = [head, *unread_of(log.unread, "exposure"), *left_out_of_log(log)]
    same = [f"Read once: {clean(path)} is {clean(kept)} again." for path, kept in log.twice.items()]
    return "\n".join([*lines, *same, *gone_of(log.gone)])


def no_exposure(log: Log, named: str | None) -> str:
    """What to say when there is none (of the experiment that was asked for): what was read instead."""
    of = "" if named is None else f" of {named!r}"
    head = f"No exposure{of} in {_files(len(log.files))}, {log.records:,} records."
    return "\n".join([head, *explained(log)])


def explained(log: Log, events: Unread | None = None) -> list[str]:
    """What an error may come from, in lines: records that were left out."""
    unread = [*unread_of(log.unread, "exposure"), *([] if events is None else unread_of(events, "event"))]
    return [*unread, *left_out_of_log(log), *gone_of(log.gone)]


def unread_of(unread: Unread, what: str) -> list[str]:
    """What couldn't be read, in lines; none where all was."""
    if not unread.count:
        return []
    many = unread.count != 1
    head = f"{unread.count:,} {what} record{'s' * many} couldn't be read{':' if unread.first else '.'}"
    more = [f"  and {unread.count - unread.named:,} more"] if unread.count > unread.named else []
    return [head, *(f"  {clean(one)}" for one in unread.first), *more]


def left_out_of_log(log: Log) -> list[str]:
    """Which records count for nothing, in one line; none where all count. What was chosen has its own line."""
    said = {
        "of other experiments": log.others,
        "not before --until": log.late,
        "without a unit": log.no_unit,
    }
    return _left_out("Exposures left out", said)


def chosen_of(enrolled: Enrolled) -> list[str]:
    """How many exposures weren't drawn, in one line; none where all were."""
    said = {
        "by force" if reason == "forced" else f"by {clean(reason)}": count
        for reason, count in sorted(enrolled.chosen.items())
    }
    return _left_out("Exposures left out, since people chose the bucket", said)


def gone_of(gone: Sequence[Gone]) -> list[str]:
    """A warning of exposures that were rotated away or not given; none where all are there."""
    if not gone:
        return []
    named = "; ".join(clean(one) for one in gone)
    return [f"EXPOSURES ARE MISSING (rotated away, or not given): {named}. Some first exposures were earlier ones."]


def left_out_of_units(left_out: LeftOut) -> str:
    """Which units are in no comparison, in one line; empty where all are."""
    said = {
        "in two buckets": left_out.crossed,
        "that also had a bucket chosen for them": left_out.chosen,
        "whose time hasn't passed at the end of the data": left_out.waiting,
        "time slices that aren't whole in the data": left_out.partial,
    }
    return "".join(_left_out("Units left out", said))


def events_of(joined: Joined) -> list[str]:
    """How many events count and why the others don't, in lines."""
    said = {
        "before the first exposure": joined.before,
        "after the window": joined.after,
        "not before --until": joined.late,
        "of units that aren't compared": joined.others,
    }
    others = ", ".join(f"{count:,} {what}" for what, count in said.items() if count)
    lines = [f"{joined.read:,} events, of which {joined.inside:,} count{f' ({others})' if others else ''}"]
    if joined.read and not joined.inside:
        lines.append("NOT ONE event counts. Are the units of both files the same, and called the same?")
    for name, by_bucket in joined.valueless.items():
        buckets = ", ".join(f"{clean(bucket)} {count:,}" for bucket, count in by_bucket.items())
        lines.append(f"{clean(name)} without a value, which adds nothing to the sum: {buckets}")
    return lines


def cuped_of(study: Study) -> list[str]:
    """What CUPED did, where it was asked for."""
    if not study.how.window.before:
        return []
    lines = []
    several = len({one.treatment.bucket for one in study.analysis.comparisons}) > 1
    shares = [
        f"{share} of {clean(one.metric)}'s variance" + (f" in {clean(one.treatment.bucket)}" if several else "")
        for one in study.analysis.comparisons
        if one.metric not in study.without_history and (share := reduction(one))
    ]
    if shares:
        lines.append(f"CUPED removed {', '.join(shares)}.")
    if study.without_history:
        names = ", ".join(map(clean, study.without_history))
        lines.append(f"CUPED had nothing to correct {names} by: the file has no such event before the first exposures.")
    return lines


def looks_of(study: Study) -> str:
    """How often one may look."""
    if not study.analysis.peeking:
        return "One look, at the end that was planned. While the experiment runs, look with --peek."
    if math.isfinite(study.how.window.within) or _of_slices(study):
        return "The verdicts hold however often one looks."
    return (
        "The verdicts hold however often one looks where units' outcomes don't go on growing. "
        "Else give --within 7d (say)."
    )


def _files(count: int) -> str:
    return f"{count} file{'s' * (count != 1)}"


def _left_out(what: str, said: Mapping[str, int]) -> list[str]:
    parts = ", ".join(f"{count:,} {why}" for why, count in said.items() if count)
    return [f"{what}: {parts}."] if parts else []


def _of_slices(study: Study) -> bool:
    return study.enrolled.key.unit_type == SLICE
