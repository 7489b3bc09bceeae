"""Asking a running service: one POST over the standard library's client, and every failure as one line for a person."""

from __future__ import annotations

import argparse
import json
import os
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.parse import SplitResult, urlsplit

from app.cli.common import refuse
from app.problems import MEDIA_TYPE

DEFAULT_URL = "http://127.0.0.1:8000"
TOKEN = "RECSERVE_TOKEN"
KEY = "RECSERVE_KEY"
_SECONDS = 10.0


class Unreachable(Exception):
    """No answer came; the text says what to do."""


class Refused(Exception):
    """The service answered with a problem document (RFC 9457)."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        super().__init__(f"{document.get('title', 'The service refused')}: {document.get('detail', 'no detail given')}")
        self.document = document

    @property
    def kind(self) -> str:
        """The last part of its type, such as `unknown-scene`."""
        return str(self.document.get("type", "")).rpartition(":")[2]


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer's JSON, and the seconds from sending to having read it all."""

    answer: Mapping[str, Any]
    seconds: float


def add_client(parser: argparse.ArgumentParser, *, size: int = 20) -> None:
    """`--scene`, `--size`, `--url` and `--json`."""
    parser.add_argument("--scene", default="home", metavar="SCENE", help="the scene to ask (home)")
    parser.add_argument("--size", type=int, default=size, metavar="N", help=f"how many items to ask for ({size})")
    parser.add_argument("--url", default=DEFAULT_URL, help=f"where the service listens ({DEFAULT_URL})")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def recommend(url: str, body: Mapping[str, Any], *, seconds: float = _SECONDS) -> Reply:
    """POST `body` to `/recommend`. Raises Unreachable or Refused.

    The environment's RECSERVE_TOKEN, which debug output from another machine needs, and RECSERVE_KEY, which a service
    with clients wants, go along when they are set.
    """
    place = _place(url)
    headers = {"content-type": "application/json", "accept": "application/json", **credentials()}
    started = time.perf_counter()
    try:
        connection = _connection(place, seconds)
        try:
            connection.request("POST", place.path.rstrip("/") + "/recommend", json.dumps(body), headers)
            response = connection.getresponse()
            content = response.read()
        finally:
            connection.close()
    except (OSError, HTTPException, ValueError) as error:
        raise Unreachable(_why(url, error, seconds)) from error
    return Reply(_document(url, response, content), time.perf_counter() - started)


def credentials() -> dict[str, str]:
    """The headers of the environment's RECSERVE_TOKEN and RECSERVE_KEY. Raises Unreachable, repeating neither."""
    headers = {}
    for variable, header in ((TOKEN, "x-recserve-token"), (KEY, "x-recserve-key")):
        value = os.environ.get(variable, "")
        if not (value.isascii() and value.isprintable()):
            raise Unreachable(
                f"{variable} has a character that a header can't carry, such as a line break. Expected visible ASCII."
            )
        if value:
            headers[header] = value
    return headers


def tell(error: Unreachable | Refused, as_json: bool) -> int:
    """Tell a person, and with `--json` a program, what went wrong; the exit status."""
    if as_json and isinstance(error, Refused):
        print(json.dumps(dict(error.document), ensure_ascii=False))
    return refuse(error)


def _place(url: str) -> SplitResult:
    try:
        place = urlsplit(url)
        usable = place.scheme in ("http", "https") and bool(place.hostname) and place.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise Unreachable(f"--url {url}: not an address. Expected one such as {DEFAULT_URL}.")
    return place


def _connection(place: SplitResult, seconds: float) -> HTTPConnection:
    kind = HTTPSConnection if place.scheme == "https" else HTTPConnection
    return kind(place.hostname or "", place.port, timeout=seconds)


def _why(url: str, error: Exception, seconds: float) -> str:
    if isinstance(error, ConnectionRefusedError):
        return (
            f"{url}: nothing listens there. Start the service with `make serve` (or `recserve serve`), "
            "or say where it is with --url."
        )
    if isinstance(error, TimeoutError):
        return f"{url}: no answer within {seconds:.0f} s. Its /healthz tells whether it is alive."
    if isinstance(error, ssl.SSLError):
        return f"{url}: TLS failed ({error.reason or error}). The service itself speaks http."
    said = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return f"{url}: can't be asked ({said}). Is it the service's address?"


def _document(url: str, response: HTTPResponse, content: bytes) -> Mapping[str, Any]:
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        document = None
    kind = (response.getheader("content-type") or "").encode().partition(b";")[0].strip()
    if isinstance(document, dict) and response.status == 200 and "items" in document:
        return document
    if isinstance(document, dict) and kind == MEDIA_TYPE:
        raise Refused(document)
    raise Unreachable(f"{url}: answered {response.status} with something else than recserve does. Check --url.")
