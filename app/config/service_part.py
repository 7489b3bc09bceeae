"""service.yaml -> Service."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

from app.config.bind import Binder, entries
from app.config.model import ContextField, Service
from app.config.quantities import QuantityError, context_field
from app.config.shapes import ServiceShape
from app.config.yaml_nodes import INVALID

FILE = "service.yaml"
HIDDEN = "(hidden)"
SCHEMES = ("redis", "rediss", "unix", "valkey", "valkeys")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
PACKAGE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


def service_of(binder: Binder, document: Any) -> Service:
    """The service's settings; what is wrong falls back to defaults, so that other files can be checked."""
    shape = binder.value(document, (FILE,), ServiceShape)
    if shape is INVALID:
        raw = document.get("context") if isinstance(document, dict) else None
        return Service(context=_context(binder, raw if isinstance(raw, dict) else {}))
    if shape.store.url and not _is_store(shape.store.url):
        # The URL may hold a password: it is never repeated.
        binder.findings.add((FILE, "store", "url"), "Not a store's URL. Expected redis://host:port/0 or unix:///path.")
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
    )


def _is_store(url: str) -> bool:
    try:
        place = urlsplit(url)
        return url.isprintable() and place.scheme in SCHEMES and place.port != 0
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


def without_secrets(document: dict[str, Any]) -> dict[str, Any]:
    """service.yaml's document as operators may see it: no token, and no password in the store's URL."""
    shown = {**document, "token": HIDDEN} if document.get("token") else dict(document)
    store = document.get("store")
    if isinstance(store, dict) and "@" in str(store.get("url", "")):
        scheme, _, rest = str(store["url"]).partition("://")
        shown["store"] = {**store, "url": f"{scheme}://{HIDDEN}@{rest.rpartition('@')[2]}"}
    return shown
