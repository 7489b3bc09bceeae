"""What the shell reads from request headers, in one pass, and the rules that hang on them."""

from __future__ import annotations

import hmac
import ipaddress
import itertools
import os
import re
from collections.abc import Iterable

from app.problems import Problem
from app.wire import DEADLINE_RULE, MAX_DEADLINE_MS

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:~+/=-]{1,128}")
_FORWARDING_PREFIX = b"x-forwarded"
_FORWARDING = frozenset(
    (
        b"cf-connecting-ip",
        b"cf-connecting-ipv6",
        b"client-ip",
        b"fastly-client-ip",
        b"fly-client-ip",
        b"forwarded",
        b"forwarded-for",
        b"true-client-ip",
        b"via",
        b"x-client-ip",
        b"x-cluster-client-ip",
        b"x-envoy-external-address",
        b"x-original-forwarded-for",
        b"x-original-host",
        b"x-proxyuser-ip",
        b"x-real-ip",
    )
)
DEADLINE = "x-request-deadline-ms"
_SLOTS = {
    b"authorization": "authorization",
    b"content-encoding": "content_encoding",
    b"content-length": "content_length",
    b"content-type": "content_type",
    DEADLINE.encode(): "deadline",
    b"x-recserve-key": "key",
    b"x-recserve-token": "token",
    b"x-request-id": "request_id",
    b"transfer-encoding": "transfer_encoding",
}


class Headers:
    """The headers that matter here. Values are bytes as received; absent ones are None.

    One that is given twice has its values joined by a comma (RFC 9110, section 5.3), which none of these allows: no
    proxy and this service can read such a request differently.
    """

    __slots__ = (
        "authorization",
        "content_encoding",
        "content_length",
        "content_type",
        "deadline",
        "forwarded",
        "key",
        "request_id",
        "token",
        "transfer_encoding",
    )
    authorization: bytes | None
    content_encoding: bytes | None
    content_length: bytes | None
    content_type: bytes | None
    deadline: bytes | None
    key: bytes | None
    request_id: bytes | None
    token: bytes | None
    transfer_encoding: bytes | None

    def __init__(self, raw: Iterable[tuple[bytes, bytes]]) -> None:
        for slot in _SLOTS.values():
            setattr(self, slot, None)
        self.forwarded = False
        for name, value in raw:
            wanted = _SLOTS.get(name)
            if wanted is not None:
                before: bytes | None = getattr(self, wanted)
                setattr(self, wanted, value if before is None else before + b"," + value)
            elif name in _FORWARDING or name.startswith(_FORWARDING_PREFIX):
                self.forwarded = True
        if self.request_id is not None and not valid_request_id(self.request_id):
            self.request_id = None

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

    @property
    def credential(self) -> bytes | None:
        """The caller's key: of `x-recserve-key`, else of `authorization: Bearer`."""
        if self.key is not None or self.authorization is None:
            return self.key
        scheme, _, value = self.authorization.partition(b" ")
        return value.strip() if scheme.lower() == b"bearer" else None

    def budget(self, seconds: float) -> float:
        """The request's budget: its scene's, `seconds`, or less where the header says so. Raises Problem (422)."""
        value = self.deadline
        if value is None:
            return seconds
        # isdigit of bytes is ASCII's; no sign, no fraction, no underscore.
        if value.isdigit() and len(value) < 10 and 1 <= int(value) <= MAX_DEADLINE_MS:
            return min(seconds, int(value) / 1000)
        raise Problem("out-of-range", f"{DEADLINE}: expected {DEADLINE_RULE}", field=DEADLINE)

    def may_debug(self, local: bool, token: str) -> bool:
        """Whether debug output may go to this caller: a direct peer on loopback, or one that has the token."""
        if local and not self.forwarded:
            return True
        return bool(token) and self.token is not None and hmac.compare_digest(self.token, token.encode())


def valid_request_id(value: bytes) -> bool:
    """Whether a client's `x-request-id` is taken over: 1 to 128 characters that need no escaping anywhere."""
    return _REQUEST_ID.fullmatch(value) is not None


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
