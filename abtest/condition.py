"""The `when` of an experiment: who may enter, in the one expression language over the context and the time of day."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from abtest.problems import Path, Report, finite

if TYPE_CHECKING:
    from expression import Expression

_PREFIX = "context."
_HOUR, _DAY = 3_600, 86_400
TIMES: Final[Mapping[str, Callable[[float], int]]] = MappingProxyType(
    {
        "time.hour": lambda now: int(now // _HOUR % 24),
        "time.weekday": lambda now: int((now // _DAY + 3) % 7),  # 1970 began on a Thursday
    }
)
"""What a condition may ask of the clock, in UTC: the hour from 0 to 23, the day of the week from 0 (Monday) to 6."""
# A float may be NaN, which has to be looked at.
_EXACT: Final[Mapping[str, type | None]] = MappingProxyType(
    {"str": str, "semver": str, "int": int, "float": None, "bool": bool}
)
_MOST_KEPT, _LONGEST_KEPT = 1_024, 256


class Context(NamedTuple):
    """What conditions may read: attributes' types by name, and what stands in for those that a request doesn't send."""

    types: Mapping[str, str]
    defaults: Mapping[str, object] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Condition:
    """A compiled condition; `attributes` gives name, type and its class (None: look) of what it reads.

    `times` are the names of TIMES that it reads, `defaults` what stands in for attributes that a request doesn't
    send, for those that have one. Requests ask the same few questions again and again, so answers are kept, a
    bounded number of them.
    """

    text: str
    expression: "Expression"
    attributes: tuple[tuple[str, str, type | None], ...]
    times: tuple[str, ...] = ()
    defaults: tuple[tuple[str, object], ...] = ()
    _kept: dict[tuple[object, ...], bool] = field(default_factory=dict, init=False, repr=False, compare=False)

    def holds(self, context: Mapping[str, object], now: float) -> bool:
        """Say whether the context meets the condition at `now` (epoch seconds).

        An attribute that is absent, or not of its declared type, is missing as the expression language has
        it: every comparison with it is false, and `missing(context.x)` is true.
        """
        values: list[object] = []
        for name, kind, exact in self.attributes:
            value = context.get(name)
            values.append(value if value.__class__ is exact else _typed(value, kind))
        if self.times:
            values += [TIMES[name](now) for name in self.times]
        asked = tuple(values)
        held = self._kept.get(asked)
        return self._ask(asked) if held is None else held

    def _ask(self, values: tuple[object, ...]) -> bool:
        names = (*(_PREFIX + name for name, _, _ in self.attributes), *self.times)
        held = bool(self.expression(dict(zip(names, values, strict=True))))
        if sum(len(value) for value in values if isinstance(value, str)) <= _LONGEST_KEPT:
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            self._kept[values] = held
        return held


def read_condition(report: Report, value: object, path: Path, context: Context) -> Condition | None:
    """Compile a condition over the attributes that `context` declares."""
    # The language brings numpy; what has no conditions does without, and `import abtest` stays quick.
    from expression import ExpressionError, compile_expression

    text = report.text(value, path, "a condition")
    if text is None:
        return None
    try:
        declared = {_PREFIX + name: kind for name, kind in context.types.items()}
        expression = compile_expression(text, declared | dict.fromkeys(TIMES, "int"))
    except ExpressionError as error:
        report.problem(path, f"column {error.column_offset + 1}: {error.message}")
        return None
    if expression.type != "bool":
        report.add(path, f"the condition is a {expression.type}", "Expected a comparison, or a bool.")
        return None
    times = tuple(sorted(expression.names & TIMES.keys()))
    names = sorted(full.removeprefix(_PREFIX) for full in expression.names - TIMES.keys())
    attributes = ((name, context.types[name], _EXACT[context.types[name]]) for name in names)
    defaults = ((name, context.defaults[name]) for name in names if name in context.defaults)
    return Condition(text, expression, tuple(attributes), times, tuple(defaults))


def _typed(value: object, kind: str) -> object:
    if kind in ("str", "semver"):
        return value if isinstance(value, str) else None
    if isinstance(value, bool) or kind == "bool":
        return value if isinstance(value, bool) and kind == "bool" else None
    if kind == "int":
        return value if isinstance(value, int) else None
    return finite(value)
