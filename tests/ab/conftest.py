from __future__ import annotations

import pytest

from tests.ab.cli import Cli


@pytest.fixture
def ab(capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(capsys)
