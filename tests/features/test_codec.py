import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features import codec
from features.codec import RowField, RowSchema, decode_rows, encode_rows
from features.proto import row_pb2
from features.proto.row_pb2 import Row

SCHEMA = RowSchema(
    7, (RowField("embedding", "f32", 3), RowField("age"), RowField("h", "f16"), RowField("q", "int8", 2))
)
KEYS = np.array([1, 2**64 - 1, 0, 77, 10**18], np.uint64)


def columns(n: int) -> dict[str, np.ndarray]:
    return {
        "embedding": np.arange(3 * n, dtype=np.float32).reshape(n, 3),
        "age": np.linspace(0, 1, n, dtype=np.float32),
        "h": np.full(n, 0.5, np.float32),
        "q": np.tile(np.array([127, -63.5], np.float32), (n, 1)),
    }


def test_a_batch_survives_encoding_and_decoding() -> None:
    values = encode_rows(KEYS, columns(5), SCHEMA)
    decoded = decode_rows(values, KEYS, SCHEMA)
    assert decoded.present.all()
    assert decoded.failures == 0
    for name, column in columns(5).items():
        np.testing.assert_allclose(decoded.columns[name], column, atol=0.51 if name == "q" else 0)
        assert not decoded.columns[name].flags.writeable


def test_our_encoding_is_the_one_that_protobuf_writes() -> None:
    block = encode_rows(KEYS, columns(5), SCHEMA)[1]
    row = Row.FromString(block)
    assert (row.schema, row.key) == (7, 2**64 - 1)
    assert row.SerializeToString(deterministic=True) == block
    zero = encode_rows(np.zeros(1, np.uint64), {"x": np.zeros(1)}, RowSchema(1, (RowField("x"),)))[0]
    assert zero == Row(schema=1, key=0, block=bytes(4)).SerializeToString()


def test_blocks_longer_than_one_varint_byte_have_a_canonical_header() -> None:
    for width in (31, 32, 33, 4096):
        schema = RowSchema(1, (RowField("v", "f32", width),))
        value = encode_rows(KEYS[:1], {"v": np.ones((1, width))}, schema)[0]
        assert value == Row(schema=1, key=1, block=np.ones(width, "<f4").tobytes()).SerializeToString()


def mangle(kind: str, good: bytes, other: bytes) -> bytes | None:
    row = Row.FromString(good)
    schema, key, block = good[:5], good[5:14], good[14:]
    return {
        "good": good,
        "absent": None,
        "empty": b"",
        "truncated": good[:-1],
        "reordered": block + key + schema,
        "unknown field": good + b"\x28\x01",
        "unknown in front": b"\x28\x01" + good,
        "another id's value": other,
        "another schema": Row(schema=8, key=row.key, block=row.block).SerializeToString(),
        "short block": Row(schema=7, key=row.key, block=row.block[:-1]).SerializeToString(),
        "no key": schema + block,
        "repeated field": good + good,
        "same length, other tags": b"\x15" + good[1:],
    }[kind]


KINDS = [
    "good", "absent", "empty", "truncated", "reordered", "unknown field", "unknown in front", "another id's value",
    "another schema", "short block", "no key", "repeated field", "same length, other tags",
]  # fmt: skip


GARBAGE = st.none() | st.binary(max_size=70)


def one_by_one(values: list[bytes | None], keys: np.ndarray) -> list[bytes | None]:
    return [None if v is None else codec._parse(v, int(k), SCHEMA) for v, k in zip(values, keys, strict=True)]


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(KINDS), st.integers(0, 2**64 - 1), st.binary(max_size=70) | st.none()), max_size=12
    )
)
def test_fast_path_and_protobuf_agree_on_any_mix(parts: list[tuple[str, int, bytes | None]]) -> None:
    keys = np.array([key for _, key, _ in parts], np.uint64)
    good = encode_rows(keys, columns(len(parts)), SCHEMA)
    values = [
        garbage if garbage is not None else mangle(kind, value, other)
        for (kind, _, garbage), value, other in zip(parts, good, good[::-1], strict=True)
    ]
    expected = one_by_one(values, keys)
    decoded = decode_rows(values, keys, SCHEMA)
    assert decoded.present.tolist() == [e is not None for e in expected]
    assert decoded.failures == sum(v is not None and e is None for v, e in zip(values, expected, strict=True))
    for i, block in enumerate(expected):
        for f in SCHEMA.fields:
            got = decoded.columns[f.name][i]
            if block is None:
                assert np.isnan(got).all()
            else:
                record = np.frombuffer(block, SCHEMA.block)[0]
                scale = np.float32(record[f"{f.name}/scale"] if f.kind == "int8" else 1)
                np.testing.assert_array_equal(got, np.float32(record[f.name]) * scale)


def test_numbers_that_a_kind_cannot_hold_are_refused() -> None:
    for f, value in ((RowField("x", "f16"), 70000.0), (RowField("x", "int8"), np.nan), (RowField("x", "int8"), np.inf)):
        with pytest.raises(ValueError, match="field 'x'"):
            encode_rows(KEYS[:1], {"x": np.array([value])}, RowSchema(1, (f,)))
    with pytest.raises(ValueError, match="schema"):
        RowSchema(0, (RowField("x"),))


def test_generated_code_agrees_with_the_proto_file() -> None:
    text = Path("features/proto/row.proto").read_text()
    types = {"fixed32": 7, "fixed64": 6, "bytes": 12, "float": 2, "Event": 11}
    written = {
        (message, name, types[kind], int(number), label)
        for message, body in re.findall(r"^message (\w+) \{(.*?)^\}", text, re.M | re.S)
        for label, kind, name, number in re.findall(r"^\s*(optional|repeated) (\w+) (\w+) = (\d+);", body, re.M)
    }
    generated = {
        (message.name, f.name, f.type, f.number, "repeated" if f.is_repeated else "optional")
        for message in row_pb2.DESCRIPTOR.message_types_by_name.values()
        for f in message.fields
    }
    assert written == generated
    assert all(f.has_presence for m in (row_pb2.Row, row_pb2.Event) for f in m.DESCRIPTOR.fields)
