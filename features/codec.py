"""Stored values to numpy columns and back.

Values are protobuf (`proto/row.proto`). What we write ourselves has one length per
schema and constant bytes between the numbers (the canonical encoding), so a batch is
read with one `np.frombuffer` over the joined bytes: 53 us for 500 vectors of 64
against 4,000 us through message objects. One odd value would shift all that follow;
so a value takes the fast path only when its length, header bytes and key hash are the
canonical ones. Anything else goes to protobuf's own parser. What that refuses too is
counted, and treated as missing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from features.proto.row_pb2 import Row

Kind = Literal["f32", "f16", "int8"]
_STORED: Mapping[str, str] = {"f32": "<f4", "f16": "<f2", "int8": "i1"}
_SCHEMA_TAG, _KEY_TAG, _BLOCK_TAG = 0x0D, 0x11, 0x1A


@dataclass(frozen=True, slots=True)
class RowField:
    """A field of a block: `width` numbers stored as `kind`; int8 has an f32 scale before it."""

    name: str
    kind: Kind = "f32"
    width: int = 1


@dataclass(frozen=True, slots=True)
class RowSchema:
    """Layout of one view's rows. Raises ValueError for a number < 1, no fields, or a bad field."""

    number: int
    fields: tuple[RowField, ...]
    block: np.dtype[np.void] = field(init=False, repr=False, compare=False)
    row: np.dtype[np.void] = field(init=False, repr=False, compare=False)
    header: bytes = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not 1 <= self.number < 2**32 or not self.fields:
            raise ValueError("a row schema has a number from 1 to 2**32 - 1 and at least one field")
        parts: list[tuple[Any, ...]] = []
        for f in self.fields:
            if f.kind not in _STORED or f.width < 1:
                raise ValueError(f"field {f.name!r}: no such kind or width: {f.kind} {f.width}")
            if f.kind == "int8":
                parts.append((_scale(f.name), "<f4"))
            parts.append((f.name, _STORED[f.kind], (f.width,)) if f.width > 1 else (f.name, _STORED[f.kind]))
        block = np.dtype(parts)
        header = bytes([_BLOCK_TAG]) + _varint(block.itemsize)
        row = np.dtype(
            [
                ("schema_tag", "u1"),
                ("schema", "<u4"),
                ("key_tag", "u1"),
                ("key", "<u8"),
                ("header", "u1", (len(header),)),
                ("block", block),
            ]
        )
        for name, value in (("block", block), ("row", row), ("header", header)):
            object.__setattr__(self, name, value)


@dataclass(frozen=True, slots=True, eq=False)
class DecodedRows:
    """A decoded batch.

    columns   name -> f32[n] or f32[n, width], read-only, never infinite; NaN where the row or the value is missing
    present   bool[n], read-only
    failures  how many rows, and infinite values of fields, were there but count as missing
    """

    columns: Mapping[str, NDArray[np.float32]]
    present: NDArray[np.bool_]
    failures: int


def encode_rows(keys: NDArray[np.uint64], columns: Mapping[str, NDArray[Any]], schema: RowSchema) -> list[bytes]:
    """Return the canonical encoding of n rows, one value per id hash in `keys` (u64[n]).

    `columns` holds f32[n] or f32[n, width] per field. int8 takes its scale from each
    row's largest magnitude. Raises ValueError for a value that f16 or int8 can't hold.
    """
    rows = np.zeros(len(keys), schema.row)
    rows["schema_tag"], rows["schema"] = _SCHEMA_TAG, schema.number
    rows["key_tag"], rows["key"] = _KEY_TAG, keys
    rows["header"] = np.frombuffer(schema.header, np.uint8)
    block = rows["block"]
    for f in schema.fields:
        values = np.asarray(columns[f.name], np.float32)
        if f.kind == "f16" and np.any(np.abs(values) > np.finfo(np.float16).max):
            raise ValueError(f"field {f.name!r} has a magnitude above 65504, too large for f16")
        if f.kind == "int8":
            if not np.isfinite(values).all():
                raise ValueError(f"field {f.name!r} has a value that is not finite, int8 can't hold it")
            flat = values.reshape(len(keys), f.width)
            scale = np.abs(flat).max(axis=1, initial=0.0) / np.float32(127)
            block[_scale(f.name)] = scale
            divisor = np.where(scale > 0, scale, 1)[:, None]
            values = np.clip(np.rint(flat / divisor), -127, 127).reshape(values.shape)
        block[f.name] = values
    data, size = rows.tobytes(), schema.row.itemsize
    return [data[i : i + size] for i in range(0, len(data), size)]


