"""YAML -> frozen dataclasses: every problem in one run, with file, line and what to do about it."""

from app.config.model import Config
from app.config.problems import ConfigError, Problem

__all__ = ["Config", "ConfigError", "Problem"]
