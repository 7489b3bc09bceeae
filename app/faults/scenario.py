"""What a scenario is, and what it hands back."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from app.faults.errors import Late, Unsteady
from app.faults.judge import document, errors, plain
from app.faults.place import Place
from app.load.summary import Summary


@dataclass(frozen=True, slots=True)
class Kit:
    """What every scenario is given.

    base   the configuration and release that are copied and broken
    folder scratch, the scenario's own
    short  a form for continuous integration: the same faults, for less long
    cores  of the service; `spare` is the generator's, the store's and the kit's own
    say    tells a person how far things are
    """

    base: Place
    folder: Path
    short: bool
    cores: frozenset[int]
    spare: frozenset[int]
    say: Callable[[str], None]

    def seconds(self, long: float, short: float) -> float:
        """One or the other."""
        return short if self.short else long


@dataclass(slots=True)
class Verdict:
    """Figures of a run, and which of the requirements they break."""

    figures: dict[str, Any] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)

    def must(self, condition: bool, words: str) -> None:
        """A requirement: `words` are what holds, with the figure in them."""
        if not condition:
            self.broken.append(words)

    def note(self, name: str, value: Any) -> None:
        """A figure."""
        self.figures[name] = plain(value)

    def window(self, name: str, summary: Summary) -> Summary:
        """The figures of a window of the run. Raises Late when the generator was late in it."""
        if summary.late:
            raise Late(f"{name}: a hundredth of the requests left {summary.late_p99 * 1000:.1f} ms late or more")
        self.figures[name] = document(summary)
        return summary

    def steady(self, summary: Summary, budget: float) -> Summary:
        """The window before the fault, which all others are compared with. Raises Late and Unsteady."""
        self.window("steady", summary)
        p99, wrong = summary.latency.p99, errors(summary) + summary.shed
        if wrong or not summary.served or p99 > budget:
            raise Unsteady(
                f"before the fault, p99 was {p99 * 1000:.0f} ms of a budget of {budget * 1000:.0f} ms, "
                f"and {wrong} of {summary.sent} requests failed"
            )
        return summary

    @property
    def holds(self) -> bool:
        """Whether every requirement does."""
        return not self.broken


@dataclass(frozen=True, slots=True)
class Scenario:
    """A fault, and what must hold meanwhile. `seconds`: about how long it takes, in its long and short form."""

    name: str
    fault: str
    must: str
    seconds: tuple[float, float]
    run: Callable[[Kit], Coroutine[Any, Any, Verdict]]
