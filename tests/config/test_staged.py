"""New configuration is checked beside the old and takes its place as a whole, or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.config.problems import ConfigError
from app.config.staged import Staged, staged

FILES = {"service.yaml": {"version": 1, "new": True}, "scenes/home.yaml": {"version": 1, "scene": "home"}}


def contents(folder: Path) -> dict[str, str | None]:
    return {str(path.relative_to(folder)): path.read_text() if path.is_file() else None for path in folder.rglob("*")}


def fail(new: Staged, *, installed: bool) -> None:
    if installed:
        new.install()
    raise KeyboardInterrupt


@pytest.fixture
def old(tmp_path: Path) -> Path:
    folder = tmp_path / "configs"
    (folder / "scenes").mkdir(parents=True)
    (folder / "service.yaml").write_text("old")
    (folder / "scenes" / "own.yaml").write_text("own")
    return folder


def test_nothing_changes_before_it_is_installed(old: Path) -> None:
    with staged(old, FILES) as new:
        assert (old / "service.yaml").read_text() == "old"
        assert (new.folder / "scenes" / "own.yaml").read_text() == "own"
        assert new.install() == [old / "service.yaml", old / "scenes" / "home.yaml"]
    assert "new: true" in (old / "service.yaml").read_text()
    assert set(contents(old)) == {"service.yaml", "scenes", "scenes/home.yaml", "scenes/own.yaml"}


@pytest.mark.parametrize("installed", [False, True])
def test_a_failure_leaves_what_was_there(old: Path, installed: bool) -> None:
    before = contents(old)
    with pytest.raises(KeyboardInterrupt), staged(old, FILES) as new:
        fail(new, installed=installed)
    assert contents(old) == before


def test_a_failure_between_two_files_puts_back_the_first(old: Path) -> None:
    (old / "scenes" / "home.yaml").mkdir()
    before = contents(old)
    with pytest.raises(OSError), staged(old, FILES) as new:
        new.install()
    assert contents(old) == before


def test_a_failure_leaves_no_folder_that_was_not_there(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), staged(tmp_path / "a" / "b", FILES) as new:
        fail(new, installed=True)
    assert list(tmp_path.iterdir()) == []


def test_problems_are_told_where_the_files_would_stand(old: Path) -> None:
    with pytest.raises(ConfigError) as caught, staged(old, FILES) as new:
        new.check({})
    assert f"{old}/service.yaml:" in str(caught.value)
    assert ".new-" not in str(caught.value)
