"""What is wrong with a configuration, said so that its author can mend it, and all of it in one run."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from math import isfinite
from re import Pattern

Path = tuple[str | int, ...]
"""Where a value stands in the document: mapping keys and list positions from the root."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault: `path` points at the value, `message` says what is wrong and what was expected."""

    path: Path
    message: str

    def __str__(self) -> str:
        return f"{'.'.join(map(str, self.path))}: {self.message}"


def described(value: object) -> str:
    """Return `value` as a message shows it, with its type, cut to a readable length."""
    kinds: dict[type, str] = {bool: "the boolean", int: "the integer", float: "the number", str: "the text"}
    if value is None:
        return "nothing"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "a list"
    shown = repr(value) if not isinstance(value, bool) else str(value).lower()
    return f"{kinds.get(type(value), f'the {type(value).__name__}')} {shown[:80]}"


def nearest(name: object, known: Iterable[str]) -> str:
    """Return a sentence that proposes the closest of `known`, or lists what there is."""
    names = sorted(known)
    close = get_close_matches(str(name), names, n=1)
    if close:
        return f"Did you mean {close[0]!r}?"
    if not names:
        return "There are none."
    return f"Expected one of {', '.join(names[:12])}{', ...' if len(names) > 12 else ''}."


class Report:
    """Collects problems while a document is read; every reader returns a usable value or None."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def add(self, path: Path, wrong: str, fix: str) -> None:
        """Note one problem: `wrong` without a full stop, `fix` with its own."""
        self.problem(path, f"{wrong}. {fix}")

    def problem(self, path: Path, message: str) -> None:
        """Note one problem whose message is whole."""
        self.problems.append(Problem(path, message))

    def mapping(self, value: object, path: Path, what: str) -> Mapping[str, object]:
        """Return `value` if it is a mapping, an empty one otherwise; keys that aren't text are left out."""
        if not isinstance(value, Mapping):
            self.add(path, f"{what} is {described(value)}", "Expected a mapping.")
            return {}
        known: dict[str, object] = {}
        for key, entry in value.items():
            if not isinstance(key, str):
                self.add(path, f"The key {key!r} of {what} is {described(key)}", "Expected text; quote it.")
            elif not is_unicode(key):
                self.add(path, f"The key {key!r} of {what} holds a lone surrogate", "Expected valid Unicode.")
            else:
                known[key] = entry
        return known

    def fields(
        self, value: object, path: Path, what: str, required: Collection[str], optional: Collection[str] = ()
    ) -> Mapping[str, object]:
        """Return a mapping's fields after naming each that is unknown or missing."""
        fields = self.mapping(value, path, what)
        known = (*required, *optional)
        for key in fields:
            if key not in known:
                self.add((*path, key), f"{what} has no key {key!r}", nearest(key, known))
        if isinstance(value, Mapping):
            for key in required:
                if key not in fields:
                    self.add(path, f"{what} lacks {key!r}", f"Expected {', '.join(required)}.")
        return fields

    def sequence(self, value: object, path: Path, what: str) -> Sequence[object]:
        """Return `value` if it is a list, an empty one otherwise."""
        if isinstance(value, Sequence) and not isinstance(value, str | bytes):
            return value
        self.add(path, f"{what} is {described(value)}", "Expected a list.")
        return ()

    def text(self, value: object, path: Path, what: str) -> str | None:
        """Return `value` if it is text that is not blank and valid Unicode."""
        if isinstance(value, str) and value.strip():
            if value.isascii() or is_unicode(value):
                return value
            self.add(path, f"{what} holds a lone surrogate", "Expected valid Unicode.")
        else:
            self.add(path, f"{what} is {described(value)}", "Expected text that isn't empty.")
        return None

    def name(self, value: str, path: Path, what: str, pattern: Pattern[str], form: str) -> bool:
        """Say whether a key follows `pattern`; `form` describes the pattern to people."""
        if pattern.fullmatch(value):
            return True
        self.add(path, f"{what} can't be called {value!r}", f"Expected {form}.")
        return False

    def choice(self, value: object, path: Path, what: str, known: Collection[str]) -> str | None:
        """Return `value` if it is one of `known`."""
        if isinstance(value, str) and value in known:
            return value
        self.add(path, f"{what} is {described(value)}", nearest(value, known))
        return None

    def integer(self, value: object, path: Path, what: str, low: int, high: int) -> int | None:
        """Return `value` if it is an integer (not a boolean) in the closed range."""
        if isinstance(value, bool) or not isinstance(value, int):
            self.add(path, f"{what} is {described(value)}", f"Expected an integer from {low} to {high}.")
            return None
        if not low <= value <= high:
            self.add(path, f"{what} is {value}, out of range", f"Expected an integer from {low} to {high}.")
            return None
        return value


def finite(value: object) -> float | None:
    """Return a number (not a boolean) as a finite float, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if isfinite(number) else None


def is_unicode(text: str) -> bool:
    """Say whether `text` has a UTF-8 form, which a lone surrogate hasn't."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
