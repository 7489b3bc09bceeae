"""Whom to load: an address out of what a person typed, and only this machine's unless they insist."""

from __future__ import annotations

import ipaddress
import json
import socket
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from typing import Any
from urllib.parse import urlsplit

_SECONDS = 5.0


class NoTarget(Exception):
    """The address can't be loaded; the text says why and what to do."""


@dataclass(frozen=True)
class Target:
    """A service. `address` is numeric; `url` and `host` (for the header) are as people write them."""

    url: str
    host: str
    address: tuple[str, int]

    @classmethod
    def of(cls, text: str, *, anywhere: bool = False) -> Target:
        """From a URL or a port of this machine. Raises NoTarget."""
        url = f"http://127.0.0.1:{text}" if text.isdecimal() else text
        try:
            place = urlsplit(url)
            name, port = place.hostname, place.port or 80
        except ValueError:
            name = None
        if name is None or place.scheme != "http" or place.path.strip("/") or place.query:
            raise NoTarget(f"{text}: expected a port, or an address such as http://127.0.0.1:8000 (http, no path).")
        try:
            found = {info[4][0] for info in socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)}
        except OSError as error:
            raise NoTarget(f"{name}: not found ({error.strerror or error}).") from None
        if not anywhere and not all(ipaddress.ip_address(str(one)).is_loopback for one in found):
            raise NoTarget(
                f"{name} is another machine, and a load test is an attack on whoever didn't ask for it. "
                "Give --anywhere if it is yours to load."
            )
        return cls(url.rstrip("/"), place.netloc, _reached(name, port, url))

    def version(self) -> dict[str, Any]:
        """What `GET /version` says. Raises NoTarget."""
        connection = HTTPConnection(*self.address, timeout=_SECONDS)
        try:
            connection.request("GET", "/version", headers={"host": self.host})
            document = json.loads(connection.getresponse().read())
        except (OSError, HTTPException, ValueError) as error:
            raise NoTarget(f"{self.url}/version: no answer that recserve would give ({error}).") from None
        finally:
            connection.close()
        if not isinstance(document, dict):
            raise NoTarget(f"{self.url}/version: not an answer that recserve would give.")
        return document


def _reached(name: str, port: int, url: str) -> tuple[str, int]:
    """The first of a name's addresses that accepts a connection. Raises NoTarget."""
    try:
        with socket.create_connection((name, port), _SECONDS) as connection:
            host, number = connection.getpeername()[:2]
    except OSError as error:
        raise NoTarget(f"{url}: can't be reached ({error.strerror or error}). Is the service started?") from None
    return str(host), int(number)
