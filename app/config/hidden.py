"""What of a configuration is secret: in no message, in no document that operators see, not part of its id."""

from __future__ import annotations

import re
from typing import Any

from app.config.problems import Path

FILE = "service.yaml"
HIDDEN = "(hidden)"
KEY_LENGTH = 16
"""Characters that a client's key has at least."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def is_secret(path: Path) -> bool:
    """Whether what stands at a path (file name first) may hold a key, a token or a password.

    All of `clients` may, since a key is easily put where its client's mapping belongs.
    """
    if path[:1] != (FILE,):
        return False
    inside = path[1:]
    return inside[:1] in (("clients",), ("token",)) or inside in (("store",), ("store", "url"))


def may_be_key(text: str) -> bool:
    """Whether what stands where a client's name (or its setting's) belongs could be a key in the wrong place."""
    return len(text) >= KEY_LENGTH or _NAME.fullmatch(text) is None


def showable(path: Path) -> Path:
    """A path (file name first) as messages may show it: what stands where a name belongs may be a secret itself."""
    if not is_secret(path) and not is_secret(path[:-1]):
        return path
    known = 3 if path[1] == "store" else 2
    return tuple(
        part if at < known or isinstance(part, int) or (path[1] == "clients" and not may_be_key(part)) else HIDDEN
        for at, part in enumerate(path)
    )


def kind_of(value: object) -> str:
    """What a message says instead of a value that it must not repeat."""
    if value is None:
        return "nothing"
    kinds = {dict: "a mapping", list: "a list", str: "text", bool: "true or false"}
    return kinds.get(type(value), "a number")


def without_secrets(document: dict[str, Any]) -> dict[str, Any]:
    """service.yaml's document as operators may see it: no token, no keys, no password in the store's URL."""
    shown = {**document, "token": HIDDEN} if document.get("token") else dict(document)
    store = document.get("store")
    if isinstance(store, dict) and store.get("url"):
        shown["store"] = {**store, "url": _without_password(str(store["url"]))}
    clients = document.get("clients")
    if isinstance(clients, dict):
        shown["clients"] = {name: _without_key(client) for name, client in clients.items()}
    return shown


def _without_password(url: str) -> str:
    """A URL without user, password and parameters, which may be a password too."""
    scheme, mark, rest = url.partition("://")
    if not mark:
        return HIDDEN
    place, parameters, _ = rest.partition("?")
    host, slash, path = place.partition("/")
    if "@" in host:
        host = f"{HIDDEN}@{host.rpartition('@')[2]}"
    return f"{scheme}://{host}{slash}{path}{f'?{HIDDEN}' if parameters else ''}"


def _without_key(client: Any) -> Any:
    return {**client, "key": HIDDEN} if isinstance(client, dict) and client.get("key") else client
