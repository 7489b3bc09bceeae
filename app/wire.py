"""The JSON documents of `/recommend` and `/events`, as structs. OpenAPI is generated from these.

A constraint's `description` is also what an error message says was expected, so each is written once.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

MAX_ID_BYTES = 256
MAX_SIZE = 500
MAX_IDS = 1000
MAX_WHY_NOT = 50
MAX_EVENTS = 1000
MAX_FORCED = 64
# 1970 to 2100. Milliseconds in place of seconds fall outside.
MAX_TS = 4_102_444_800
MAX_DEADLINE_MS = 60_000
DEADLINE_RULE = "milliseconds from arrival, an integer from 1 to 60000"

# Characters are at most bytes, so this bound is necessary but not sufficient: bytes are counted in app/http.py.
_ID = Meta(min_length=1, max_length=MAX_ID_BYTES, description="a string of 1 to 256 bytes")
_ID_OR_NULL = Meta(description="a string of 1 to 256 bytes, or null")

Id = Annotated[str, _ID]
OptionalId = Annotated[Id | None, _ID_OR_NULL]
Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Attribute = str | Int64 | float | bool
Ids = Annotated[
    tuple[Id, ...], Meta(max_length=MAX_IDS, description="an array of at most 1000 strings of 1 to 256 bytes")
]
DeadlineMs = Annotated[int, Meta(ge=1, le=MAX_DEADLINE_MS, description=DEADLINE_RULE)]
Priority = Literal["interactive", "prefetch", "batch"]


class RecommendRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Ask for a list. Only `scene` is required."""

    scene: Annotated[
        str, Meta(min_length=1, max_length=MAX_ID_BYTES, description="the name of a scene, a string of 1 to 256 bytes")
    ]
    user_id: OptionalId = None
    size: Annotated[int, Meta(ge=1, le=MAX_SIZE, description="an integer from 1 to 500")] = 20
    request_id: OptionalId = None
    device_id: OptionalId = None
    session_id: OptionalId = None
    context: Annotated[
        dict[str, Attribute],
        Meta(description="an object whose values are strings, 64-bit integers, finite numbers or booleans"),
    ] = {}
    exclude: Ids = ()
    candidates: Annotated[
        Annotated[tuple[Id, ...], Meta(max_length=MAX_IDS)] | None,
        Meta(description="an array of at most 1000 strings of 1 to 256 bytes, or null"),
    ] = None
    cursor: Annotated[None, Meta(description="null: this version has no paging")] = None
    debug: Annotated[bool, Meta(description="true or false")] = False
    why_not: Annotated[
        tuple[Id, ...],
        Meta(max_length=MAX_WHY_NOT, description="an array of at most 50 strings of 1 to 256 bytes"),
    ] = ()
    force: Annotated[
        dict[Id, Id],
        Meta(max_length=MAX_FORCED, description='an object of at most 64 layers, each with a bucket or "default"'),
    ] = {}
    priority: Annotated[
        Priority | None,
        Meta(description='"interactive", "prefetch", "batch", or null for the scene\'s'),
    ] = None


class Event(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Something a user did. `ts` is in epoch seconds."""

    user_id: Id
    item_id: Id
    event: Annotated[
        str,
        Meta(min_length=1, max_length=MAX_ID_BYTES, description="the name of an event, a string of 1 to 256 bytes"),
    ]
    ts: Annotated[
        float, Meta(ge=0, le=MAX_TS, description="epoch seconds (not milliseconds), a number from 0 to 4102444800")
    ]
    request_id: OptionalId = None


class EventsRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Record events, all or none."""

    events: Annotated[
        tuple[Event, ...], Meta(min_length=1, max_length=MAX_EVENTS, description="an array of 1 to 1000 events")
    ]


class EventsAnswer(msgspec.Struct, frozen=True):
    """How many events were recorded: all of them."""

    recorded: int


class Item(msgspec.Struct, frozen=True, gc=False):
    """One recommended item, with the channels that brought it and the fields its scene returns."""

    id: str
    score: float
    channels: list[str]
    fields: dict[str, Any]


class Degraded(msgspec.Struct, frozen=True):
    """A step that didn't run as configured, and why."""

    step: str
    reason: str


class RecommendAnswer(msgspec.Struct, frozen=True):
    """A ranked list. `short` is null, or why fewer items than asked came back."""

    request_id: str
    scene: str
    config: str
    release: str
    items: list[Item]
    buckets: dict[str, str]
    degraded: list[Degraded]
    short: str | None
    level: int
    cursor: str | None
    trace: dict[str, Any] | UnsetType = UNSET
