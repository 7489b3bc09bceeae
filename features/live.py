"""Live views: values that others own and overwrite in place, read as they are.

A view names a key, a layout and typed fields. `hash` is people's own: one Redis hash
per id, a field per value, numbers as text, vectors as raw little-endian f32. `row` is
our protobuf row (`features.codec`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from expression.strings import Strings
from features.codec import RowSchema
from features.commands import Command
from features.keys import KeyTemplate, OwnKey
from features.ranges import REAL, WHOLE

Value: TypeAlias = float | int | bool | str | NDArray[np.float32] | None
Column: TypeAlias = NDArray[Any] | Strings

_FALSE_TRUE = {b"0": False, b"false": False, b"1": True, b"true": True}
_DTYPES: Mapping[str, Any] = {
    "f32": np.float32,
    "f64": np.float64,
    "time": np.float64,
    "i32": np.int32,
    "i64": np.int64,
    "bool": np.bool_,
}


@dataclass(frozen=True, slots=True)
class LiveField:
    """A field: its name, its type (`f32 f64 i32 i64 bool str vocab time f32[d]`), its default.

    `default` None leaves missing missing. `source` is its name in the stored hash or
    row when that differs. Raises ValueError for an unknown type.
    """

    name: str
    type: str
    default: float | int | bool | str | None = None
    source: str = ""

    def __post_init__(self) -> None:
        if self.type not in _DTYPES and self.type not in ("str", "vocab") and not self.width:
            raise ValueError(f"field {self.name!r}: no such type: {self.type!r}")

    @property
    def stored_as(self) -> str:
        """The field's name in the stored value."""
        return self.source or self.name

    @property
    def width(self) -> int:
        """d of `f32[d]`, 0 for every other type."""
        inner = self.type.removeprefix("f32[").removesuffix("]")
        return int(inner) if self.type == f"f32[{inner}]" and inner.isdecimal() else 0

    def parser(self) -> Callable[[bytes], Value]:
        """Return the function from the stored text to a value; it raises ValueError."""
        if self.width:
            size = 4 * self.width
            return lambda raw: _vector(raw, size)
        if self.type in ("str", "vocab"):
            return lambda raw: raw.decode()
        if self.type == "bool":
            return _bool
        if self.type in WHOLE:
            limit = WHOLE[self.type]
            return lambda raw: _integer(raw, limit)
        end = REAL[self.type]
        return lambda raw: _number(raw, end)

    def column(self, values: Sequence[Value]) -> Column:
        """Return the typed column of n values (None: missing), with defaults filled in.

        Strings for str and vocab, f32[n, d] for vectors, else [n] of the type. Without
        a default, missing is -1 (Strings), NaN (floats) and, for want of a NaN, 0 or False:
        configuration asks for a default there.
        """
        if self.default is not None:
            values = [self.default if value is None else value for value in values]
        if self.type in ("str", "vocab"):
            return Strings.encode([None if value is None else str(value) for value in values])
        if self.width:
            matrix = np.full((len(values), self.width), np.nan, np.float32)
            for i, value in enumerate(values):
                if value is not None:
                    matrix[i] = value
            return matrix
        dtype = _DTYPES[self.type]
        absent = np.nan if issubclass(dtype, np.floating) else dtype(0)
        return np.array([absent if value is None else value for value in values], dtype)


@dataclass(frozen=True, slots=True)
class CachePolicy:
    """How much of a view is kept (bytes, FIFO), and how old it may be (seconds)."""

    capacity: int
    ttl: float


@dataclass(frozen=True, slots=True)
class LiveView:
    """A view over live keys. Equal views share a cache, so it survives reloads and releases.

    Raises ValueError when layout and schema don't fit: `row` takes fields of types
    `f32` and `f32[d]`, as wide as in the schema.
    """

    name: str
    key: KeyTemplate | OwnKey
    layout: Literal["hash", "row"]
    fields: tuple[LiveField, ...]
    schema: RowSchema | None = None
    cache: CachePolicy | None = None
    parsers: tuple[Callable[[bytes], Value], ...] = field(init=False, repr=False, compare=False)
    _names: tuple[str, ...] = field(init=False, repr=False, compare=False)
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.fields:
            raise ValueError(f"view {self.name!r} has no fields")
        if (self.layout == "row") != (self.schema is not None):
            raise ValueError(f"view {self.name!r}: layout row needs a schema, layout hash has none")
        widths = {f.name: f.width for f in self.schema.fields} if self.schema else {}
        for f in self.fields:
            wrong_type = f.type != "f32" and not f.width
            if self.schema and (wrong_type or widths.get(f.stored_as) != (f.width or 1)):
                raise ValueError(f"view {self.name!r}: field {f.name!r} ({f.type}) isn't in the row's schema")
        # Worked out once: every request looks the view's cache up and parses its fields.
        object.__setattr__(self, "parsers", tuple(f.parser() for f in self.fields))
        object.__setattr__(self, "_names", tuple(f.stored_as for f in self.fields))
        object.__setattr__(self, "_hash", hash((self.name, self.key, self.layout, self.fields)))

    def __hash__(self) -> int:
        return self._hash

    def command(self, identity: bytes) -> Command:
        """Return the command that reads one id."""
        key = self.key.key(identity)
        return ("GET", key) if self.schema else ("HMGET", key, *self._names)

    def commands(self, identities: Sequence[bytes]) -> list[Command]:
        """Return the commands that read a batch: one MGET of rows, or an HMGET per hash."""
        if self.schema:
            return [("MGET", *[self.key.key(identity) for identity in identities])]
        return [self.command(identity) for identity in identities]

    def defaults(self) -> dict[str, Value]:
        """Return the values that stand for a missing row."""
        return {f.name: f.default for f in self.fields}


def _number(raw: bytes, end: float) -> float:
    value = float(raw)
    # Python reads "1_000" and "nan" as numbers; a store's text means neither by them.
    if b"_" in raw or not abs(value) < end:
        raise ValueError(f"{raw[:40]!r} is not a finite number in range")
    return value


def _integer(raw: bytes, limit: int) -> int:
    value = int(raw) if raw.lstrip(b"-").isdigit() and len(raw) < 21 else _number(raw, REAL["f64"])
    if value != int(value) or not -limit <= value < limit:
        raise ValueError(f"{raw[:40]!r} is not an integer in range")
    return int(value)


def _bool(raw: bytes) -> bool:
    try:
        return _FALSE_TRUE[raw.lower()]
    except KeyError:
        raise ValueError(f"{raw[:40]!r} is not a bool") from None


def _vector(raw: bytes, size: int) -> NDArray[np.float32]:
    if len(raw) != size:
        raise ValueError(f"{len(raw)} bytes where {size} are expected")
    # Bytes are immutable, so the view over them is read-only.
    vector = np.frombuffer(raw, "<f4")
    if not np.isfinite(vector).all():
        raise ValueError("a vector with numbers that are not finite")
    return vector