def decode_rows(values: Sequence[bytes | None], keys: NDArray[np.uint64], schema: RowSchema) -> DecodedRows:
    """Decode n stored values (None: no such key) whose ids hash to `keys` (u64[n]).

    A value with another schema number, another key's hash or another length of block
    doesn't decode. Never raises for what a value holds.
    """
    block, present = _canonical(values, keys, schema)
    failures = 0
    if not present.all():
        for i in np.flatnonzero(~present).tolist():
            value = values[i]
            if value is None:
                continue
            parsed = _parse(value, int(keys[i]), schema)
            if parsed is None:
                failures += 1
                continue
            block[i] = np.frombuffer(parsed, schema.block)[0]
            present[i] = True
    present.setflags(write=False)
    columns: dict[str, NDArray[np.float32]] = {}
    for f in schema.fields:
        columns[f.name], infinite = _column(block, f, present)
        failures += infinite
    return DecodedRows(columns, present, failures)


def _canonical(
    values: Sequence[bytes | None], keys: NDArray[np.uint64], schema: RowSchema
) -> tuple[NDArray[np.void], NDArray[np.bool_]]:
    """Return (block[n], which of them are filled) of the values that are canonical."""
    size = schema.row.itemsize
    if len(values) == 1 and values[0] is not None and len(values[0]) == size:
        number = schema.number.to_bytes(4, "little")
        start = b"%c%b%c%b%b" % (_SCHEMA_TAG, number, _KEY_TAG, keys.tobytes(), schema.header)
        if values[0].startswith(start):  # a user's row, read alone: half the time of what follows
            return np.frombuffer(values[0], schema.block, offset=len(start)), np.ones(1, np.bool_)
    fitting = [value for value in values if value is not None and len(value) == size]
    rows = np.frombuffer(b"".join(fitting), schema.row)
    everything = len(fitting) == len(values)
    if everything:
        at = np.arange(len(values))
    else:
        at = np.flatnonzero([value is not None and len(value) == size for value in values])
        keys = keys[at]
    good = rows["key"] == keys
    good &= rows["schema"] == schema.number
    good &= rows["schema_tag"] == _SCHEMA_TAG
    good &= rows["key_tag"] == _KEY_TAG
    for i, byte in enumerate(schema.header):
        good &= rows["header"][:, i] == byte
    if everything and good.all():
        return rows["block"], good
    block = np.zeros(len(values), schema.block)
    present = np.zeros(len(values), np.bool_)
    at = at[good]
    block[at] = rows["block"][good]
    present[at] = True
    return block, present


def _parse(value: bytes, key: int, schema: RowSchema) -> bytes | None:
    try:
        row = Row.FromString(value)
    except DecodeError:
        return None
    if row.schema != schema.number or not row.HasField("key") or row.key != key:
        return None
    return row.block if len(row.block) == schema.block.itemsize else None


def _column(block: NDArray[np.void], f: RowField, present: NDArray[np.bool_]) -> tuple[NDArray[np.float32], int]:
    """Return a field's column, and how many of its values were infinite (all NaN now)."""
    column: NDArray[np.float32] = block[f.name].astype(np.float32)
    if f.kind == "int8":
        scale = block[_scale(f.name)]
        with np.errstate(over="ignore", invalid="ignore"):
            column *= scale[:, None] if f.width > 1 else scale
    infinite = np.isinf(column)
    unfit = 0
    if infinite.any():
        rows = infinite.any(axis=1) if f.width > 1 else infinite
        column[rows] = np.nan
        unfit = int(rows.sum())
    if not present.all():
        column[~present] = np.nan
    column.setflags(write=False)
    return column, unfit


def _scale(name: str) -> str:
    return f"{name}/scale"


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])
