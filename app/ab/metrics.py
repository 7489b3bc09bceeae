"""What an analysis measures, as a person writes it.

A metric is a term, which is a mean per unit, or one term over another, which is a ratio of sums:

| written | means |
| --- | --- |
| `orders=count(purchase)` | purchases per unit; `orders=purchase` is the same |
| `buyers=any(purchase)` | the share of units with at least one purchase |
| `revenue=sum(purchase)` | the sum of the events' `value` per unit |
| `ctr=click/impression` | all clicks over all impressions |
| `ctr=click/exposures` | all clicks over all exposures of the log |
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

from abtest.analysis.metrics import GOALS, Goal
from app.ab.errors import AbError
from app.config.problems import suggestion
from app.config.yaml_nodes import read

EXPOSURES = "exposures"
"""The denominator that the exposure log itself has."""

_TERM = re.compile(r"(?:(count|sum|any)\(\s*([^()/=]+?)\s*\)|([^()/=]+?))\s*")
_KINDS = ("mean", "ratio", "count", "sum", "any")


@dataclass(frozen=True, slots=True)
class Term:
    """One sum per unit: `how` is count, sum or any, of the events called `event`."""

    how: str
    event: str

    def __str__(self) -> str:
        return self.event if self.how == "count" else f"{self.how}({self.event})"


@dataclass(frozen=True, slots=True)
class Formula:
    """A metric: `below` is None for a mean per unit."""

    name: str
    above: Term
    below: Term | None = None
    goal: Goal = "increase"

    @property
    def terms(self) -> tuple[Term, ...]:
        """One or two."""
        return (self.above,) if self.below is None else (self.above, self.below)

    def __str__(self) -> str:
        return str(self.above) if self.below is None else f"{self.above}/{self.below}"


def formulas(flags: Sequence[str], file: Path | None, lower: Sequence[str]) -> list[Formula]:
    """The metrics of `--metric NAME=FORMULA` and of a file, in their order.

    `lower` names those for which less is better. Raises AbError.
    """
    found = [_of_flag(flag) for flag in flags]
    if file is not None:
        found += _of_file(file)
    names = [formula.name for formula in found]
    for name in names:
        if names.count(name) > 1:
            raise AbError(f"The metric {name!r} is given {names.count(name)} times. Expected names of their own.")
    for name in lower:
        if name not in names:
            raise AbError(f"--lower-is-better {name}: there is no such metric. {suggestion(name, names)}")
    return [replace(formula, goal="decrease") if formula.name in lower else formula for formula in found]


def _of_flag(flag: str) -> Formula:
    name, equals, text = (part.strip() for part in flag.partition("="))
    if not equals or not name:
        raise AbError(f"--metric {flag}: no name. Expected NAME=FORMULA, such as ctr=click/impression.")
    return _formula(name, text, f"--metric {flag}")


def _formula(name: str, text: str, where: str) -> Formula:
    above, slash, below = text.partition("/")
    first = _term(above, where)
    if not slash and first.event == EXPOSURES:
        raise AbError(f"{where}: exposures can only stand under a ratio, such as click/exposures.")
    return Formula(name, first, _term(below, where) if slash else None)


def _term(text: str, where: str) -> Term:
    found = _TERM.fullmatch(text.strip())
    if found is None:
        raise AbError(
            f"{where}: {text.strip()!r} is no term. Expected an event such as click, or count(click), any(click), "
            "sum(purchase)."
        )
    return Term(found[1] or "count", found[2] or found[3])


def _of_file(file: Path) -> list[Formula]:
    try:
        document = read(file.read_bytes(), str(file), {})
    except OSError as error:
        raise AbError(f"{file}: can't be read: {error.strerror}.") from None
    if document.problems:
        raise AbError("\n".join(map(str, document.problems)))

    def wrong(path: tuple[str, ...], message: str) -> NoReturn:
        mark = next(
            document.positions[path[:end]] for end in range(len(path), -1, -1) if path[:end] in document.positions
        )
        raise AbError(f"{mark} {'.'.join(path)}: {message}")

    value = document.value
    metrics = value.get("metrics") if isinstance(value, dict) else None
    if not isinstance(metrics, dict) or not metrics or set(value) - {"metrics", "version"}:
        wrong((), "Expected one key metrics, a mapping such as {ctr: {ratio: [click, impression]}}.")
    return [_entry(name, entry, wrong) for name, entry in metrics.items()]


def _entry(name: str, entry: Any, wrong: Any) -> Formula:
    where = ("metrics", name)
    if isinstance(entry, str):
        return _formula(name, entry, ".".join(where))
    fields: Mapping[str, Any] = entry if isinstance(entry, dict) else {}
    kinds = [kind for kind in _KINDS if kind in fields]
    if len(kinds) != 1 or set(fields) - {*kinds, "goal"}:
        wrong(where, f"Expected a formula such as click/impression, or one of {', '.join(_KINDS)}, and maybe goal.")
    goal = fields.get("goal", "increase")
    if goal not in GOALS:
        wrong((*where, "goal"), f"Got {goal!r}. Expected {', '.join(GOALS)}.")
    (kind,), said = kinds, fields[kinds[0]]
    terms = said if kind == "ratio" else [said]
    if (
        not isinstance(terms, list)
        or len(terms) != (2 if kind == "ratio" else 1)
        or not all(isinstance(term, str) for term in terms)
    ):
        wrong((*where, kind), "Expected [above, below], two terms." if kind == "ratio" else "Expected an event's name.")
    if kind in ("count", "sum", "any"):
        return Formula(name, Term(kind, terms[0]), goal=goal)
    return replace(_formula(name, "/".join(terms), ".".join((*where, kind))), goal=goal)
