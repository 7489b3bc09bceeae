"""What the shell reads from request headers, in one pass, and the rules that hang on them."""

from __future__ import annotations

import hmac
import ipaddress
import itertools
import os
import re
from collections.abc import Iterable

from app.problems import Problem

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:~+/=-]{1,128}")
_FORWARDING = frozenset(
    (
        b"forwarded",
        b"via",
        b"x-forwarded-for",
        b"x-forwarded-host",
        b"x-forwarded-proto",
        b"x-forwarded-by",
        b"x-real-ip",
        b"x-client-ip",
        b"true-client-ip",
        b"cf-connecting-ip",
    )
)
_TOKEN = b"x-recserve-token"


class Headers:
    """The headers that matter here. Values are bytes as received; absent ones are None."""

    __slots__ = (
        "content_encoding",
        "content_length",
        "content_type",
        "forwarded",
        "request_id",
        "token",
        "transfer_encoding",
    )

    def __init__(self, raw: Iterable[tuple[bytes, bytes]]) -> None:
        self.content_type: bytes | None = None
        self.content_encoding: bytes | None = None
        self.content_length: bytes | None = None
        self.request_id: bytes | None = None
        self.token: bytes | None = None
        self.transfer_encoding: bytes | None = None
        self.forwarded = False
        for name, value in raw:
            if name == b"content-type":
                self.content_type = value
            elif name == b"content-length":
                self.content_length = value
            elif name == b"x-request-id":
                self.request_id = value if _REQUEST_ID.fullmatch(value) else None
            elif name == b"content-encoding":
                self.content_encoding = value
            elif name == b"transfer-encoding":
                before: bytes | None = self.transfer_encoding
                self.transfer_encoding = value if before is None else before + b"," + value
            elif name == _TOKEN:
                self.token = value
            elif name in _FORWARDING:
                self.forwarded = True

    def require_json(self) -> None:
        """Raise Problem (415, 501) unless the body is declared as plain UTF-8 JSON."""
        if self.transfer_encoding is not None and self.transfer_encoding.strip().lower() != b"chunked":
            raise Problem(
                "unsupported-transfer-encoding",
                "transfer-encoding: expected chunked alone, or a content-length",
                field="transfer-encoding",
            )
        if self.content_type == b"application/json" and self.content_encoding is None:
            return
        kind, _, parameters = (self.content_type or b"").lower().partition(b";")
        charset = parameters.strip().removeprefix(b"charset=").strip(b'"')
        if kind.strip() != b"application/json" or charset not in (b"", b"utf-8"):
            raise Problem(
                "unsupported-media-type",
                "content-type: expected application/json in UTF-8 (curl: -H 'content-type: application/json')",
                field="content-type",
            )
        if (self.content_encoding or b"identity").strip().lower() != b"identity":
            raise Problem(
                "unsupported-media-type",
                "content-encoding: expected none, the body is read as it is",
                field="content-encoding",
            )

    def may_debug(self, local: bool, token: str) -> bool:
        """Whether debug output may go to this caller: a direct peer on loopback, or one that has the token."""
        if local and not self.forwarded:
            return True
        return bool(token) and self.token is not None and hmac.compare_digest(self.token, token.encode())


def is_loopback(host: str | None) -> bool:
    """Whether a peer's address is this machine's loopback, IPv4 in IPv6 included."""
    if host is None:
        return False
    if host == "127.0.0.1":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


class RequestIds:
    """Request ids: 64 random bits per process and a counter. 0.2 us each, where uuid4 takes about 2."""

    def __init__(self) -> None:
        self._prefix = os.urandom(8).hex()
        self._next = itertools.count(1).__next__

    def new(self) -> str:
        """An id that no other process and no other call returns."""
        return f"{self._prefix}-{self._next():x}"
