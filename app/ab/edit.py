"""Small changes to a YAML text: only the characters of the values that change are touched.

No dump of the document could do that: comments, quotes, order and line breaks are its author's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from app.ab.places import EditError, Place, find, places_of
from app.config.problems import Path, spelled

Range = tuple[int, int]
"""Slots from the first up to, not including, the second."""

_LINE_END = re.compile(r"[^\r\n]*")
_LINE_BREAK = re.compile(r"\r\n|\r|\n")
_COMMENT = re.compile(r"(?:^|\s)#")


class Edit:
    """Changes to one text, applied together by `text`; each refers to the text as it was given.

    Paths lead to values that stand in the text; KeyError for one that doesn't. Raises EditError for what is shared
    by aliases, or can't be changed without touching a comment.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._root = places_of(text)
        self._changes: list[tuple[int, int, str]] = []
        found = _LINE_BREAK.search(text)
        self._break = found[0] if found else "\n"

    def text(self) -> str:
        """The text with all changes."""
        text = self._text
        # From the back, so that places stay true; of two additions at one place the first comes first.
        ordered = sorted(enumerate(self._changes), key=lambda change: (change[1][0], change[0]), reverse=True)
        for _, (start, end, new) in ordered:
            text = text[:start] + new + text[end:]
        return text

    def has(self, path: Path) -> bool:
        """Whether a value stands at the path."""
        try:
            find(self._root, path)
        except KeyError:
            return False
        return True

    def set(self, path: Path, new: str) -> None:
        """Put `new`, YAML of one line, where the value of one line at `path` stands."""
        place = self._own(path)
        if place.style not in ("plain", "flow") or self._broken(place):
            raise EditError(f"{spelled(path)} stands on several lines. Write it on one, then try again.")
        self._replace(place, new)

    def add(self, path: Path, key: str, new: str) -> None:
        """Put `key: new` right after the value at `path`, into the same mapping."""
        place, parent = self._own(path), self._own(path[:-1])
        if parent.style == "flow":
            self._changes.append((place.end, place.end, f", {key}: {new}"))
            return
        if place.style == "literal":
            raise EditError(f"{spelled(path)} is a block of text. Write it on one line, then try again.")
        self._new_line(place.end, parent.column, f"{key}: {new}")

    def append(self, path: Path, key: str, new: str) -> None:
        """Put `key: new` at the end of the mapping at `path`."""
        place = self._own(path)
        if place.style == "flow" and not place.pairs:
            self._replace(place, f"{{{key}: {new}}}")
        elif place.pairs:
            self.add((*path, list(place.pairs)[-1]), key, new)
        else:
            raise EditError(f"{spelled(path)} isn't a mapping. Write it as {{}}, then try again.")

    def set_ranges(self, path: Path, kept: Sequence[Range | None], added: Sequence[Range]) -> None:
        """Change a list of pairs entry by entry: `kept` has what becomes of each that stands there, None for dropped.

        `added` come after the last one.
        """
        place = self._own(path)
        if place.entries is None or len(place.entries) != len(kept):
            raise EditError(f"{spelled(path)} isn't a list of {len(kept)} ranges.")
        for entry, new in zip(place.entries, kept, strict=True):
            if new is not None:
                self._set_pair(path, entry, new)
        if not any(kept):
            self._all_anew(path, place, added)
            return
        self._drop(path, place, [at for at, new in enumerate(kept) if new is None])
        if added:
            last = max(at for at, new in enumerate(kept) if new is not None)
            self._append(place, place.inside[last if place.style == "block" else -1], added)

    def _own(self, path: Path) -> Place:
        place = find(self._root, path)
        if place.shared:
            raise EditError(f"{spelled(path)} is shared with another place (& or *). Write it out, then try again.")
        return place

    def _set_pair(self, path: Path, entry: Place, new: Range) -> None:
        if entry.shared or len(entry.inside) != 2 or any(end.style != "plain" or end.shared for end in entry.inside):
            raise EditError(f"{spelled(path)}: a range isn't written as [from, to). Write it so, then try again.")
        for end, number in zip(entry.inside, new, strict=True):
            self._replace(end, str(number))

    def _replace(self, place: Place, new: str) -> None:
        if place.start == place.end:
            raise EditError("A key without a value is in the way. Write the value, then try again.")
        if self._text[place.start : place.end] != new:
            self._changes.append((place.start, place.end, new))

    def _all_anew(self, path: Path, place: Place, ranges: Sequence[Range]) -> None:
        if place.style != "flow" or _COMMENT.search(self._text[place.start : place.end]):
            raise EditError(
                f"{spelled(path)} would be written anew, comments included. Write it as [], then try again."
            )
        self._replace(place, f"[{_listed(ranges)}]")

    def _append(self, place: Place, last: Place, ranges: Sequence[Range]) -> None:
        if place.style == "flow":
            self._changes.append((last.end, last.end, f", {_listed(ranges)}"))
            return
        for low, high in ranges:
            self._new_line(last.end, place.column, f"- [{low}, {high}]")

    def _drop(self, path: Path, place: Place, going: Sequence[int]) -> None:
        if place.style == "block":
            self._changes += [(*self._lines_of(path, place, place.inside[at]), "") for at in going]
            return
        entries = place.inside
        first = next(at for at in range(len(entries)) if at not in going)
        cuts = [(entries[at - 1].end, entries[at].end) for at in going if at > first]
        if first:
            cuts.append((entries[0].start, entries[first].start))
        if any(_COMMENT.search(self._text[start:end]) for start, end in cuts):
            raise EditError(f"{spelled(path)}: a comment stands beside a range to drop. Edit it by hand.")
        self._changes += [(start, end, "") for start, end in cuts]

    def _lines_of(self, path: Path, place: Place, entry: Place) -> Range:
        """The lines that `- entry` stands on, with the comment after it, which is about it."""
        dash = self._text.rfind("-", 0, entry.start)
        start, end = dash - place.column, self._line_end(entry.end)
        if self._text[start:dash].strip(" ") or self._text[dash + 1 : entry.start].strip(" "):
            raise EditError(f"{spelled(path)}: a range to drop isn't on a line of its own. Edit it by hand.")
        following = _LINE_BREAK.match(self._text, end)
        return start, following.end() if following else end

    def _new_line(self, after: int, column: int, line: str) -> None:
        place = self._line_end(after)
        self._changes.append((place, place, f"{self._break}{' ' * column}{line}"))

    def _line_end(self, at: int) -> int:
        found = _LINE_END.match(self._text, at)
        return found.end() if found else at

    def _broken(self, place: Place) -> bool:
        return _LINE_BREAK.search(self._text, place.start, place.end) is not None


def _listed(ranges: Sequence[Range]) -> str:
    return ", ".join(f"[{low}, {high}]" for low, high in ranges)
