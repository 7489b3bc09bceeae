"""What can go wrong at the edge, as RFC 9457 problem documents: one table from kind to status and title.

A problem names the field or the byte that is wrong and never repeats the body it came from.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

MEDIA_TYPE = b"application/problem+json"

KINDS: Mapping[str, tuple[int, str]] = MappingProxyType(
    {
        "malformed-json": (400, "The body is not valid JSON"),
        "malformed-request": (400, "The request is not valid HTTP"),
        "not-a-number": (400, "NaN and Infinity are not JSON"),
        "wrong-type": (400, "A value has the wrong type"),
        "unknown-field": (400, "A field is not known"),
        "missing-field": (400, "A required field is missing"),
        "unauthorized": (401, "A valid key is needed"),
        "debug-forbidden": (403, "Debug output is not allowed for this caller"),
        "cross-site": (403, "Requests from another site's pages are refused"),
        "no-such-path": (404, "There is nothing at this path"),
        "unknown-scene": (404, "The scene is not configured"),
        "method-not-allowed": (405, "The method is not allowed here"),
        "head-timeout": (408, "The request's head did not arrive in time"),
        "body-timeout": (408, "The body did not arrive in time"),
        "body-too-large": (413, "The body is too large"),
        "unsupported-media-type": (415, "The content type is not supported"),
        "misdirected": (421, "The host is not this listener's"),
        "out-of-range": (422, "A value is out of range"),
        "undeclared-context": (422, "A context attribute is not declared"),
        "wrong-context-type": (422, "A context attribute has the wrong type"),
        "undeclared-event": (422, "An event is not declared"),
        "why-not-needs-debug": (422, "why_not needs debug"),
        "force-needs-debug": (422, "force needs debug"),
        "reload-refused": (422, "The new configuration was refused"),
        "rate-limited": (429, "The client's rate is used up"),
        "head-too-large": (431, "The request's head is too large"),
        "internal": (500, "The service has a bug here"),
        "unsupported-transfer-encoding": (501, "The transfer encoding is not supported"),
        "overloaded": (503, "The service is at its limit"),
        "not-ready": (503, "The service is not ready"),
        "store-unavailable": (503, "The store did not answer"),
        "step-failed": (503, "A step that must not fail has failed"),
    }
)


class Problem(Exception):
    """A request that is answered with a problem document.

    `kind` is a key of KINDS; `members` are extension members such as `field` or `byte`; `headers` go
    into the answer (`allow`, `retry-after`).
    """

    def __init__(
        self,
        kind: str,
        detail: str,
        *,
        headers: Mapping[str, str] | None = None,
        **members: Any,
    ) -> None:
        super().__init__(detail)
        self.kind = kind
        self.detail = detail
        self.members = members
        self.headers = dict(headers or {})
        self.status, self.title = KINDS[kind]

    def document(self, request_id: str) -> dict[str, Any]:
        """The members of the document; `type` is stable and may be matched by clients."""
        return {
            "type": f"urn:recserve:problem:{self.kind}",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            **self.members,
            "request_id": request_id,
        }

    def encode(self, request_id: str) -> bytes:
        """The document as JSON."""
        return msgspec.json.encode(self.document(request_id))


class ProblemDocument(msgspec.Struct, frozen=True):
    """An RFC 9457 problem document; further members depend on the type."""

    type: str
    title: str
    status: int
    detail: str
    request_id: str
    field: str | None = None
    byte: int | None = None


def unavailable(kind: str, detail: str, *, retry_after: int = 1, **members: Any) -> Problem:
    """A 503 with Retry-After in seconds."""
    return Problem(kind, detail, headers={"retry-after": str(retry_after)}, **members)
