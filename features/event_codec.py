"""A user's events to bytes and back: protobuf `History` whose encoded events have one length.

26 bytes each, so values can be appended to and cut from the front in the store by
arithmetic on lengths alone, and read without a message object per event.
"""

from typing import Any

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
    chunks = np.frombuffer(value, _CHUNK, offset=odd, count=len(value) // CHUNK_BYTES)
    good = chunks["head"] == _CONSTANT["head"]
    for name in ("item_tag", "ts_tag", "event_tag", "weight_tag"):
        good &= chunks[name] == _CONSTANT[name]
    if odd or not good.all():
        if not tail:
            return _checked(_parse(value))
        bad = np.flatnonzero(~good)
        chunks = chunks[bad[-1] + 1 :] if len(bad) else chunks
        if not len(chunks):
            raise MalformedHistoryError("no canonical event at the end of a cut history")
    fields: NDArray[Any] = chunks[_FIELDS]
    return _checked(fields)


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
