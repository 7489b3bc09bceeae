"""Which files a configuration has, read into Findings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from app.config import features_part, models_part, service_part
from app.config.findings import Findings
from app.config.problems import ConfigError, Mark, suggestion
from app.config.yaml_nodes import MAX_BYTES, Document, read
from app.texts import encodable

EXPERIMENTS = "abtest.yaml"
FILES = (service_part.FILE, features_part.FILE, models_part.FILE, EXPERIMENTS)
NOT_UTF8 = "The name isn't UTF-8. Expected one that is: rename the file, or remove it."


def read_all(findings: Findings, directory: Path, env: Mapping[str, str]) -> None:
    """Read every file of a configuration into `findings`. ConfigError when there is no such directory."""
    if not directory.is_dir():
        message = "There is no such directory. Expected one with " + ", ".join((*FILES, "scenes/")) + "."
        findings.add((".",), message)
        raise ConfigError(findings.problems)
    scenes = sorted(f"scenes/{path.name}" for path in directory.glob("scenes/[!.]*.yaml"))
    for name in (*FILES, *scenes):
        read_file(findings, directory, name, env)
    for name in sorted(path.name for path in directory.glob("[!.]*.y*ml") if path.name not in FILES):
        _unreadable(findings, name, f"Not read: it isn't a file of a configuration. {suggestion(name, FILES)}")
    for stray in sorted(directory.glob("scenes/[!.]*.yml")):
        _unreadable(findings, f"scenes/{stray.name}", "Not read: expected the ending .yaml. Rename it.")
    if not scenes:
        findings.add(("scenes",), "There is no scene. Expected at least one file such as scenes/home.yaml.")


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
