"""The one error of the language, and the sentence that proposes what was probably meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_LISTED = 8


class ExpressionError(ValueError):
    """A text that is not a valid expression: `what is wrong. What was expected, nearest name or fix.`

    `message` is that sentence, `column_offset` the character of the text it is about (0-based).
    """

    def __init__(self, message: str, column_offset: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.column_offset = column_offset


def suggest(name: str, known: Iterable[str]) -> str:
    """Return `Did you mean x?`, or a list of what is known when nothing is near."""
    names = sorted(known)
    near = get_close_matches(name, names, n=1)
    if near:
        return f"Did you mean {near[0]}?"
    if not names:
        return "None are known here."
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return f"Known: {', '.join(names[:_LISTED])}{more}."
