"""Where things made at run time live: under `var/`, or under what `--var` names instead."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from app.config.model import Config

DEFAULT_VAR = Path("var")


def under_var(path: str, var: Path) -> str:
    """`var/x` as `VAR/x`; any other path stays as it is."""
    parts = Path(path).parts
    return str(var.joinpath(*parts[1:])) if parts[:1] == ("var",) else path


def placed(config: Config, var: Path) -> Config:
    """The configuration with its releases folder under `var`."""
    return replace(config, service=replace(config.service, releases=under_var(config.service.releases, var)))
