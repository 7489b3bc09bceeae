"""Problems found in configuration, and the one exception that carries all of them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """Where a value stands: the file as the user named it, and a line counted from 1 (0: the whole file)."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One thing that is wrong: where, the path inside the file, and what with what was expected."""

    mark: Mark
    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.mark} {self.path}: {self.message}" if self.path else f"{self.mark}: {self.message}"


class ConfigError(Exception):
    """The configuration can't be used. `problems` are sorted by file and line; str() has a line for each."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(set(problems)))
        super().__init__("\n".join(map(str, self.problems)))


def spelled(path: Iterable[str | int]) -> str:
    """A path as people write it: `recall.vector.k`, `re_rank[0].mmr`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def choices(names: Iterable[str]) -> str:
    """The possible names, as a sentence's end: `a, b or c`; `nothing` when there are none."""
    listed = list(names)
    if len(listed) < 2:
        return listed[0] if listed else "nothing"
    return f"{', '.join(listed[:-1])} or {listed[-1]}"


def suggestion(name: str, names: Iterable[str]) -> str:
    """`Did you mean 'x'?` when a known name is near, else the known names (the first twelve)."""
    known = sorted(names)
    near = difflib.get_close_matches(name, known, 1)
    if near:
        return f"Did you mean {near[0]!r}?"
    if not known:
        return "There are none."
    more = f" and {len(known) - 12} more" if len(known) > 12 else ""
    return f"Known: {', '.join(known[:12])}{more}."
