"""service.yaml -> Service."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from app.config import hidden
from app.config.bind import Binder, entries
from app.config.findings import Findings
from app.config.model import Client, ContextField, Service
from app.config.quantities import QuantityError, context_field
from app.config.shapes import ClientShape, ServiceShape
from app.config.yaml_nodes import INVALID

FILE = hidden.FILE
OPERATION = ("store", "releases", "token", "workers", "memory", "drain", "admission", "clients", "push", "exposures")
SCHEMES = ("redis://", "rediss://", "unix://", "valkey://", "valkeys://")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
KEY = re.compile(r"[!-~]{16,256}")  # what a header's value may hold, without spaces
PACKAGE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


def service_of(binder: Binder, document: Any) -> Service:
    """The service's settings; what is wrong falls back to defaults, so that other files can be checked."""
    shape = binder.value(document, (FILE,), ServiceShape)
    if shape is INVALID:
        raw = document.get("context") if isinstance(document, dict) else None
        return Service(context=_context(binder, raw if isinstance(raw, dict) else {}))
    if shape.store.url and not _is_store(shape.store.url):
        # The URL may hold a password: it is never repeated.
        binder.findings.add(
            (FILE, "store", "url"),
            "Not a store's URL. Expected redis://host:port/0 or unix:///path, and in a password %40 for @, %2F for /.",
        )
    for index, package in entries(shape.extensions):
        if not PACKAGE.fullmatch(package):
            binder.findings.add(
                (FILE, "extensions", index), f"{package!r} isn't a package's name. Expected my_package.channels."
            )
    return Service(
        store_url=shape.store.url,
        store_timeout=float(shape.store.timeout),
        store_connections=shape.store.connections,
        releases=shape.releases,
        extensions=tuple(package for package in shape.extensions if PACKAGE.fullmatch(package)),
        context=_context(binder, shape.context),
        token=shape.token or None,
        workers=shape.workers,
        memory=None if shape.memory is None else int(shape.memory),
        drain=float(shape.drain),
        admission_limit=shape.admission.limit,
        admission_wait=float(shape.admission.wait),
        clients=_clients(binder.findings, shape.clients),
        push_watch=shape.push.watch,
        push_canary=float(shape.push.canary),
        push_share=shape.push.share,
        exposures_format=shape.exposures.format,
    )


def _clients(findings: Findings, declared: Mapping[str, ClientShape]) -> dict[str, Client]:
    """The clients that are on. No message repeats a key, nor what may be one where a name belongs."""
    found: dict[str, Client] = {}
    owners: dict[str, str] = {}
    for name, shape in declared.items():
        path = (FILE, "clients", name)
        if not NAME.fullmatch(name):
            findings.add(path, "Not a client's name. Expected letters, digits and _.")
        if not shape.key:
            continue
        owner = owners.setdefault(shape.key, name)
        if not KEY.fullmatch(shape.key):
            findings.add(
                (*path, "key"),
                "Not a key. Expected 16 to 256 visible ASCII characters, such as those of `openssl rand -hex 16`.",
            )
        elif owner != name:
            other = "another client" if hidden.may_be_key(owner) else repr(owner)
            findings.add((*path, "key"), f"It is the key of {other} too. Give each client a key of its own.")
        burst = max(1, math.ceil(shape.rate)) if shape.burst is None else shape.burst
        found[name] = Client(name, shape.key, shape.rate, burst)
    return found


def _is_store(url: str) -> bool:
    """Whether it names a place; what would be read as one by mistake, an @ outside of the user's part, is none."""
    if not url.isprintable() or " " in url or not url.startswith(SCHEMES):
        return False
    try:
        place = urlsplit(url)
        if place.scheme == "unix":
            return place.hostname is None and len(place.path) > 1 and place.path[0] == "/" and not place.fragment
        rest = (place.path, place.query, place.fragment)
        return bool(place.hostname) and place.port != 0 and "@" not in "".join(rest)
    except ValueError:  # a port that is no number, an IPv6 address without its end
        return False


def _context(binder: Binder, declared: dict[str, Any]) -> dict[str, ContextField]:
    found: dict[str, ContextField] = {}
    for name, text in declared.items():
        path = (FILE, "context", name)
        if not NAME.fullmatch(name):
            binder.findings.add(path, f"{name!r} isn't a name. Expected letters, digits and _.")
        elif isinstance(text, str):
            try:
                found[name] = context_field(text)
            except QuantityError as error:
                binder.findings.add(path, str(error))
    return found
