"""`recserve release` where the folder isn't as it should be: every failure is a line that names the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from features.manifest import activate, active
from tests.push.test_releases import command, written


@pytest.fixture
def var(tmp_path: Path) -> Path:
    for age, version in enumerate(("r2", "r1")):
        written(tmp_path, version, age=age)
        activate(tmp_path / "releases", version)
    return tmp_path


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"[" * 100_000, "nested too deeply"),
        (b"{", "not JSON"),
        (b"\xff", "not JSON"),
        (None, "Is a directory."),
    ],
    ids=["deep", "cut", "bytes", "unreadable"],
)
def test_a_manifest_that_can_not_be_read_is_told_as_that(
    var: Path, capsys: pytest.CaptureFixture[str], content: bytes | None, said: str
) -> None:
    manifest = var / "releases" / "r2" / "manifest.json"
    manifest.unlink()
    if content is None:
        manifest.mkdir()
    else:
        manifest.write_bytes(content)
    assert command(var, "activate", "r2") == 1
    told = capsys.readouterr().err
    assert f"{manifest}: {said}" in told
    assert "There is no release" not in told
    assert command(var, "list") == 0
    assert active(var / "releases") == "r1"


@pytest.mark.parametrize("name", ["active", "previous"])
def test_a_pointer_that_is_no_text_is_named(var: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    (var / "releases" / name).write_bytes(b"\xff\n")
    for words in (("list",), ("activate", "r2"), ("rollback",), ("gc",)):
        assert command(var, *words) == 1
        assert f"{var / 'releases' / name}: isn't UTF-8" in capsys.readouterr().err


def test_a_full_disk_is_told_with_the_file(var: Path, capsys: pytest.CaptureFixture[str]) -> None:
    releases = var / "releases"
    (releases / "active.new").symlink_to("/dev/full")
    assert command(var, "rollback") == 1
    assert capsys.readouterr().err.strip().endswith(f"{releases / 'active'}: No space left on device.")
    assert active(releases) == "r1"
