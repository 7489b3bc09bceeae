"""The example configuration with edits, and the problems that loading it finds."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from app.config.load import load_config
from app.config.model import Config
from app.config.problems import ConfigError
from stages.registry import Registry, discover

EXAMPLE = Path(__file__).parent / "data" / "example"
SERVICE, FEATURES, MODELS, ABTEST = "service.yaml", "features.yaml", "models.yaml", "abtest.yaml"
HOME = "scenes/home.yaml"


@lru_cache(maxsize=1)
def components() -> Registry:
    return discover()


def example(folder: Path, *edits: tuple[str, str, str]) -> Path:
    """A copy of the example; each edit (file, old, new) must apply exactly once."""
    target = folder / "configs"
    shutil.copytree(EXAMPLE, target)
    for file, old, new in edits:
        path = target / file
        text = path.read_text(encoding="utf-8")
        assert text.count(old) == 1, (file, old, text.count(old))
        path.write_text(text.replace(old, new), encoding="utf-8")
    return target


def load(folder: Path, env: Mapping[str, str] | None = None) -> Config:
    return load_config(folder, env=env or {}, registry=lambda extensions: components())


def problems(folder: Path, env: Mapping[str, str] | None = None) -> list[str]:
    """The lines of the ConfigError, without the folder; none when the configuration is good."""
    try:
        load(folder, env)
    except ConfigError as error:
        return [line.removeprefix(f"{folder}/") for line in str(error).splitlines()]
    return []
