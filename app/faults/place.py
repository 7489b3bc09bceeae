"""A private copy of a configuration and of what was made at run time, edited as a scenario needs it."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.config.write import render
from app.config.yaml_nodes import read
from app.faults.errors import CantPlay
from app.paths import under_var
from features.manifest import active, replace

SERVICE = "service.yaml"
RELEASES = "var/releases"
_STORE = "store"


@dataclass(frozen=True, slots=True)
class Place:
    """`configs` and `var` of one service."""

    configs: Path
    var: Path

    @property
    def releases(self) -> Path:
        """Where its releases lie: as service.yaml says."""
        return Path(under_var(str(self.document(SERVICE).get("releases", RELEASES)), self.var))

    @property
    def served(self) -> str | None:
        """The active release, None when there is no configuration or no release."""
        return active(self.releases) if (self.configs / SERVICE).is_file() else None

    def document(self, name: str) -> dict[str, Any]:
        """A configuration file's document, the environment filled in. Raises OSError and CantPlay."""
        found = read((self.configs / name).read_bytes(), name, os.environ)
        if found.problems or not isinstance(found.value, dict):
            raise CantPlay(f"{self.configs / name}: can't be read. `recserve check` says what is wrong")
        return found.value

    def write(self, name: str, document: dict[str, Any]) -> None:
        """Replace a configuration file by a rename."""
        replace(self.configs / name, render(document))

    @contextlib.contextmanager
    def edit(self, name: str) -> Iterator[dict[str, Any]]:
        """A file's document; what was changed in it is written on leaving."""
        document = self.document(name)
        yield document
        self.write(name, document)

    def scene(self, name: str | None = None) -> str:
        """The file of a scene; without a name that of `home`, else of the first. Raises CantPlay without one."""
        files = sorted(str(path.relative_to(self.configs)) for path in (self.configs / "scenes").glob("*.yaml"))
        names = {str(self.document(file)["scene"]): file for file in files}
        if not names:
            raise CantPlay(f"{self.configs / 'scenes'}: there is no scene")
        return names[name] if name is not None else names.get("home", next(iter(names.values())))

    def copy(self, folder: Path) -> Place:
        """A copy to break: own configuration and store, the active release by reference.

        A store that runs meanwhile is copied as its log stands: its server would forgive a cut end. Clients' keys and
        the operator's token are left out: the copy listens on loopback, in a folder of this user's.
        """
        other = Place(folder / "configs", folder / "var")
        release = self.served
        assert release is not None
        shutil.copytree(self.configs, other.configs)
        releases = other.var / "releases"
        releases.mkdir(parents=True)
        (releases / release).symlink_to((self.releases / release).resolve())
        (releases / "active").write_text(release + "\n")
        with other.edit(SERVICE) as service:
            service["releases"] = RELEASES
            for name in ("token", "clients"):
                service.pop(name, None)
        if (self.var / _STORE).is_dir():
            ignored = shutil.ignore_patterns("lock", "*.log*")
            shutil.copytree(self.var / _STORE, folder / _STORE, ignore=ignored)
        return other
