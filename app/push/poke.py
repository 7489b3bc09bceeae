"""Asking the running service, over its operator listener, to take what was activated."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

SECONDS, PUSH_SECONDS = 5.0, 600.0


class NoService(Exception):
    """No service of these releases answers there; str() says what does."""


def operator_url() -> str:
    """Where the operator's listener is unless said otherwise: OPERATOR_PORT, else 8001."""
    return f"http://127.0.0.1:{os.environ.get('OPERATOR_PORT') or 8001}"


def find(url: str, releases: Path) -> Mapping[str, Any]:
    """The status of the service that listens there. Raises NoService when it isn't one of these releases."""
    status, document = _ask(url, "GET", "/admin/status", SECONDS)
    if status != 200:
        raise NoService(f"{url}: answered {status}. Is it the operator's address?")
    push = document.get("push")
    theirs = push.get("releases") if isinstance(push, dict) else None
    if theirs is not None and theirs != str(releases.resolve()):
        raise NoService(f"{url}: a service that serves {theirs}, not {releases.resolve()}.")
    return document


def reload(url: str) -> Sequence[str]:
    """Have it push what is active; the errors, empty when all workers serve it. Raises NoService."""
    status, document = _ask(url, "POST", "/admin/reload", PUSH_SECONDS)
    if status == 200:
        return []
    errors = document.get("errors")
    return [str(error) for error in errors] if isinstance(errors, list) else [f"{url}: answered {status}."]


def _ask(url: str, method: str, path: str, seconds: float) -> tuple[int, Mapping[str, Any]]:
    try:
        place = urlsplit(url)
        connection = HTTPConnection(place.hostname or "", place.port, timeout=seconds)
        try:
            connection.request(method, place.path.rstrip("/") + path)
            response = connection.getresponse()
            document = json.loads(response.read())
        finally:
            connection.close()
    except ConnectionRefusedError:
        raise NoService(f"{url}: nothing listens there.") from None
    except (OSError, HTTPException, ValueError, RecursionError) as error:
        raise NoService(f"{url}: can't be asked ({str(error) or type(error).__name__}).") from None
    return response.status, document if isinstance(document, dict) else {}
