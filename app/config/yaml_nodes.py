"""A strict reader of YAML: plain values, the line of every one of them, and all problems in one pass.

It works on the parser's events with a stack of its own, so depth, size and aliases are bounded before any
value exists, and no constructor of PyYAML ever runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any, Final

import yaml

from app.config.hidden import is_secret, showable
from app.config.problems import Mark, Path, Problem, spelled
from app.config.yaml_scalars import ScalarError, plain, substitute

MAX_BYTES = 1 << 20
MAX_VALUES = 50_000
MAX_DEPTH = 32
LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
LEADING_TAB = re.compile(r"^ *\t", re.MULTILINE)
STR_TAG = "tag:yaml.org,2002:str"


class _Invalid:
    """A value that was refused: whoever meets it stays silent, because the problem is already reported."""

    def __repr__(self) -> str:
        return "INVALID"


INVALID: Final = _Invalid()


@dataclass(slots=True)
class Document:
    """A file's plain value with positions: a Mark for each path, and columns (from 1) of one-line scalars.

    `value` is INVALID when the file couldn't be read at all.
    """

    file: str
    value: Any = INVALID
    positions: dict[Path, Mark] = field(default_factory=dict)
    columns: dict[Path, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


@dataclass(slots=True)
class _Node:
    line: int
    value: Any  # a scalar, dict[str, tuple[int, _Node]] or list[_Node]
    column: int = 0
    size: int = 1
    depth: int = 1


@dataclass(slots=True)
class _Open:
    node: _Node
    anchor: str | None
    key: str | None = None
    key_line: int = 0
    skip: bool = False  # the key was refused: its value is read and dropped


class _StopReadingError(Exception):
    """The rest of the file can't be trusted; the problem is recorded."""


def read(data: bytes, file: str, env: Mapping[str, str]) -> Document:
    """Read one file's bytes. Problems are collected in the Document, nothing is raised."""
    document = Document(file)
    try:
        text = _decoded(data, document)
        _Reader(document, env).read(text)
    except _StopReadingError:
        document.value = INVALID
    return document


def _stop(document: Document, line: int, message: str, path: str = "") -> None:
    document.problems.append(Problem(Mark(document.file, line), path, message))
    raise _StopReadingError


