from collections.abc import Iterable as _Iterable
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar

from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from google.protobuf.internal import containers as _containers

DESCRIPTOR: _descriptor.FileDescriptor

class Row(_message.Message):
    __slots__ = ("block", "key", "schema")
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    schema: int
    key: int
    block: bytes
    def __init__(self, schema: int | None = ..., key: int | None = ..., block: bytes | None = ...) -> None: ...

class Event(_message.Message):
    __slots__ = ("event", "item", "ts", "weight")
    ITEM_FIELD_NUMBER: _ClassVar[int]
    TS_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    item: int
    ts: int
    event: int
    weight: float
    def __init__(
        self,
        item: int | None = ...,
        ts: int | None = ...,
        event: int | None = ...,
        weight: float | None = ...,
    ) -> None: ...

class History(_message.Message):
    __slots__ = ("events",)
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[Event]
    def __init__(self, events: _Iterable[Event | _Mapping[str, object]] | None = ...) -> None: ...
