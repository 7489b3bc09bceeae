"""Generated configuration that is checked before it stands where the service reads it, and put there as a whole."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from app.config.load import load_config
from app.config.problems import ConfigError
from app.config.write import write_files


class Staged:
    """New files in `folder`, with copies of those that `directory` has besides; nothing in `directory` yet."""

    def __init__(self, directory: Path, folder: Path, files: Mapping[str, Mapping[str, Any]]) -> None:
        self.folder = folder
        self._directory = directory
        self._names = tuple(files)
        self._before: dict[Path, bytes | None] = {}
        for name in _yaml_files(directory):
            (folder / name).parent.mkdir(exist_ok=True)
            shutil.copyfile(directory / name, folder / name)
        write_files(folder, files)

    def check(self, env: Mapping[str, str]) -> None:
        """Load the configuration as it would be. Raises ConfigError that names the files where they would stand."""
        try:
            load_config(self.folder, env=env)
        except ConfigError as error:
            here, there = str(self.folder), str(self._directory)
            raise ConfigError(
                replace(problem, mark=replace(problem.mark, file=problem.mark.file.replace(here, there, 1)))
                for problem in error.problems
            ) from None

    def install(self) -> list[Path]:
        """Move the new files into the directory; where they stand then."""
        places = [self._directory / name for name in self._names]
        for name, place in zip(self._names, places, strict=True):
            place.parent.mkdir(exist_ok=True)
            old = place.read_bytes() if place.exists() else None
            self._before[place] = old
            (self.folder / name).replace(place)
        return places

    def undo(self) -> None:
        """Put back what stood there before `install`, as far as that got."""
        for place, old in self._before.items():
            if old is None:
                place.unlink(missing_ok=True)
            else:
                place.write_bytes(old)


@contextlib.contextmanager
def staged(directory: Path, files: Mapping[str, Mapping[str, Any]]) -> Iterator[Staged]:
    """Write `files` into a temporary folder inside `directory`, which is made when missing.

    Inside, since a folder of configuration may be a mount of its own that nothing can be moved into. When the
    block fails, `directory` is as it was.
    """
    missing = [path for path in (directory / "scenes", directory, *directory.parents) if not path.exists()]
    directory.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=".new-", dir=directory))
    new: Staged | None = None
    try:
        new = Staged(directory, folder, files)
        yield new
    except BaseException:
        if new is not None:
            new.undo()
        shutil.rmtree(folder, ignore_errors=True)
        for path in missing:
            with contextlib.suppress(OSError):  # somebody put something there meanwhile, or it was never made
                path.rmdir()
        raise
    shutil.rmtree(folder, ignore_errors=True)


def _yaml_files(directory: Path) -> list[str]:
    """What loading reads: top-level files and scenes."""
    found = (path for pattern in ("*.y*ml", "scenes/*.y*ml") for path in directory.glob(pattern))
    return [str(path.relative_to(directory)) for path in found if path.is_file()]
