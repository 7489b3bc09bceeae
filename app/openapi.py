"""The OpenAPI document: FastAPI's own for its routes, and the fast routes from the structs that decode them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from app.headers import DEADLINE
from app.problems import KINDS, ProblemDocument
from app.wire import DeadlineMs, EventsAnswer, EventsRequest, RecommendAnswer, RecommendRequest

_REF = "#/components/schemas/{name}"
_BODY_PROBLEMS = (
    "malformed-json",
    "not-a-number",
    "wrong-type",
    "unknown-field",
    "missing-field",
    "unauthorized",
    "rate-limited",
    "head-timeout",
    "head-too-large",
    "body-timeout",
    "body-too-large",
    "unsupported-transfer-encoding",
    "unsupported-media-type",
    "out-of-range",
    "internal",
    "overloaded",
    "not-ready",
)
_RECOMMEND_PROBLEMS = (
    *_BODY_PROBLEMS,
    "debug-forbidden",
    "unknown-scene",
    "undeclared-context",
    "wrong-context-type",
    "why-not-needs-debug",
    "step-failed",
)
_EVENTS_PROBLEMS = (*_BODY_PROBLEMS, "undeclared-event", "store-unavailable")
_KEYS: Mapping[str, Any] = {
    "key": {"type": "apiKey", "in": "header", "name": "x-recserve-key"},
    "bearer": {"type": "http", "scheme": "bearer"},
}
_EXAMPLES: Mapping[str, Mapping[str, Any]] = {
    "/recommend": {"scene": "home", "user_id": "1607", "size": 20, "context": {"region": "north", "hour": 9}},
    "/events": {"events": [{"user_id": "1607", "item_id": "1044078", "event": "click", "ts": 1764410400.0}]},
}


def with_fast_routes(document: dict[str, Any]) -> dict[str, Any]:
    """`document` (an OpenAPI 3.1 object), with `/recommend` and `/events` and their schemas added."""
    types = (RecommendRequest, RecommendAnswer, EventsRequest, EventsAnswer, ProblemDocument)
    _, schemas = msgspec.json.schema_components(types, ref_template=_REF)
    components = document.setdefault("components", {})
    components.setdefault("schemas", {}).update(schemas)
    components.setdefault("securitySchemes", {}).update(_KEYS)
    document["paths"] = {
        "/recommend": _post(
            "/recommend",
            "A ranked list for a user",
            RecommendRequest,
            RecommendAnswer,
            _RECOMMEND_PROBLEMS,
            [_deadline()],
        ),
        "/events": _post("/events", "Record what users did", EventsRequest, EventsAnswer, _EVENTS_PROBLEMS),
        **document["paths"],
    }
    return document


def _post(
    path: str,
    summary: str,
    request: type[msgspec.Struct],
    answer: type[msgspec.Struct],
    problems: tuple[str, ...],
    parameters: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    statuses = sorted({KINDS[kind][0] for kind in problems})
    return {
        "post": {
            "summary": summary,
            "description": request.__doc__,
            "operationId": path.strip("/"),
            # Without a configured client, none is asked for.
            "security": [{}, *({name: []} for name in _KEYS)],
            "parameters": list(parameters),
            "requestBody": {
                "required": True,
                "content": {"application/json": {"schema": _ref(request), "example": _EXAMPLES[path]}},
            },
            "responses": {
                "200": {"description": answer.__doc__, "content": {"application/json": {"schema": _ref(answer)}}},
                **{str(status): _problem(status, problems) for status in statuses},
            },
        }
    }


def _problem(status: int, problems: tuple[str, ...]) -> dict[str, Any]:
    titles = [KINDS[kind][1] for kind in problems if KINDS[kind][0] == status]
    return {
        "description": "; ".join(titles),
        "content": {"application/problem+json": {"schema": _ref(ProblemDocument)}},
    }


def _deadline() -> dict[str, Any]:
    """The header that shortens a request's budget."""
    schema = msgspec.json.schema(DeadlineMs)
    return {
        "name": DEADLINE,
        "in": "header",
        "required": False,
        "description": f"The request's budget, {schema.pop('description')}; it can only shorten the scene's.",
        "schema": schema,
    }


def _ref(struct: type) -> dict[str, str]:
    return {"$ref": _REF.format(name=struct.__name__)}
