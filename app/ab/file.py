"""abtest.yaml on the disk: read once, checked as a part of its configuration, replaced as a whole."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import abtest
from app.ab.errors import AbError
from app.config.files import EXPERIMENTS
from app.config.load import load_config
from app.config.model import Config
from app.config.problems import ConfigError, Mark, Problem, spelled

_BOM = "\ufeff"


def located(config: Config, problems: Iterable[abtest.Problem]) -> list[Problem]:
    """The problems of an abtest.yaml with the lines where they stand."""
    found = []
    for one in problems:
        path = (EXPERIMENTS, *one.path)
        ends = range(len(path), 0, -1)
        mark = next((config.positions[path[:end]] for end in ends if path[:end] in config.positions), None)
        found.append(Problem(mark or Mark(str(Path(config.directory, EXPERIMENTS)), 0), spelled(one.path), one.message))
    return found


class AbtestFile:
    """The file of one configuration folder; `config` is what the folder says now.

    Raises ConfigError where the configuration isn't good before any change, and OSError.
    """

    def __init__(self, directory: Path, env: Mapping[str, str]) -> None:
        self._directory = directory
        self._env = env
        self.config = load_config(directory, env=env)
        # A link stays one: what it leads to is replaced.
        self._path = (directory / EXPERIMENTS).resolve()
        self._before = self._path.read_bytes()
        text = self._before.decode("utf-8")
        self._mark, self.text = (_BOM, text[1:]) if text.startswith(_BOM) else ("", text)

    def checked(self, text: str) -> Config:
        """The configuration with this text in place of the file's; nothing is written to it. Raises ConfigError."""
        with tempfile.TemporaryDirectory(prefix="recserve-ab-") as folder:
            names = [*self._directory.glob("*.y*ml"), *self._directory.glob("scenes/*.y*ml")]
            for path in names:
                target = Path(folder) / path.relative_to(self._directory)
                target.parent.mkdir(exist_ok=True)
                shutil.copyfile(path, target)
            (Path(folder) / EXPERIMENTS).write_bytes(self._encoded(text))
            try:
                return load_config(Path(folder), env=self._env)
            except ConfigError as error:
                here = str(self._directory)
                raise ConfigError(
                    replace(problem, mark=replace(problem.mark, file=problem.mark.file.replace(folder, here, 1)))
                    for problem in error.problems
                ) from None

    def write(self, text: str) -> None:
        """Replace the file. Raises AbError when somebody else changed it meanwhile, and OSError."""
        handle, name = tempfile.mkstemp(prefix=f".{EXPERIMENTS}.", dir=self._path.parent)
        new = Path(name)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(self._encoded(text))
            shutil.copymode(self._path, new)
            with contextlib.suppress(PermissionError):  # only root may give files away
                os.chown(new, self._path.stat().st_uid, self._path.stat().st_gid)
            if self._path.read_bytes() != self._before:
                raise AbError(f"{self._path}: changed meanwhile. Nothing is written; try again.")
            new.replace(self._path)
        finally:
            new.unlink(missing_ok=True)

    def _encoded(self, text: str) -> bytes:
        return (self._mark + text).encode()
