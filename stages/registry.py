"""Finding components: every class stamped by @component in the packages of the tree and of extensions.

There is no global registry: `discover` imports packages and returns an immutable one.
"""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Generic,
    TypeVar,
    Union,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
)

from stages.roles import Component

T = TypeVar("T")
C = TypeVar("C", bound=type[Component])

BUILT_IN = ("stages.recall", "stages.filters", "stages.pre_rank", "stages.rank", "stages.re_rank")
MISSING = dataclasses.MISSING


if TYPE_CHECKING:
    Ref = Annotated[T, "resolved while building"]  # to a type checker the attribute is the T itself
else:

    class Ref(Generic[T]):
        """`Ref[T]`: a setting that names a T of the release; the component's attribute is the T itself."""


class Duration(float):
    """A setting in seconds; written `90s`, `15m`, `12h` or `30d`."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Range:
    """Closed bounds of a number, in `Annotated[T, Range(low, high)]`."""

    low: float
    high: float


COUNT = Range(1, 100_000)  # how many of something: none, or fewer, is never meant
SHARE = Range(0, 1)
AGE = Range(1, 36_500 * 86_400)  # seconds


class DuplicateComponentError(Exception):
    """Two components of one role share a name: metrics and configuration hang on it."""


@dataclass_transform(frozen_default=True)
def component(name: str) -> Callable[[C], C]:
    """Make a class a component called `name`: a frozen dataclass whose fields are its settings."""

    def stamp(cls: C) -> C:
        made = dataclass(frozen=True)(cls)
        made.__component__ = name  # type: ignore[attr-defined]  # the stamp that discover looks for
        return cast(C, made)

    return stamp


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of a component: its YAML key, its type, its default (MISSING when required).

    The attribute has a trailing underscore when the key is also the name of the role's method.
    """

    name: str
    type: Any
    default: Any
    attribute: str

    @property
    def required(self) -> bool:
        """Whether YAML must give a value."""
        return self.default is MISSING


def core_of(tp: Any) -> tuple[Any, tuple[Any, ...]]:
    """A setting's type without `Annotated` and `| None`, and the notes of Annotated."""
    notes: tuple[Any, ...] = ()
    while True:
        origin, args = get_origin(tp), get_args(tp)
        if origin is Annotated:
            tp, notes = args[0], (*args[1:], *notes)
        elif origin in (Union, types.UnionType) and types.NoneType in args and len(args) == 2:
            tp = args[0] if args[1] is types.NoneType else args[1]
        else:
            return tp, notes


def settings_of(cls: type[Component]) -> tuple[Setting, ...]:
    """The settings of a component class, in order: the first ones may be given by position."""
    hints = typing.get_type_hints(cls, include_extras=True)
    fields = dataclasses.fields(cls)  # type: ignore[arg-type]  # @component made it a dataclass
    return tuple(
        Setting(
            f.name.rstrip("_"),
            hints[f.name],
            f.default if f.default_factory is MISSING else f.default_factory(),
            f.name,
        )
        for f in fields
    )


class Registry:
    """Components by role and name. Immutable."""

    def __init__(self, classes: Iterable[type[Component]]) -> None:
        found: dict[str, dict[str, type[Component]]] = {}
        for cls in classes:
            name = cls.__component__  # type: ignore[attr-defined]  # set by @component
            other = found.setdefault(cls.role, {}).setdefault(name, cls)
            if other is not cls:
                raise DuplicateComponentError(
                    f"Two {cls.role} components are called {name!r}: {_where(other)} and {_where(cls)}. Rename one."
                )
        self._found = found

    def of(self, role: str) -> Mapping[str, type[Component]]:
        """The components of one role by name."""
        return self._found.get(role, {})


def _where(cls: type[Component]) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def discover(extensions: Iterable[str] = ()) -> Registry:
    """Import the tree's component rooms and the named extension packages, and collect what they define."""
    classes: dict[type[Component], None] = {}
    for package in (*BUILT_IN, *extensions):
        for module in _modules(package):
            for value in vars(module).values():
                if isinstance(value, type) and "__component__" in vars(value):
                    classes[value] = None
    return Registry(classes)


def _modules(package: str) -> Iterable[ModuleType]:
    root = importlib.import_module(package)
    yield root
    for info in pkgutil.walk_packages(getattr(root, "__path__", ()), package + "."):
        yield importlib.import_module(info.name)
