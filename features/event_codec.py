"""A user's events to bytes and back: protobuf `History` whose encoded events have one length.

26 bytes each, so values can be appended to and cut from the front in the store by
arithmetic on lengths alone, and read without a message object per event.
"""

import numpy as np
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from features.proto.row_pb2 import History as HistoryMessage

# The chunk is History's field 1 with its length (2 bytes, read as one u2), then Event's
# four fields, each after its tag.
_CHUNK = np.dtype(
    [
        ("head", "<u2"),
        ("item_tag", "u1"),
        ("item", "<u8"),
        ("ts_tag", "u1"),
        ("ts", "<u4"),
        ("event_tag", "u1"),
        ("event", "<u4"),
        ("weight_tag", "u1"),
        ("weight", "<f4"),
    ]
)
_CONSTANT = {"head": 0x180A, "item_tag": 0x09, "ts_tag": 0x15, "event_tag": 0x1D, "weight_tag": 0x25}
_FIELDS = ["item", "ts", "event", "weight"]
_EVENT_IN_CHUNK = np.empty(0, _CHUNK)[_FIELDS].dtype

CHUNK_BYTES = _CHUNK.itemsize
"""Length of one encoded event."""

EVENT = np.dtype([("item", "<u8"), ("ts", "<u4"), ("event", "<u4"), ("weight", "<f4")])
"""A decoded event: hash of the item's id, epoch seconds, event code, weight."""


class MalformedHistoryError(ValueError):
    """A stored history that doesn't decode."""


def encode_events(events: NDArray[np.void]) -> bytes:
    """Return the canonical encoding of `events` (fields of EVENT, any layout)."""
    chunks = np.empty(len(events), _CHUNK)
    for name, value in _CONSTANT.items():
        chunks[name] = value
    for name in _FIELDS:
        chunks[name] = events[name]
    return chunks.tobytes()


# The bytes that are the same in every chunk, and where they are: in an event of zeros, all that aren't 0.
_OF_ZEROS = np.frombuffer(encode_events(np.zeros(1, EVENT)), np.uint8)
_CONSTANT_AT = _OF_ZEROS.nonzero()[0]
_CONSTANT_BYTES = _OF_ZEROS[_CONSTANT_AT]


def decode_events(value: bytes, *, tail: bool = False) -> NDArray[np.void]:
    """Return the events in a stored value, in its order, as records with the fields of EVENT.

    `tail` says that the value may have been cut from the front, in the middle of an
    event even: the longest run of canonical events at its end is returned then.
    Raises MalformedHistoryError when nothing can be made of the value, when an event
    lacks a field, or has a code of more than 16 bits.
    """
    if not value:
        return np.empty(0, EVENT)
    odd = len(value) % CHUNK_BYTES
    events = np.frombuffer(value, _EVENT_IN_CHUNK, offset=odd)
    chunks = np.frombuffer(value, np.uint8, offset=odd).reshape(-1, CHUNK_BYTES)
    good = chunks.take(_CONSTANT_AT, axis=1) == _CONSTANT_BYTES
    if odd or not good.all():
        if not tail:
            return _checked(_parse(value))
        bad = np.flatnonzero(~good.all(axis=1))
        events = events[bad[-1] + 1 :] if len(bad) else events
        if not len(events):
            raise MalformedHistoryError("no canonical event at the end of a cut history")
    return _checked(events)


def _checked(events: NDArray[np.void]) -> NDArray[np.void]:
    if len(events) and events["event"].max() > 0xFFFF:
        raise MalformedHistoryError("an event code has more than 16 bits")
    return events


def _parse(value: bytes) -> NDArray[np.void]:
    try:
        message = HistoryMessage.FromString(value)
    except DecodeError as error:
        raise MalformedHistoryError(str(error)) from error
    for event in message.events:
        if not all(event.HasField(name) for name in ("item", "ts", "event", "weight")):
            raise MalformedHistoryError("an event lacks a field")
    return np.array([(e.item, e.ts, e.event, e.weight) for e in message.events], EVENT)
