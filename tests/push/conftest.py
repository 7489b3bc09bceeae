"""The fleet that most pushes are tried on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.push.fakes import FakeFleet


@pytest.fixture
def fleet(tmp_path: Path) -> FakeFleet:
    """Serves the scene `one` and the release `r1`, once it is started."""
    made = FakeFleet(tmp_path)
    made.write("one")
    made.activate("r1")
    return made
