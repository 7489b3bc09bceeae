"""Running `recserve ab ...` in this process."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.cli import main


class Cli:
    """`said` and `told` are what the last call wrote to stdout and stderr."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.said = self.told = ""

    def __call__(self, *words: object) -> int:
        self._capsys.readouterr()
        status = main(["ab", *map(str, words)])
        self.said, self.told = self._capsys.readouterr()
        return status

    def json(self, *words: object) -> tuple[int, Any]:
        status = self(*words, "--json")
        return status, json.loads(self.said)
