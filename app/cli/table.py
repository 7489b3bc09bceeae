"""Aligned tables for a terminal, in which any Unicode title keeps its columns."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

_CONTROLS = dict.fromkeys((*range(0x20), *range(0x7F, 0xA0)), " ")


def width(text: str) -> int:
    """Cells that a terminal gives the text: two for wide characters, none for combining and formatting ones."""
    cells = 0
    for character in text:
        if unicodedata.combining(character) or unicodedata.category(character) in ("Cf", "Me"):
            continue
        cells += 2 if unicodedata.east_asian_width(character) in "WF" else 1
    return cells


def clean(text: object) -> str:
    """The text without control characters: a title must not move the cursor or end the line."""
    return str(text).translate(_CONTROLS)


def shortened(text: str, cells: int) -> str:
    """The text in at most `cells` cells; a cut is marked."""
    if width(text) <= cells:
        return text
    kept = ""
    for character in text:
        if width(kept + character) > cells - 1:
            break
        kept += character
    return kept + "…"


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, right: frozenset[int] = frozenset()) -> str:
    """Header and rows as lines with two blanks between columns; columns in `right` are flush right.

    A column that is empty in every row is left out.
    """
    shown = [at for at in range(len(header)) if any(row[at] for row in rows)]
    lines = [[line[at] for at in shown] for line in (header, *rows)]
    widths = [max(width(line[place]) for line in lines) for place in range(len(shown))]
    out = []
    for line in lines:
        cells = []
        for at, text, wide in zip(shown, line, widths, strict=True):
            blank = " " * (wide - width(text))
            cells.append(blank + text if at in right else text + blank)
        out.append("  ".join(cells).rstrip())
    return "\n".join(out)
