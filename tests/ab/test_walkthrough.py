"""What docs/experiments.md shows are commands that exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from app.cli import parser

TEXT = (Path(__file__).parents[2] / "docs" / "experiments.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("line", sorted(set(re.findall(r"^\$ recserve (ab .*)$", TEXT, re.MULTILINE))))
def test_a_command_of_the_walkthrough_is_understood(line: str) -> None:
    assert parser("ab").parse_args(shlex.split(line)).action in line


def test_the_walkthrough_uses_every_step_from_start_to_stop() -> None:
    used = set(re.findall(r"^\$ recserve ab (\w+)", TEXT, re.MULTILINE))
    assert used >= {"power", "aa", "start", "why", "check", "ramp", "srm", "analyze", "stop"}
