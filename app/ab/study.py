"""All that an analysis of one experiment found, and as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from abtest.analysis import Analysis, Enrolment, SrmReport
from app.ab.enrolled import Enrolled
from app.ab.exposures import Log
from app.ab.lines import Unread
from app.ab.measure import Joined, Measuring
from app.ab.metrics import Formula
from app.ab.population import LeftOut


@dataclass(frozen=True, slots=True)
class Study:
    """One experiment: who was enrolled, whether the split is sound, and what the metrics say.

    `enrolment` are those that are compared, `left_out` the others. `unread` is what couldn't be read of the events
    (the log has its own), `joined` where the others went. The data end at `end` (epoch seconds). Metrics
    `without_history` have nothing that CUPED could correct them by. `description` and `facts` are for the page's head.
    """

    log: Log
    enrolled: Enrolled
    enrolment: Enrolment
    srm: SrmReport
    formulas: Sequence[Formula]
    analysis: Analysis
    unread: Unread
    left_out: LeftOut
    joined: Joined
    how: Measuring
    end: float
    without_history: Sequence[str]
    description: str
    facts: Mapping[str, str]

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        key = self.enrolled.key
        return {
            "experiment": str(key),
            "unit_type": key.unit_type,
            "records": self.log.records,
            "unread": {
                "exposures": {"count": self.log.unread.count, "first": self.log.unread.first},
                "events": {"count": self.unread.count, "first": self.unread.first},
            },
            "exposures": int(self.enrolled.count.sum()),
            "chosen": dict(self.enrolled.chosen),
            "waiting": self.left_out.waiting,
            "log": self.log.as_json(),
            "events": {**self.joined.as_json(), "unread": self.unread.count, "without_value": self.joined.valueless},
            "left_out": self.left_out.as_json(),
            "end": self.end,
            "units_of_time": dict(self.how.units_of_time),
            "without_history": list(self.without_history),
            "srm": self.srm.as_json(),
            "metrics": {formula.name: str(formula) for formula in self.formulas},
            **self.analysis.as_json(),
        }
