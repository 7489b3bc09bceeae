"""What of a configuration is secret: in no message, in no document that operators see, not part of its id."""

from __future__ import annotations

from typing import Any

from app.config.problems import Path

FILE = "service.yaml"
HIDDEN = "(hidden)"


def is_secret(path: Path) -> bool:
    """Whether what stands at a path (file name first) may hold a key, a token or a password.

    All of `clients` may, since a key is easily put where its client's mapping belongs.
    """
    if path[:1] != (FILE,):
        return False
    inside = path[1:]
    return inside[:1] in (("clients",), ("token",)) or inside in (("store",), ("store", "url"))


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
    if isinstance(store, dict) and "@" in str(store.get("url", "")):
        scheme, _, rest = str(store["url"]).partition("://")
        shown["store"] = {**store, "url": f"{scheme}://{HIDDEN}@{rest.rpartition('@')[2]}"}
    clients = document.get("clients")
    if isinstance(clients, dict):
        shown["clients"] = {name: _without_key(client) for name, client in clients.items()}
    return shown


def _without_key(client: Any) -> Any:
    return {**client, "key": HIDDEN} if isinstance(client, dict) and client.get("key") else client
