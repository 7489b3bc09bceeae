"""Which files a configuration has, read into Findings."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from app.config import features_part, models_part, service_part
from app.config.findings import Findings
from app.config.problems import ConfigError, Mark, suggestion
from app.config.yaml_nodes import MAX_BYTES, Document, read
from app.texts import encodable

EXPERIMENTS = "abtest.yaml"
FILES = (service_part.FILE, features_part.FILE, models_part.FILE, EXPERIMENTS)
SCENES = "scenes"
NOT_UTF8 = "The name isn't UTF-8. Expected one that is: rename the file, or remove it."


def read_all(findings: Findings, directory: Path, env: Mapping[str, str]) -> None:
    """Read every file of a configuration into `findings`. ConfigError when there is no such directory."""
    if not directory.is_dir():
        message = "There is no such directory. Expected one with " + ", ".join((*FILES, "scenes/")) + "."
        findings.add((".",), message)
        raise ConfigError(findings.problems)
    try:
        others = [name for name in yaml_names(directory) if name not in FILES]
    except OSError as error:
        others = []
        where = encodable(os.path.relpath(error.filename, directory))
        findings.add((where,), f"The directory can't be read: {error.strerror or error}.")
    strays = {name: why for name in others if (why := _stray(name))}
    scenes = [name for name in others if name not in strays]
    for name in (*FILES, *scenes):
        read_file(findings, directory, name, env)
    for name, why in strays.items():
        _unreadable(findings, name, f"Not read: {why}")
    if not scenes:
        findings.add(("scenes",), "There is no scene. Expected at least one file such as scenes/home.yaml.")


def yaml_names(directory: Path) -> list[str]:
    """Names of the files that are read or, where they lie, might be meant to be: `scenes/home.yaml`. Raises OSError.

    At the top, below scenes/ at any depth and below what is nearly called so; whatever the ending's case. Left out
    are hidden files and folders, and editors' backups, which have other endings.
    """
    names = []
    for name in _visible(directory):
        if _is_yaml(name):
            names.append(name)
        elif difflib.get_close_matches(name.casefold(), (SCENES,), cutoff=0.8) and (directory / name).is_dir():
            names += _below(directory, name, set())
    return sorted(names)


def _below(directory: Path, folder: str, seen: set[tuple[int, int]]) -> Iterator[str]:
    facts = (directory / folder).stat()
    if (facts.st_dev, facts.st_ino) in seen:  # a link to a folder that it lies in
        return
    seen.add((facts.st_dev, facts.st_ino))
    for name in _visible(directory / folder):
        path = f"{folder}/{name}"
        if _is_yaml(name):
            yield path
        elif (directory / path).is_dir():
            yield from _below(directory, path, seen)


def _visible(folder: Path) -> list[str]:
    return [name for name in os.listdir(folder) if not name.startswith(".")]


def _is_yaml(name: str) -> bool:
    return name.casefold().endswith((".yaml", ".yml"))


def _stray(name: str) -> str | None:
    """Why a file isn't read, and what to do about it; None for a scene."""
    folder, _, file = name.rpartition("/")
    if not folder:
        return f"it isn't a file of a configuration. {suggestion(name, FILES)}"
    if folder != SCENES:
        return "expected scenes in scenes/ itself. Move it there."
    return None if file.endswith(".yaml") else "expected the ending .yaml. Rename it."


def read_file(findings: Findings, directory: Path, name: str, env: Mapping[str, str]) -> None:
    """Read one file, or report why it can't be."""
    path = directory / name
    if encodable(name) != name:
        _unreadable(findings, name, NOT_UTF8)
        return
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        _unreadable(findings, name, "The file is missing. Expected one with at least version: 1.")
    except OSError as error:
        _unreadable(findings, name, f"The file can't be read: {error.strerror or error}.")
    else:
        findings.take(name, read(data, str(path), env))


def _unreadable(findings: Findings, name: str, message: str) -> None:
    findings.documents[name] = Document(encodable(str(Path(findings.directory, name))))
    findings.documents[name].positions[()] = Mark(findings.documents[name].file, 0)
    findings.add((name,), message)


def scene_files(findings: Findings) -> list[str]:
    """Names of the scenes' files that could be read."""
    return [name for name in findings.documents if name.startswith("scenes/") and findings.readable(name)]
