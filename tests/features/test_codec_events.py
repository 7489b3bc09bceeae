import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.event_codec import CHUNK_BYTES, EVENT, MalformedHistoryError, decode_events, encode_events
from features.proto.row_pb2 import Event, History

RECORDS = st.lists(
    st.tuples(
        st.integers(0, 2**64 - 1),
        st.integers(0, 2**32 - 1),
        st.integers(0, 2**16 - 1),
        st.floats(width=32, allow_nan=False),
    ),
    max_size=8,
)


def message(records: list[tuple[int, int, int, float]]) -> History:
    return History(events=[Event(item=i, ts=t, event=e, weight=w) for i, t, e, w in records])


@settings(deadline=None)
@given(RECORDS, RECORDS)
def test_appended_encodings_are_one_protobuf_history(
    first: list[tuple[int, int, int, float]], second: list[tuple[int, int, int, float]]
) -> None:
    value = encode_events(np.array(first, EVENT)) + encode_events(np.array(second, EVENT))
    assert value == message(first + second).SerializeToString()
    assert len(value) == CHUNK_BYTES * len(first + second)
    assert decode_events(value).tolist() == first + second


@settings(deadline=None)
@given(RECORDS, st.integers(0, 100))
def test_cut_value_loses_only_what_was_cut(records: list[tuple[int, int, int, float]], cut: int) -> None:
    value = encode_events(np.array(records, EVENT))
    left = value[cut:]
    whole = len(left) // CHUNK_BYTES
    if whole or not left:
        assert decode_events(left, tail=True).tolist() == (records[-whole:] if whole else [])
    else:
        with pytest.raises(MalformedHistoryError):
            decode_events(left, tail=True)


def test_other_encodings_of_the_same_message_decode_to_the_same_events() -> None:
    records = [(1, 2, 3, 4.0), (5, 6, 7, 8.0)]
    canonical = encode_events(np.array(records, EVENT))
    unknown = b"\x12\x02hi" + canonical + b"\x12\x00"
    reordered = b"\x0a\x18" + canonical[21:26] + canonical[2:21] + canonical[26:]
    longer = b"\x0a\x1a" + canonical[2:26] + b"\x28\x01" + canonical[26:]
    for value in (unknown, reordered, longer):
        assert decode_events(value).tolist() == records


@settings(deadline=None)
@given(st.binary(max_size=120), RECORDS)
def test_garbage_is_refused_or_read_as_protobuf_reads_it(
    garbage: bytes, records: list[tuple[int, int, int, float]]
) -> None:
    value = encode_events(np.array(records, EVENT)) + garbage
    try:
        events = decode_events(value)
    except MalformedHistoryError:
        return
    parsed = [(e.item, e.ts, e.event, e.weight) for e in History.FromString(value).events]
    assert np.array(parsed, EVENT).tobytes() == np.array(events, EVENT).tobytes()


def test_event_without_a_field_or_with_a_long_code_is_malformed() -> None:
    for event in (Event(item=1, ts=2, event=3), Event(item=1, ts=2, event=2**16, weight=1)):
        with pytest.raises(MalformedHistoryError):
            decode_events(History(events=[event]).SerializeToString())
