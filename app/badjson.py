"""Why a body couldn't be decoded, said truthfully: the field or the byte, and what was expected there.

Runs only when decoding failed, so it may read the body again.
"""

from __future__ import annotations

import codecs
import difflib
import re
from collections.abc import Mapping
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import msgspec

from app.problems import Problem
from app.wire import Attribute, Id

_BYTE = re.compile(r"\(byte (\d+)\)$")
_PATH = re.compile(r"^(?P<what>.*?)(?: - at `\$(?P<path>.*)`)?$", re.DOTALL)
_UNKNOWN = re.compile(r"^Object contains unknown field `(?P<name>.*?)`(?: - at `\$(?P<path>[^`]*)`)?$", re.DOTALL)
_KEY = re.compile(r" - at `key` in `\$\.(?P<field>\w+)`$")
_MISSING = re.compile(r"^Object missing required field `(?P<name>\w+)`$")
_GOT = re.compile(r", got `(?P<got>[^`]*)`$")
_ESCAPE = re.compile(rb"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)
_CONSTANTS = (b"-Infinity", b"Infinity", b"NaN")
_JSON_NAMES = {
    "str": "a string",
    "int": "an integer",
    "float": "a number with a fraction or an exponent, or beyond 64 bits",
    "bool": "a boolean",
    "null": "null",
    "array": "an array",
    "object": "an object",
}
_MAX_NAME = 64
# Objects with names of the caller's own: the type of a value, and what a message says was expected.
_MAPS: Mapping[str, tuple[Any, str]] = {
    "context": (Attribute, "a string, a 64-bit integer, a finite number or a boolean"),
    "force": (Id, 'the name of a bucket or "default", a string of 1 to 256 bytes'),
}


class Explainer:
    """Turns msgspec's errors about one struct into problems. Immutable after construction."""

    def __init__(self, root: type[msgspec.Struct]) -> None:
        self._rules = dict(_rules(root, ""))
        self._names = {prefix: _fields(self._rules, prefix) for prefix in {"", *map(_parent, self._rules)}}

    def problem(self, error: msgspec.MsgspecError | RecursionError | UnicodeDecodeError, body: bytes) -> Problem:
        """The problem to answer with. `error` is what decoding `body` raised."""
        if isinstance(error, RecursionError):
            return Problem("malformed-json", "the body is nested too deeply", field="body")
        if isinstance(error, msgspec.ValidationError):
            return self._validation(str(error), body)
        return _syntax(str(error), body)

    def _validation(self, message: str, body: bytes) -> Problem:
        if unknown := _UNKNOWN.match(message):
            return self._unknown(unknown["name"], unknown["path"] or "")
        if key := _KEY.search(message):
            field = key["field"]
            return Problem("out-of-range", f"{field}: expected names of 1 to 256 bytes", field=field)
        match = _PATH.match(message)
        what, path = (match["what"], match["path"] or "") if match else (message, "")
        if missing := _MISSING.match(what):
            field = _join(path, missing["name"])
            return Problem("missing-field", f"{field}: missing. Expected {self._expected(field)}", field=field)
        field = path.lstrip(".")
        if field.endswith("[...]"):
            field = _culprit(body, field.removesuffix("[...]"))
        got = _GOT.search(what)
        if got is None:
            return Problem("out-of-range", f"{field}: expected {self._expected(field)}", field=field)
        detail = f"{field or 'body'}: expected {self._expected(field)}, got {_JSON_NAMES.get(got['got'], got['got'])}"
        if got["got"] in ("int", "float") and " bytes" in self._expected(field):
            name = self._expected(field).startswith("the name")
            detail += ". Names are strings" if name else '. Send ids as strings: "1607", not 1607'
        return Problem("wrong-type", detail, field=field or "body")

    def _unknown(self, name: str, path: str) -> Problem:
        known = self._names.get(_template(path), ())
        near = difflib.get_close_matches(name[:_MAX_NAME], known, 1)
        hint = f'Did you mean "{near[0]}"?' if near else f"Known here: {', '.join(known)}."
        shown = _join(path, name if len(name) <= _MAX_NAME else name[:_MAX_NAME] + "…")
        return Problem("unknown-field", f"{shown}: not a field of this object. {hint}", field=shown)

    def _expected(self, field: str) -> str:
        return self._rules.get(_template(field), "an object")


def _syntax(message: str, body: bytes) -> Problem:
    if body.startswith(codecs.BOM_UTF8):
        detail = "the body starts with a byte order mark (EF BB BF). Send UTF-8 without one"
        return Problem("malformed-json", detail, byte=0)
    if lone := _lone_surrogate(body):
        return lone
    try:
        body.decode()
    except UnicodeDecodeError as error:
        return Problem("malformed-json", f"byte {error.start} is not valid UTF-8", byte=error.start)
    found = _BYTE.search(message)
    if found is None:
        if not body.strip():
            return Problem("malformed-json", "the body is empty. Expected a JSON object", byte=0)
        return Problem("malformed-json", f"the body ends at byte {len(body)}, inside a value", byte=len(body))
    at, reason = int(found[1]), message[: found.start()].removeprefix("JSON is malformed: ")
    if reason.startswith("trailing characters"):
        at -= 1  # msgspec counts the byte that it has read here, elsewhere the one that it is at
    for constant in _CONSTANTS:
        start = at - 1 if constant[:1] == b"-" else at
        if start >= 0 and body.startswith(constant, start):
            detail = f"{constant.decode()} at byte {start} is not JSON. Send a finite number, or leave the field out"
            return Problem("not-a-number", detail, byte=start)
    return Problem("malformed-json", f"{reason}at byte {at}", byte=at)


def _lone_surrogate(body: bytes) -> Problem | None:
    """The first escape of half a surrogate pair. msgspec reports some of these as truncated input."""
    expected = -1
    for match in _ESCAPE.finditer(body):
        unit = int(match[1], 16) if match[1] else 0
        if match.start() == expected:
            expected = -1
            if 0xDC00 <= unit <= 0xDFFF:
                continue
        if 0xD800 <= unit <= 0xDBFF:
            rest = body[match.end() : match.end() + 6]
            if len(rest) < 6 and b'"' not in rest:
                return None  # the body ends inside the pair
            if not re.match(rb"\\u[dD][c-fC-F]", rest):
                return _surrogate(match.start())
            expected = match.end()
        elif 0xDC00 <= unit <= 0xDFFF:
            return _surrogate(match.start())
    return None


def _surrogate(at: int) -> Problem:
    return Problem("malformed-json", f"the escape at byte {at} is half a surrogate pair, not a character", byte=at)


def _culprit(body: bytes, field: str) -> str:
    """The value in one of _MAPS that doesn't decode: msgspec's path leaves an object's keys out."""
    try:
        values: dict[str, msgspec.Raw] = getattr(msgspec.json.decode(body, type=_Loose), field)
    except (msgspec.MsgspecError, RecursionError):
        return field
    for name, raw in values.items():
        if not _decodes(raw, _MAPS[field][0]):
            return _join(field, name if len(name) <= _MAX_NAME else name[:_MAX_NAME] + "…")
    return field


def _decodes(raw: msgspec.Raw, wanted: Any) -> bool:
    try:
        msgspec.json.decode(raw, type=wanted)
    except (msgspec.MsgspecError, RecursionError):
        return False
    return True


class _Loose(msgspec.Struct):
    context: dict[str, msgspec.Raw] = {}
    force: dict[str, msgspec.Raw] = {}


def _rules(root: type[msgspec.Struct], prefix: str) -> list[tuple[str, str]]:
    """(path template, what is expected there) of every field, array elements as `name[]`."""
    rules = []
    for name, hint in get_type_hints(root, include_extras=True).items():
        path = _join(prefix, name)
        rules.append((path, _description(hint) or "a valid value"))
        for element in _elements(hint):
            if isinstance(element, type) and issubclass(element, msgspec.Struct):
                rules.append((f"{path}[]", "an object"))
                rules.extend(_rules(element, f"{path}[]"))
            else:
                rules.append((f"{path}[]", _description(element) or "a valid value"))
        if path in _MAPS:
            rules.append((f"{path}[...]", _MAPS[path][1]))
    return rules


def _description(hint: Any) -> str | None:
    metas = [meta for meta in getattr(hint, "__metadata__", ()) if isinstance(meta, msgspec.Meta)]
    return next((meta.description for meta in reversed(metas) if meta.description), None)


def _elements(hint: Any) -> list[Any]:
    """Element types of the arrays that `hint` allows."""
    if get_origin(hint) is Annotated:
        return _elements(get_args(hint)[0])
    if get_origin(hint) is tuple:
        return [get_args(hint)[0]]
    return [element for option in get_args(hint) if get_origin(option) for element in _elements(option)]


def _fields(rules: Mapping[str, str], prefix: str) -> tuple[str, ...]:
    """Names of the fields directly under `prefix`."""
    return tuple(path[len(prefix) :].lstrip(".") for path in rules if _parent(path) == prefix and path[-1] != "]")


def _parent(path: str) -> str:
    return path.rpartition(".")[0]


def _template(path: str) -> str:
    field = re.sub(r"\[\d+\]", "[]", path.lstrip("."))
    head, dot, _ = field.partition(".")
    return f"{head}[...]" if dot and head in _MAPS else field


def _join(path: str, name: str) -> str:
    base = path.lstrip(".")
    return f"{base}.{name}" if base else name
