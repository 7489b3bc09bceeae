"""Declared, typed, defaulted knobs: the only thing that an experiment can change.

A declaration names exactly one type, a default and the one layer that may set it:

| type | syntax | accepts |
| --- | --- | --- |
| integer | `int: [low, high]` | an integer in the closed range |
| number | `float: [low, high]` | an integer or a number in the closed range; kept as a float |
| choice | `choice: [a, b, ...]` | one of the listed values, which are all text, all integers or all numbers |
| flag | `bool: true` | true or false |

A boolean is never an integer, and a float never stands for an integer.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from abtest.problems import Path, Report, described, finite, nearest

Value = int | float | str | bool
"""What a parameter can hold."""

LayerName = tuple[str, str]
"""A scene's name and the name of a layer in it."""

_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)
_KINDS: Final = ("int", "float", "choice", "bool")


@dataclass(frozen=True, slots=True)
class Param:
    """One declared parameter.

    `type` is the type of its values, `int`, `float`, `str` or `bool`; `low` and `high` bound a range
    (closed); `choices` lists what else is allowed and is empty for ranges.
    """

    name: str
    type: str
    default: Value
    scene: str
    layer: str
    low: float | None = None
    high: float | None = None
    choices: tuple[Value, ...] = ()

    @property
    def expected(self) -> str:
        """What a value has to be, in words."""
        if self.low is not None:
            noun = "an integer" if self.type == "int" else "a number"
            return f"{noun} from {self.low} to {self.high}"
        if self.type == "bool":
            return "true or false"
        return f"one of {', '.join(repr(choice) for choice in self.choices)}"

    def admit(self, value: object) -> Value | None:
        """Return `value` in the parameter's own type, or None where it isn't allowed."""
        if self.type == "float":
            number: Value | None = finite(value)
        else:
            number = value if isinstance(value, int | str) and type(value).__name__ == self.type else None
        if number is None:
            return None
        if self.low is not None and self.high is not None:
            return number if not isinstance(number, str) and self.low <= number <= self.high else None
        return number if number in self.choices else None


def read_params(report: Report, value: object, path: Path, layers: Collection[LayerName]) -> dict[str, Param | None]:
    """Return every declared name; a declaration with a problem stands as None."""
    params: dict[str, Param | None] = {}
    for name, entry in report.mapping(value, path, "params").items():
        where = (*path, name)
        report.name(name, where, "a parameter", _NAME, "dotted identifiers such as recall.vector_k")
        params[name] = _read_param(report, name, entry, where, layers)
    return params


def _read_param(report: Report, name: str, value: object, path: Path, layers: Collection[LayerName]) -> Param | None:
    found = len(report.problems)
    fields = report.fields(value, path, f"the parameter {name}", ("default", "layer"), _KINDS)
    scene, layer = _owner(report, name, fields["layer"], (*path, "layer"), layers) if "layer" in fields else ("", "")
    kinds = [kind for kind in _KINDS if kind in fields]
    if isinstance(value, Mapping) and len(kinds) != 1:
        said = " and ".join(kinds) or "no type"
        report.add(path, f"the parameter {name} has {said}", f"Expected exactly one of {', '.join(_KINDS)}.")
    if len(kinds) != 1 or "default" not in fields:
        return None
    param = _typed(report, kinds[0], fields[kinds[0]], (*path, kinds[0]), Param(name, "", 0, scene, layer))
    if param is None:
        return None
    default = param.admit(fields["default"])
    if default is None:
        wrong = f"the default of {name} is {described(fields['default'])}"
        report.add((*path, "default"), wrong, f"Expected {param.expected}.")
    if default is None or len(report.problems) > found:
        return None
    return Param(name, param.type, default, scene, layer, param.low, param.high, param.choices)


def _typed(report: Report, kind: str, value: object, path: Path, bare: Param) -> Param | None:
    """Return `bare` with the type that `kind: value` declares; its default isn't read yet."""
    name, scene, layer = bare.name, bare.scene, bare.layer
    if kind == "bool":
        if value is True:
            return Param(name, "bool", False, scene, layer, choices=(False, True))
        report.add(path, f"the type of {name} is {described(value)}", "Expected `bool: true`.")
        return None
    if kind == "choice":
        entries = report.sequence(value, path, f"the choices of {name}")
        kinds = {type(entry) for entry in entries}
        choices = tuple(entry for entry in entries if isinstance(entry, int | float | str))
        if len(kinds) == 1 and kinds <= {int, float, str} and len(set(choices)) == len(entries):
            return Param(name, kinds.pop().__name__, choices[0], scene, layer, choices=choices)
        expected = "Expected different values that are all text, all integers or all numbers."
        report.add(path, f"the choices of {name} don't make a type", expected)
        return None
    bounds = [_bound(kind, entry) for entry in report.sequence(value, path, f"the range of {name}")]
    low, high = bounds if len(bounds) == 2 else (None, None)
    if low is None or high is None or low > high:
        noun = "integers" if kind == "int" else "numbers"
        report.add(path, f"the range of {name} isn't one", f"Expected [low, high], two {noun} in order.")
        return None
    return Param(name, kind, low, scene, layer, low, high)


def _bound(kind: str, value: object) -> float | None:
    if kind == "float":
        return finite(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _owner(report: Report, name: str, value: object, path: Path, layers: Collection[LayerName]) -> LayerName:
    known = {f"{scene}/{layer}": (scene, layer) for scene, layer in layers}
    if not isinstance(value, str):
        report.add(path, f"the layer of {name} is {described(value)}", "Expected one scene/layer.")
    elif value in known:
        return known[value]
    else:
        report.add(path, f"there is no layer {value!r}", nearest(value, known))
    return "", ""
