"""Order of version texts: semantic, so that 3.10 comes after 3.9 and 3.0 equals 3.0.0."""

from __future__ import annotations

import re
from functools import lru_cache

VersionKey = tuple[tuple[int, ...], bool, tuple[tuple[int, int, str], ...]]

_LONGEST = 64
_VERSION = re.compile(
    r"(?P<numbers>[0-9]+(?:\.[0-9]+)*)(?:-(?P<pre>[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z.-]+)?"
)


def version_key(text: str | None) -> VersionKey | None:
    """Return a key that sorts as versions do, None when `text` is missing or not a version.

    Precedence follows Semantic Versioning 2.0.0, section 11 (a pre-release comes before its release, build
    metadata does not count), with any number of numeric parts: absent ones are zero.
    """
    if not isinstance(text, str) or len(text) > _LONGEST:
        return None
    return _parse(text)


@lru_cache(maxsize=256)
def _parse(text: str) -> VersionKey | None:
    match = _VERSION.fullmatch(text)
    if match is None:
        return None
    numbers = [int(part) for part in match["numbers"].split(".")]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    identifiers = match["pre"].split(".") if match["pre"] else ()
    # Numeric identifiers sort below alphanumeric ones, by value.
    pre = tuple((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in identifiers)
    return tuple(numbers), not pre, pre
