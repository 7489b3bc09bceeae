"""What a scalar of our YAML means: YAML 1.2's plain values, and an error for what YAML 1.1 read otherwise."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

Value = str | int | float | bool | None

WORDS: Mapping[str, Value] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
SURPRISING = {
    **dict.fromkeys(("yes", "Yes", "YES", "on", "On", "ON", "y", "Y"), "true"),
    **dict.fromkeys(("no", "No", "NO", "off", "Off", "OFF", "n", "N"), "false"),
}
INT = re.compile(r"[-+]?(0|[1-9][0-9]*)")
FLOAT = re.compile(r"[-+]?(\.[0-9]+|(0|[1-9][0-9]*)(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
LEADING_ZERO = re.compile(r"[-+]?0[0-9_]+(\.[0-9]*)?")
SEXAGESIMAL = re.compile(r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?")
OTHER_BASE = re.compile(r"[-+]?0[xob][0-9a-fA-F_]+")
UNDERSCORED = re.compile(r"[-+]?[0-9][0-9_]*_[0-9_]*(\.[0-9_]*)?")
NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
DIGITS = 18  # fits an int64, and keeps int() away from its quadratic cost


class ScalarError(Exception):
    """A scalar that could be misread, or an environment variable that is missing."""


def plain(text: str) -> Value:
    """The value of an unquoted scalar. Raises ScalarError with the fix for anything that could be misread."""
    if text in WORDS:
        return WORDS[text]
    if text in SURPRISING:
        raise ScalarError(
            f"{text} without quotes is a bool in some YAML readers and text in others. "
            f"Write {SURPRISING[text]}, or '{text}' for the text."
        )
    if INT.fullmatch(text):
        digits = len(text.lstrip("+-"))
        if digits > DIGITS:
            raise ScalarError(f"An integer of {digits} digits. At most {DIGITS} are read; quote it for text.")
        return int(text)
    _refuse_numbers_of_yaml_1_1(text)
    if FLOAT.fullmatch(text):
        number = float(text)
        if not math.isfinite(number):
            raise ScalarError(f"{text} doesn't fit a float. Expected a finite number.")
        return number
    return text


def _refuse_numbers_of_yaml_1_1(text: str) -> None:
    if LEADING_ZERO.fullmatch(text):
        decimal = text.lstrip("+-0_") or "0"
        raise ScalarError(f"{text} with a leading zero is octal in YAML 1.1. Write {decimal}, or '{text}' for text.")
    if SEXAGESIMAL.fullmatch(text):
        raise ScalarError(f"{text} is a number to base 60 in YAML 1.1. Write '{text}' with quotes for text.")
    if OTHER_BASE.fullmatch(text) or UNDERSCORED.fullmatch(text):
        raise ScalarError(f"{text} isn't a plain decimal number. Write digits only, or '{text}' for text.")
    if NOT_FINITE.fullmatch(text):
        raise ScalarError(f"{text} isn't a finite number. Expected one, or '{text}' for text.")


def substitute(text: str, env: Mapping[str, str]) -> str:
    """Replace `${NAME}` and `${NAME:-default}`. As in a shell, `:-` also covers an empty variable.

    Raises ScalarError for a variable that isn't set and has no default. Values are never quoted in errors.
    """
    if "${" not in text:
        return text

    def value(match: re.Match[str]) -> str:
        name, default = match.groups()
        found = env.get(name)
        if found is None and default is None:
            raise ScalarError(f"The environment variable {name} isn't set. Set it, or write ${{{name}:-default}}.")
        return found or default or ""

    replaced = VARIABLE.sub(value, text)
    if "${" in VARIABLE.sub("", text):
        raise ScalarError("A '${' that isn't closed or named. Expected ${NAME} or ${NAME:-default}.")
    return replaced
