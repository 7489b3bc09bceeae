"""What a newcomer is told when the system or the environment isn't as it must be."""

import ctypes.util
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from recserve.__main__ import ROOMS, shadowed

ROOT = Path(__file__).resolve().parents[2]


def preflight() -> list[str]:
    spec = importlib.util.spec_from_file_location("preflight", ROOT / "tools" / "preflight.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: list[str] = module.problems()
    return found


def test_a_system_with_all_that_is_needed_has_no_problem() -> None:
    assert preflight() == []


def test_a_missing_libgomp_is_named_with_the_command_that_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes.util, "find_library", lambda name: None)
    assert preflight() == ["The library libgomp1 is missing (LightGBM needs it). On Debian: apt-get install libgomp1."]


def test_an_old_python_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 9, 2))
    assert preflight()[0].startswith("Python 3.9 is too old. Expected 3.11 or newer")


def test_every_room_is_our_own() -> None:
    assert shadowed(ROOT) == []


@pytest.mark.parametrize("room", ROOMS)
def test_a_shadowed_room_is_named_with_the_file_that_shadows_it(tmp_path: Path, room: str) -> None:
    (tmp_path / room).mkdir()
    (tmp_path / room / "__init__.py").write_text("")
    done = subprocess.run(
        [sys.executable, "-m", "recserve", "check"],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert str(tmp_path / room / "__init__.py") in done.stderr
    assert "environment of its own" in done.stderr
