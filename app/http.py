"""`/recommend` and `/events`: bytes to a checked request of the domain, the domain's answer to bytes."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from app.admission import Admission
from app.attributes import fill
from app.badjson import Explainer
from app.encode import AnswerEncoder
from app.headers import Headers
from app.observe import Metrics
from app.ports import Engine, Scene, Snapshot
from app.problems import Problem, unavailable
from app.wire import MAX_ID_BYTES, EventsAnswer, EventsRequest, Priority, RecommendRequest
from features.errors import StoreError
from stages.types import Request

T = TypeVar("T", bound=msgspec.Struct)


@dataclass(frozen=True, slots=True)
class Call:
    """What the shell hands to a fast route: the whole body, and when and from whom it came.

    `arrived` is in seconds of the event loop's clock; `local` says that the peer is this machine. The handler holds
    one of `admission`'s places while it works.
    """

    body: bytes
    headers: Headers
    request_id: str
    arrived: float
    local: bool
    admission: Admission


class Reader(Generic[T]):
    """Decodes one struct strictly; every failure is a Problem that names the field or the byte."""

    def __init__(self, struct: type[T]) -> None:
        self._decoder = msgspec.json.Decoder(struct)
        self._explainer = Explainer(struct)

    def read(self, body: bytes) -> T:
        """The decoded struct. Raises Problem."""
        try:
            return self._decoder.decode(body)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
            raise self._explainer.problem(error, body) from None


class _Sort(msgspec.Struct, frozen=True, gc=False):
    """Of a request only what its class depends on; everything else is skipped."""

    scene: str
    priority: Priority | None = None


class Recommend:
    """The handler of `POST /recommend`."""

    def __init__(self, engine: Engine, metrics: Metrics, token: str = "") -> None:
        self._engine = engine
        self._metrics = metrics
        self._token = token
        self._reader = Reader(RecommendRequest)
        self._sorts = msgspec.json.Decoder(_Sort)
        self._encoder = AnswerEncoder()

    def classify(self, body: bytes) -> Priority | None:
        """The class that a request with this body has, about 1 us; None when it can't be told."""
        if not self._engine.ready:
            return None
        try:
            sort = self._sorts.decode(body)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            return None
        scene = self._engine.snapshot.scenes.get(sort.scene)
        return sort.priority or (None if scene is None else scene.priority)

    async def __call__(self, call: Call) -> bytes:
        """The answer's JSON. Raises Problem."""
        snapshot = serving(self._engine)
        body = self._reader.read(call.body)
        if body.debug and not call.headers.may_debug(call.local, self._token):
            raise Problem(
                "debug-forbidden",
                "debug: allowed on loopback without a forwarding header, or with the header x-recserve-token",
                field="debug",
            )
        request = to_domain(body, snapshot, call)
        # No await between here and the engine pinning its snapshot: the request is checked against the
        # configuration that answers it.
        with call.admission.place(body.priority or snapshot.scenes[body.scene].priority):
            answer = await self._engine.recommend(request)
            self._metrics.answered(answer)
            return self._encoder.encode(answer)


class Events:
    """The handler of `POST /events`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._reader = Reader(EventsRequest)

    async def __call__(self, call: Call) -> bytes:
        """The count of recorded events. Raises Problem."""
        serving(self._engine)
        events = self._reader.read(call.body).events
        for at, event in enumerate(events):
            ids = (event.user_id, event.item_id, event.event, event.request_id or "")
            if any(map(_too_long, ids)):
                names = ("user_id", "item_id", "event", "request_id")
                name = next(name for name, value in zip(names, ids, strict=True) if _too_long(value))
                raise _long_id(f"events[{at}].{name}")
        with call.admission.place("interactive"):
            try:
                await self._engine.record(events)
            except StoreError as error:
                detail = "the store did not confirm the events; send them again"
                raise unavailable("store-unavailable", detail) from error
        return msgspec.json.encode(EventsAnswer(len(events)))


def serving(engine: Engine) -> Snapshot:
    """The snapshot that serves. Raises Problem (503) while the service isn't ready."""
    if not engine.ready:
        raise unavailable("not-ready", "the service is starting; GET /readyz says what it waits for")
    return engine.snapshot


def to_domain(body: RecommendRequest, snapshot: Snapshot, call: Call) -> Request:
    """Check what a schema can't say and fill the context's defaults. Raises Problem."""
    scene = snapshot.scenes.get(body.scene)
    if scene is None:
        raise _unknown_scene(body.scene, snapshot.scenes)
    if body.why_not and not body.debug:
        raise Problem(
            "why-not-needs-debug", "why_not: set debug to true to see why items are not listed", field="why_not"
        )
    if body.force and not body.debug:
        raise Problem("force-needs-debug", "force: set debug to true to be put into a bucket", field="force")
    _check_ids(body)
    return Request(
        scene=body.scene,
        user_id=body.user_id,
        size=body.size,
        request_id=body.request_id or call.request_id,
        context=fill(body.context, snapshot.context),
        device_id=body.device_id,
        session_id=body.session_id,
        exclude=body.exclude,
        candidates=body.candidates,
        debug=body.debug,
        why_not=body.why_not,
        forced=body.force,
        arrived=call.arrived,
        deadline=call.arrived + call.headers.budget(scene.budget),
    )


def _check_ids(body: RecommendRequest) -> None:
    """The schema bounds characters; ids are bounded in bytes."""
    for name in ("user_id", "request_id", "device_id", "session_id"):
        value = getattr(body, name)
        if value is not None and _too_long(value):
            raise _long_id(name)
    if not (body.exclude or body.candidates or body.why_not):
        return
    for name in ("exclude", "candidates", "why_not"):
        values: Iterable[str] = getattr(body, name) or ()
        for at, value in enumerate(values):
            if _too_long(value):
                raise _long_id(f"{name}[{at}]")


def _too_long(text: str) -> bool:
    return not text.isascii() and len(text.encode()) > MAX_ID_BYTES


def _long_id(field: str) -> Problem:
    return Problem("out-of-range", f"{field}: expected a string of 1 to {MAX_ID_BYTES} bytes", field=field)


def _unknown_scene(name: str, scenes: Mapping[str, Scene]) -> Problem:
    near = difflib.get_close_matches(name, scenes, 1)
    hint = f'Did you mean "{near[0]}"? ' if near else ""
    known = sorted(scenes)
    return Problem(
        "unknown-scene", f"scene: not configured. {hint}Scenes: {', '.join(known)}.", field="scene", scenes=known
    )
