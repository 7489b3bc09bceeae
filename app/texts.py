"""Texts that may hold what UTF-8 has no form for: lone surrogates, from file names or from escapes in files."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

_LONE = re.compile("[\ud800-\udfff]")
_BYTES = range(0xDC80, 0xDD00)


def encodable(text: str) -> str:
    r"""The text with lone surrogates escaped; one that stands for a byte of a file name (PEP 383) becomes `\xff`."""
    return _LONE.sub(_escaped, text)


def all_encodable(value: Any) -> Any:
    """The same for every text in what JSON is made of, keys included. Copies."""
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, dict):
        return {all_encodable(key): all_encodable(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [all_encodable(one) for one in value]
    return value


def in_utf8(path: Path) -> bool:
    """Whether the path's absolute form, links followed, has a name in UTF-8."""
    return not _LONE.search(os.path.realpath(path))


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code - 0xDC00:02x}" if code in _BYTES else f"\\u{code:04x}"