def _decoded(data: bytes, document: Document) -> str:
    if len(data) > MAX_BYTES:
        _stop(document, 0, f"The file has {len(data):,} bytes. At most {MAX_BYTES:,} are read.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        _stop(document, line, f"Byte {error.start} isn't UTF-8. Save the file as UTF-8.")
    tab = LEADING_TAB.search(text)
    if tab:
        _stop(document, text.count("\n", 0, tab.end()) + 1, "A tab in the indentation. Use spaces.")
    return text


class _Reader:
    def __init__(self, document: Document, env: Mapping[str, str]) -> None:
        self.document = document
        self.env = env
        self.stack: list[_Open] = []
        self.anchors: dict[str, _Node] = {}
        self.root: _Node | None = None
        self.total = 0

    def read(self, text: str) -> None:
        for event in self._events(text):
            self._take(event)
        if self.root is None or self.root.value is None:
            _stop(self.document, 0, "The file is empty. Expected keys and values, first of all version: 1.")
        assert self.root is not None
        self.document.value = self._finish(self.root, ())

    def _events(self, text: str) -> Iterator[Any]:
        try:
            yield from yaml.parse(text, Loader=LOADER)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            context = f" {error.context}" if error.context else ""
            said = (error.problem or "not YAML").partition(" tag handle ")[0]  # whose name PyYAML itself repeats
            _stop(self.document, mark.line + 1 if mark else 0, f"Not YAML: {said}{context}. {_hint(said)}")
        except yaml.reader.ReaderError as error:
            line = text.count("\n", 0, error.position) + 1 if isinstance(error.position, int) else 0
            _stop(self.document, line, f"Not YAML: {error.reason}. Remove the character.")

    def _take(self, event: Any) -> None:
        line = event.start_mark.line + 1
        if isinstance(event, yaml.ScalarEvent):
            self._scalar(event, line)
        elif isinstance(event, yaml.MappingStartEvent):
            self._open(event, line, {})
        elif isinstance(event, yaml.SequenceStartEvent):
            self._open(event, line, [])
        elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            self._close()
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event, line)
        elif isinstance(event, yaml.DocumentStartEvent) and self.root is not None:
            _stop(self.document, line, "A second document after '---'. Expected one in each file.")

    def _open(self, event: Any, line: int, value: Any) -> None:
        self._check_tag(event, line)
        if self._awaits_key():
            _stop(self.document, line, "A key that isn't a simple name. Expected name: value.", self._here())
        if len(self.stack) >= MAX_DEPTH:
            _stop(self.document, line, f"Nested more than {MAX_DEPTH} deep. Write it flatter.", self._here())
        self.stack.append(_Open(_Node(line, value), event.anchor))

    def _close(self) -> None:
        opened = self.stack.pop()
        if opened.anchor:
            self.anchors[opened.anchor] = opened.node
        self._add(opened.node)

    def _alias(self, event: Any, line: int) -> None:
        node = self.anchors.get(event.anchor)
        if node is None or self._awaits_key():
            message = "An alias (*name) can't be used here. Write the value out, or quote it if it is text."
            _stop(self.document, line, message, self._here())
        else:
            self._add(_Node(line, node.value, 0, node.size, node.depth))

    def _scalar(self, event: Any, line: int) -> None:
        self._check_tag(event, line)
        if self._awaits_key():
            self._key(event, line)
            return
        node = _Node(line, INVALID)
        try:
            text = substitute(event.value, self.env)
            node.value = self._plain(text, text != event.value) if event.implicit[0] else text
        except ScalarError as error:
            self._report(line, str(error))
        else:
            as_written = event.value == text and line == event.end_mark.line + 1 and event.style in (None, "", "'", '"')
            node.column = event.start_mark.column + (2 if event.style in ("'", '"') else 1) if as_written else 0
        if event.anchor:
            self.anchors[event.anchor] = node
        self._add(node)

    def _key(self, event: Any, line: int) -> None:
        top = self.stack[-1]
        top.key, top.key_line, top.skip = event.value, line, False
        try:
            value = self._plain(event.value, from_environment=False) if event.implicit[0] else event.value
            if value is None or isinstance(value, bool):
                raise ScalarError(f"The key {event.value or '(none)'} isn't a name. Quote it if it is meant.")
            if value == "<<":
                raise ScalarError("'<<' (merge) isn't supported. Write the keys out.")
        except ScalarError as error:
            self._report(line, str(error))
            top.skip = True
            return
        first = top.node.value.get(event.value)
        if first is not None:
            self._report(line, f"Duplicate key; the first is on line {first[0]}. Keep one of them.")
            top.skip = True

    def _add(self, node: _Node) -> None:
        self.total += 1
        if not self.stack:
            self.root = node
            return
        top = self.stack[-1]
        if isinstance(top.node.value, dict):
            if not top.skip:
                top.node.value[top.key] = (top.key_line, node)
            top.key = None
        else:
            top.node.value.append(node)
        top.node.size += node.size
        top.node.depth = max(top.node.depth, node.depth + 1)
        if top.node.size > MAX_VALUES or self.total > MAX_VALUES:
            _stop(
                self.document,
                node.line,
                f"More than {MAX_VALUES:,} values (aliases counted). Split the file.",
            )
        if len(self.stack) + node.depth > MAX_DEPTH:
            _stop(
                self.document,
                node.line,
                f"Nested more than {MAX_DEPTH} deep. Write it flatter.",
                self._here(),
            )

    def _check_tag(self, event: Any, line: int) -> None:
        if event.tag not in (None, STR_TAG, "!"):
            # The tag may be the beginning of a secret that isn't quoted, as may an alias's name.
            message = "A tag (!name) isn't supported. Write the value without it, or quote it if it is text."
            _stop(self.document, line, message, self._here())

    def _awaits_key(self) -> bool:
        return bool(self.stack) and isinstance(self.stack[-1].node.value, dict) and self.stack[-1].key is None

    def _plain(self, text: str, from_environment: bool) -> Any:
        try:
            return plain(text)
        except ScalarError:
            if from_environment or is_secret(self._path()):
                raise ScalarError("The value could be misread as a number or a bool. Put it in quotes.") from None
            raise

    def _here(self) -> str:
        return spelled(showable(self._path())[1:])

    def _path(self) -> Path:
        """The place with the file's name before it."""
        return (FilePath(self.document.file).name, *self._place())

    def _place(self) -> Path:
        parts: list[str | int] = []
        for opened in self.stack:
            if isinstance(opened.node.value, list):
                parts.append(len(opened.node.value))
            elif opened.key is not None:
                parts.append(opened.key)
        return tuple(parts)

    def _report(self, line: int, message: str) -> None:
        self.document.problems.append(Problem(Mark(self.document.file, line), self._here(), message))

    def _finish(self, node: _Node, path: Path) -> Any:
        """Plain values, and the positions of every path. Recursion is bounded by MAX_DEPTH."""
        self.document.positions.setdefault(path, Mark(self.document.file, node.line))
        if node.column:
            self.document.columns[path] = node.column
        if isinstance(node.value, dict):
            for key, (line, _) in node.value.items():
                self.document.positions[(*path, key)] = Mark(self.document.file, line)
            return {key: self._finish(child, (*path, key)) for key, (_, child) in node.value.items()}
        if isinstance(node.value, list):
            return [self._finish(child, (*path, index)) for index, child in enumerate(node.value)]
        return node.value


def _hint(said: str) -> str:
    if "mapping values are not allowed" in said:
        return "Put a value that holds ': ' in quotes, and check the indentation."
    if "cannot start any token" in said:
        return "Put a value that starts with a special character in quotes."
    if "undefined alias" in said:
        return "Define it with & first, or quote the text."
    return "Check brackets, quotes and indentation near here."
