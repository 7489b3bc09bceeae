"""Where problems are collected, and where each path of each file stands."""

from __future__ import annotations

from pathlib import Path as FilePath
from typing import Any

from app.config.hidden import showable
from app.config.problems import Mark, Path, Problem, spelled
from app.config.yaml_nodes import INVALID, Document


class Findings:
    """All problems of one run. A path starts with the file's name inside the directory."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.problems: list[Problem] = []
        self.documents: dict[str, Document] = {}

    def take(self, name: str, document: Document) -> None:
        """Register a file that was read, with its problems."""
        self.documents[name] = document
        self.problems += document.problems

    def add(self, path: Path, message: str) -> None:
        """Record a problem at `path`, or at its nearest parent that stands in the file."""
        document = self.documents.get(str(path[0]))
        if document is None:
            shown = str(FilePath(self.directory, *map(str, path[:1])))
            self.problems.append(Problem(Mark(shown, 0), spelled(showable(path)[1:]), message))
            return
        inside = path[1:]
        mark = next(
            document.positions[inside[:end]]
            for end in range(len(inside), -1, -1)
            if inside[:end] in document.positions or end == 0
        )
        self.problems.append(Problem(mark, spelled(showable(path)[1:]), message))

    def column(self, path: Path) -> int | None:
        """The column (from 1) of a one-line scalar's first character, None where it can't be told."""
        document = self.documents.get(str(path[0]))
        return document.columns.get(path[1:]) if document else None

    def raw(self, name: str, *keys: str) -> Any:
        """The plain value under `keys`; an empty mapping where there is none or it was refused."""
        document = self.documents.get(name)
        value = document.value if document else INVALID
        for key in keys:
            value = value.get(key, INVALID) if isinstance(value, dict) else INVALID
        return {} if value is INVALID or value is None else value

    def readable(self, name: str) -> bool:
        """Whether the file could be read as YAML: else nothing can be said about references into it."""
        document = self.documents.get(name)
        return document is not None and document.value is not INVALID


def mentions_invalid(value: Any) -> bool:
    """Whether a refused value stands anywhere inside: its problem is reported already."""
    if isinstance(value, dict):
        return any(map(mentions_invalid, value.values()))
    return any(map(mentions_invalid, value)) if isinstance(value, list) else value is INVALID
