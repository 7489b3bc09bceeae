"""Where each value of a YAML text stands, from its first to its last character.

Read after the strict reader has accepted the text; this one only keeps what that one throws away: both ends of
every value, its style, and whether it is an alias or has an anchor.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from app.config.problems import Path, spelled
from app.config.yaml_nodes import LOADER


class EditError(Exception):
    """The file can't be edited by a program as it is written; str() says why and what to do."""


@dataclass(slots=True)
class Place:
    """One value: `text[start:end]` is what was written for it.

    `style` is `plain` (one word, quoted or not), `literal` (a block scalar), `flow`, `block` (collections) or
    `alias`. The end of a block collection is that of its last value: blank lines and comments after it aren't its
    own. `column` counts from 0.
    """

    start: int
    end: int
    column: int
    style: str
    shared: bool
    pairs: dict[str, Place] | None = None
    entries: list[Place] | None = None

    @property
    def inside(self) -> list[Place]:
        """The entries of a sequence; none for what is no sequence."""
        return self.entries or []


def places_of(text: str) -> Place:
    """The root of a text that the strict reader accepted. Recursion is bounded by that reader's depth."""
    events = iter(yaml.parse(text, Loader=LOADER))
    return _value(_skip(events), events)


def find(root: Place, path: Path) -> Place:
    """The value at a path. Raises EditError when an alias stands in the way, KeyError when there is nothing."""
    place = root
    for depth, key in enumerate(path):
        if place.style == "alias":
            raise EditError(f"{spelled(path[:depth])} is an alias of another place. Write it out, then try again.")
        inner = place.pairs.get(str(key)) if place.pairs is not None else None
        if place.entries is not None and isinstance(key, int) and key < len(place.entries):
            inner = place.entries[key]
        if inner is None:
            raise KeyError(spelled(path[: depth + 1]))
        place = inner
    return place


def _skip(events: Iterator[Any]) -> Any:
    """The first event of the document's value."""
    return next(event for event in events if not isinstance(event, yaml.StreamStartEvent | yaml.DocumentStartEvent))


def _value(event: Any, events: Iterator[Any]) -> Place:
    start, end, column = event.start_mark.index, event.end_mark.index, event.start_mark.column
    if isinstance(event, yaml.AliasEvent):
        return Place(start, end, column, "alias", shared=True)
    shared = event.anchor is not None
    if isinstance(event, yaml.ScalarEvent):
        return Place(start, end, column, "literal" if event.style in ("|", ">") else "plain", shared)
    place = Place(start, end, column, "flow" if event.flow_style else "block", shared)
    if isinstance(event, yaml.MappingStartEvent):
        place.pairs = {}
        last = _pairs(place.pairs, events, end)
    else:
        place.entries = []
        last = _entries(place.entries, events, end)
    place.end = last
    return place


def _pairs(pairs: dict[str, Place], events: Iterator[Any], end: int) -> int:
    for event in events:
        if isinstance(event, yaml.MappingEndEvent):
            return _closed(event, end)
        inner = _value(next(events), events)
        pairs.setdefault(event.value, inner)
        end = max(inner.end, event.end_mark.index)
    return end


def _entries(entries: list[Place], events: Iterator[Any], end: int) -> int:
    for event in events:
        if isinstance(event, yaml.SequenceEndEvent):
            return _closed(event, end)
        entries.append(_value(event, events))
        end = entries[-1].end
    return end


def _closed(event: Any, end: int) -> int:
    """Where a collection ends: at its bracket if it has one, else with its last value."""
    bracket = event.end_mark.index > event.start_mark.index
    return int(event.end_mark.index) if bracket else end
