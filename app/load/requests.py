"""Whole HTTP/1.1 requests as bytes, made before the clock starts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

_NOTHING: Mapping[str, Any] = MappingProxyType({})


def request_bytes(
    body: bytes, path: str = "/recommend", host: str = "127.0.0.1", headers: Mapping[str, str] = _NOTHING
) -> bytes:
    """A whole POST of a JSON body. `headers` come on top of host, content-type and content-length."""
    lines = [
        f"POST {path} HTTP/1.1",
        f"host: {host}",
        "content-type: application/json",
        f"content-length: {len(body)}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return "\r\n".join((*lines, "", "")).encode("latin-1") + body


def recommend_requests(
    scene: str,
    users: Iterable[str | None],
    *,
    size: int = 20,
    host: str = "127.0.0.1",
    headers: Mapping[str, str] = _NOTHING,
    **more: Any,
) -> tuple[bytes, ...]:
    """A `POST /recommend` for each user (None: anonymous). `more` are further members of the body, such as priority."""
    bodies = ({"scene": scene, "user_id": user, "size": size, **more} for user in users)
    return tuple(request_bytes(json.dumps(body).encode(), host=host, headers=headers) for body in bodies)
