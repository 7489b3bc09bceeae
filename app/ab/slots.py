"""Which ranges an experiment's list of slots gets: as few of its author's entries changed as can be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.ab.edit import Range


@dataclass(frozen=True, slots=True)
class Ranges:
    """What becomes of each entry of a list (None: dropped), what comes after them, and which slots were given up."""

    kept: Sequence[Range | None]
    added: Sequence[Range] = ()
    freed: Sequence[Range] = ()

    @property
    def all(self) -> list[Range]:
        """The list as it will be."""
        return [*(entry for entry in self.kept if entry is not None), *self.added]


def size(ranges: Sequence[Range]) -> int:
    """How many slots disjoint ranges have."""
    return sum(high - low for low, high in ranges)


def grown(entries: Sequence[Range], more: Sequence[Range]) -> Ranges:
    """`entries` with the free ranges `more`: an entry that one of them continues grows, the others are added."""
    kept, added = list(entries), []
    for low, high in more:
        for at, (first, last) in enumerate(kept):
            if last == low:
                kept[at] = (first, high)
                break
            if first == high:
                kept[at] = (low, last)
                break
        else:
            added.append((low, high))
    return Ranges(kept, added)


def shrunk(entries: Sequence[Range], count: int) -> Ranges:
    """`entries` cut down to `count` slots, from the highest slot on."""
    kept: list[Range | None] = list(entries)
    freed: list[Range] = []
    surplus = size(entries) - count
    for low, high, at in sorted(((low, high, at) for at, (low, high) in enumerate(entries)), reverse=True):
        if surplus <= 0:
            break
        cut = min(surplus, high - low)
        freed.append((high - cut, high))
        kept[at] = (low, high - cut) if cut < high - low else None
        surplus -= cut
    return Ranges(kept, (), sorted(freed))


def written(ranges: Sequence[Range]) -> str:
    """As YAML."""
    return f"[{', '.join(f'[{low}, {high}]' for low, high in ranges)}]"
