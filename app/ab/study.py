"""All that an analysis of one experiment found, and as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from abtest.analysis import Analysis, Enrolment, SrmReport
from app.ab.enrolled import Enrolled
from app.ab.exposures import Log
from app.ab.lines import Unread
from app.ab.metrics import Formula


@dataclass(frozen=True, slots=True)
class Study:
    """One experiment: who was enrolled, whether the split is sound, and what the metrics say.

    `unread` is what couldn't be read of the events (the log has its own). `waiting` units were left out because their
    window hadn't passed. `description` and `facts` are for the page's head.
    """

    log: Log
    enrolled: Enrolled
    enrolment: Enrolment
    srm: SrmReport
    formulas: Sequence[Formula]
    analysis: Analysis
    unread: Unread
    waiting: int
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
            "waiting": self.waiting,
            "srm": self.srm.as_json(),
            "metrics": {formula.name: str(formula) for formula in self.formulas},
            **self.analysis.as_json(),
        }
