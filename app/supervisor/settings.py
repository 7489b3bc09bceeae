"""What the supervisor itself reads of the configuration: service.yaml alone, no component and no extension."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from app.config import service_part
from app.config.bind import Binder
from app.config.files import read_file
from app.config.findings import Findings
from app.config.load import load_config
from app.config.model import Service
from app.config.problems import ConfigError


def read_settings(directory: Path, env: Mapping[str, str]) -> Service:
    """The service's settings. ConfigError with every problem of every file when service.yaml has one."""
    findings = Findings(str(directory))
    read_file(findings, directory, service_part.FILE, env)
    settings = service_part.service_of(Binder(findings), findings.documents[service_part.FILE].value)
    if findings.problems:
        load_config(directory, env=env)  # which tells of the other files too
        raise ConfigError(findings.problems)
    return settings
