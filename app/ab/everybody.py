"""A metric of all units of an events file, without an experiment: what power and A/A tests start from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from abtest.analysis import Metric
from abtest.analysis.columns import Exposures
from abtest.analysis.metrics import enrol
from app.ab.analyse import counted, suggested
from app.ab.enrolled import Enrolled, Key
from app.ab.errors import AbError
from app.ab.events import Whose, read_events
from app.ab.lines import Tick, no_tick
from app.ab.measure import Window, measured
from app.ab.metrics import EXPOSURES, Formula


def metrics_of_everybody(
    path: Path,
    unit_type: str,
    mapping: Mapping[str, str],
    formulas: Sequence[Formula],
    within: float = np.inf,
    done: Tick = no_tick,
) -> list[Metric]:
    """Each unit of the file is one row; with `within` (seconds) only its first events count.

    Units that did nothing are in no file of events: a mean per unit is one per active unit. Raises AbError.
    """
    events = read_events(path, Whose(None, unit_type), mapping, done)
    if not formulas:
        raise AbError(f"No metric. Give --metric, such as --metric {suggested(events)}. Events: {counted(events)}.")
    if any(term.event == EXPOSURES for formula in formulas for term in formula.terms):
        raise AbError("There are no exposures here. Count an event below instead, such as click/impression.")
    if len(events.units) < 4:
        raise AbError(f"{path}: {len(events.units)} units. Expected more.")
    count = len(events.units)
    first = np.full(count, np.inf)
    np.minimum.at(first, events.unit, events.time)
    first[~np.isfinite(first)] = 0.0
    unit, none = np.arange(count, dtype=np.int64), np.zeros(count, np.int64)
    enrolment = enrol(Exposures(unit, none, ("all",), first))
    key = Key("", "", "all", 1, unit_type)
    enrolled = Enrolled(key, events.units, ("all",), unit, none, first, none + 1, {}, {})
    return measured(enrolled, enrolment, events, formulas, Window(within))
