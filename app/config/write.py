"""Writing generated configuration: readable YAML that knows whether somebody has edited it since."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from app.config.yaml_scalars import ScalarError, plain

_HEADER = re.compile(rb"\A# Written by `recserve bootstrap`\..*\n# [^\n]*: ([0-9a-f]{16})\n")
_NOTE = "# Written by `recserve bootstrap`. Edit it freely: bootstrap never overwrites a file that was edited.\n"


class EditedError(Exception):
    """Files that were edited by hand stand in the way; str() names them and the ways out."""


_LINE = 110


def render(document: Mapping[str, Any]) -> str:
    """YAML of one file: what fits on a line stands on one, long lists and tables of scalars are wrapped."""
    return "\n".join(line for key, value in document.items() for line in _block(key, value, "")) + "\n"


def _block(key: str, value: Any, indent: str) -> list[str]:
    head = f"{indent}{_flow(key)}:"
    flat = f"{head} {_flow(value)}"
    if len(flat) <= _LINE or not isinstance(value, (dict, list)) or not value:
        return [flat]
    deeper = indent + "  "
    if isinstance(value, list):
        if any(isinstance(entry, (dict, list)) for entry in value):
            return [head, *(f"{deeper}- {_flow(entry)}" for entry in value)]
        return [head, *_wrapped([_flow(entry) for entry in value], "[]", deeper)]
    if any(isinstance(entry, (dict, list)) for entry in value.values()):
        return [head, *(line for k, v in value.items() for line in _block(k, v, deeper))]
    return [head, *_wrapped([f"{_flow(k)}: {_flow(v)}" for k, v in value.items()], "{}", deeper)]


def _wrapped(parts: list[str], brackets: str, indent: str) -> list[str]:
    """A flow collection over as few lines as fit."""
    lines, line = [], indent + brackets[0]
    for position, part in enumerate(parts):
        last = position == len(parts) - 1
        piece = part + (brackets[1] if last else ",")
        if len(line) + 1 + len(piece) > _LINE and line.strip() != brackets[0]:
            lines.append(line)
            line = indent + " " + piece
        else:
            line += piece if line.endswith(brackets[0]) and line.strip() == brackets[0] else " " + piece
    return [*lines, line]


class _Dumper(yaml.SafeDumper):
    """Also quotes text that our own reader would take for a number or refuse, such as `y` and `1e5`."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=_style(text))


_Dumper.add_representer(str, _text)


def _style(text: str) -> str | None:
    if not text.isprintable():
        return '"'  # escapes, for a line break of any kind is folded in the other styles
    try:
        return None if plain(text) == text else "'"
    except ScalarError:
        return "'"


def _flow(value: Any) -> str:
    # In a list, so that a comma or a bracket is quoted: keys and entries are put into flow collections by hand.
    text: str = yaml.dump(
        [value], None, _Dumper, default_flow_style=True, width=10_000, allow_unicode=True, sort_keys=False
    )
    return text.removesuffix("]\n").removeprefix("[")


def refuse_edited(directory: Path, files: Iterable[str]) -> None:
    """EditedError when one of the files was edited since bootstrap wrote it."""
    edited = [directory / name for name in files if is_edited(directory / name)]
    if edited:
        names = ", ".join(map(str, edited))
        raise EditedError(
            f"{names}: edited since bootstrap wrote it. Move it away, give --config another folder, or --overwrite."
        )


def write_files(directory: Path, files: Mapping[str, Mapping[str, Any]]) -> list[Path]:
    """Write each file under `directory`, over what stands there."""
    written = []
    for name, document in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        body = render(document).encode()
        path.write_bytes(f"{_NOTE}# Checksum of what follows: {_digest(body)}\n".encode() + body)
        written.append(path)
    return written


def is_edited(path: Path) -> bool:
    """Whether the file exists and isn't exactly what bootstrap wrote there."""
    if not path.exists():
        return False
    content = path.read_bytes()
    header = _HEADER.match(content)
    return header is None or header[1].decode() != _digest(content[header.end() :])


def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()[:16]
