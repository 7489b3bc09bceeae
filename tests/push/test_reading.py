"""What is read is what was there at one moment, within limits; and what is pinned stays as it was."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import threading
from pathlib import Path

import pytest

from app.config.files import yaml_names
from app.config.yaml_nodes import MAX_BYTES
from app.push.history import History, releases_in_use
from app.push.pinned import Pin, Pins
from app.push.reading import MAX_FILES, MAX_TOTAL, STILL, Content, Unsettled, read_folder, read_settled
from app.push.watch import Watch
from tests.push.fakes import happens

SERVICE, HOME = "service.yaml", "scenes/home.yaml"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "configs"
    (made / "scenes").mkdir(parents=True)
    (made / SERVICE).write_text("version: 1\n")
    (made / HOME).write_text("scene: home\n")
    return made


async def no_time(seconds: float) -> None:
    await asyncio.sleep(0)


def test_what_a_configuration_is_read_from_is_read(folder: Path) -> None:
    (folder / "scenes/more.yml").write_text("stray")
    (folder / "scenes/.#home.yaml").symlink_to("an-editor's-lock")
    (folder / ".service.yaml").write_text("hidden")
    (folder / "service.yaml~").write_text("a backup")
    (folder / "notes.txt").write_text("notes")
    content = read_folder(folder)
    assert dict(content.files) == {SERVICE: b"version: 1\n", HOME: b"scene: home\n", "scenes/more.yml": b"stray"}
    assert content.problems == ()


def test_what_a_worker_refuses_is_pinned_and_nothing_that_it_ignores(folder: Path, tmp_path: Path) -> None:
    strays = {"Scenes/a.yaml", "scenes/b.YAML", "scenes/deep/er/c.yml", "extra.yaml"}
    ignored = {"scenes/.x.yaml", "scenes/.x.swp", "scenes/x.yaml~", "scenes/#x#", "scenes/.git/x.yaml", "other/x.yaml"}
    for name in strays | ignored:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("stray")
    content = read_folder(folder)
    assert content.problems == ()
    assert content.files.keys() == {SERVICE, HOME, *strays}
    pin = Pins(tmp_path / "pins").pin(content, None)
    assert yaml_names(pin.folder) == yaml_names(folder) == sorted(content.files)


def test_the_digest_is_of_names_and_bytes_alone(folder: Path) -> None:
    before = read_folder(folder).digest
    os.utime(folder / HOME, (0, 0))
    assert read_folder(folder).digest == before
    (folder / HOME).rename(folder / "scenes/house.yaml")
    renamed = read_folder(folder).digest
    assert renamed != before
    (folder / "scenes/house.yaml").rename(folder / HOME)
    assert read_folder(folder).digest == before
    (folder / HOME).write_text("scene: hom\n")
    assert read_folder(folder).digest not in (before, renamed)


def test_a_file_that_is_too_large_is_refused(folder: Path) -> None:
    (folder / HOME).write_bytes(b"#" * MAX_BYTES)
    assert read_folder(folder).problems == ()
    (folder / HOME).write_bytes(b"#" * (MAX_BYTES + 1))
    assert read_folder(folder).problems == (
        f"{folder / HOME}: The file has 1,048,577 bytes. Expected at most 1,048,576.",
    )


def test_too_many_files_are_refused(folder: Path) -> None:
    for number in range(MAX_FILES - 1):
        (folder / f"scenes/s{number}.yaml").write_text("")
    assert read_folder(folder).problems == (f"{folder}: There are 257 files. Expected at most 256.",)


def test_too_many_bytes_together_are_refused(folder: Path) -> None:
    for number in range(MAX_TOTAL // MAX_BYTES):
        with (folder / f"scenes/s{number}.yaml").open("wb") as file:
            file.truncate(MAX_BYTES)
    said = f"{folder}: The files have over 16,777,216 bytes together. Expected at most that."
    assert read_folder(folder).problems == (said,)


@pytest.mark.parametrize("kind", ["pipe", "folder", "loop", "nowhere"])
def test_what_is_no_file_is_refused_and_never_waited_for(folder: Path, kind: str) -> None:
    path = folder / HOME
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("home.yaml" if kind == "loop" else "../gone.yaml")
    [said] = read_folder(folder).problems
    expected = {
        "pipe": "Not a file. Expected one, or a symbolic link to one.",
        "folder": "Not a file. Expected one, or a symbolic link to one.",
        "loop": "The file can't be read: Too many levels of symbolic links.",
        "nowhere": "A link that leads nowhere, or a file that was just removed. Expected a file.",
    }
    assert said == f"{path}: {expected[kind]}"


def test_a_folder_that_isnt_there_is_a_problem(tmp_path: Path) -> None:
    expected = "Expected one with service.yaml, features.yaml, models.yaml, abtest.yaml, scenes/."
    assert read_folder(tmp_path / "no").problems == (f"{tmp_path / 'no'}: There is no such directory. {expected}",)


def test_a_file_caught_half_written_is_never_taken(folder: Path) -> None:
    """A writer fills a file in small pieces beside the reader; only what is whole is read."""
    whole = "".join(f"line{number}: {number}\n" for number in range(200))
    started = threading.Event()
    pieces = 0

    def write() -> None:
        nonlocal pieces
        with (folder / HOME).open("w", buffering=1) as file:
            for line in whole.splitlines(keepends=True):
                file.write(line)
                pieces += 1
                started.set()
                moved.wait(10)
                moved.clear()

    moved = threading.Event()

    async def while_it_writes(seconds: float) -> None:
        assert seconds == STILL
        before = pieces
        moved.set()
        await happens(lambda: pieces > before or not writer.is_alive())

    writer = threading.Thread(target=write)
    writer.start()
    assert started.wait(10)
    content = asyncio.run(read_settled(lambda: read_folder(folder), while_it_writes, tries=1_000))
    writer.join(10)
    assert content.files[HOME].decode() == whole


def test_files_that_never_stand_still_are_given_up(folder: Path) -> None:
    def write(content: list[int] = []) -> Content:  # noqa: B006  # counts its calls
        content.append(1)
        (folder / HOME).write_text(str(len(content)))
        return read_folder(folder)

    with pytest.raises(Unsettled, match="keep changing"):
        asyncio.run(read_settled(write, no_time))


def test_a_folder_between_two_renames_is_never_taken(folder: Path) -> None:
    """An editor writes beside and renames, one file after the other; the reader comes between."""

    def save(name: str, text: str) -> None:
        (folder / f"{name}.tmp").write_text(text)
        (folder / f"{name}.tmp").rename(folder / name)

    steps = [(SERVICE, "version: 2\n"), (HOME, "scene: second\n")]

    async def while_it_saves(seconds: float) -> None:
        if steps:
            save(*steps.pop(0))

    content = asyncio.run(read_settled(lambda: read_folder(folder), while_it_saves))
    assert dict(content.files) == {SERVICE: b"version: 2\n", HOME: b"scene: second\n"}


def kubernetes(root: Path, version: str) -> None:
    """A config map's mount: every name is a link through `..data`, which is replaced by a rename."""
    data = root / f"..{version}"
    (data / "scenes").mkdir(parents=True)
    (data / SERVICE).write_text(f"version: {version}\n")
    (data / HOME).write_text(f"scene: {version}\n")
    (root / "..data_tmp").symlink_to(data.name)
    (root / "..data_tmp").rename(root / "..data")


def test_a_swapped_link_is_one_change(tmp_path: Path) -> None:
    root = tmp_path / "mount"
    root.mkdir()
    kubernetes(root, "1")
    (root / SERVICE).symlink_to(f"..data/{SERVICE}")
    (root / "scenes").symlink_to("..data/scenes")
    watch = Watch(lambda: read_folder(root).digest)
    watch.pushed(read_folder(root).digest)
    assert [watch.look(), watch.look()] == [False, False]
    kubernetes(root, "2")
    assert [watch.look(), watch.look()] == [False, True]
    assert dict(read_folder(root).files) == {SERVICE: b"version: 2\n", HOME: b"scene: 2\n"}
    watch.pushed(read_folder(root).digest)
    assert watch.look() is False


def test_a_change_that_was_taken_back_is_none() -> None:
    now = "a"
    watch = Watch(lambda: now)
    watch.pushed("a")
    watch.look()
    now = "b"
    assert watch.look() is False
    now = "a"
    assert [watch.look(), watch.look()] == [False, False]


def test_what_is_pinned_stays_as_it_was_and_private(folder: Path, tmp_path: Path) -> None:
    pins = Pins(tmp_path / "pins")
    pin = pins.pin(read_folder(folder), "r1")
    (folder / HOME).write_text("changed")
    assert (pin.folder / HOME).read_text() == "scene: home\n"
    assert pins.intact(pin)
    assert stat.S_IMODE((pin.folder / SERVICE).stat().st_mode) == 0o600
    assert stat.S_IMODE(pin.folder.stat().st_mode) == 0o700


def test_a_pinned_copy_that_was_edited_is_written_again(folder: Path, tmp_path: Path) -> None:
    pins = Pins(tmp_path / "pins")
    pin = pins.pin(read_folder(folder), None)
    (pin.folder / HOME).write_text("edited")
    assert not pins.intact(pin)
    assert pins.pin(read_folder(folder), None) == pin
    assert pins.intact(pin)
    assert [path.name for path in (tmp_path / "pins").iterdir()] == [pin.digest]


def test_eight_are_kept_and_what_is_in_use(folder: Path, tmp_path: Path) -> None:
    pins = Pins(tmp_path / "pins")
    made: list[Pin] = []
    for number in range(20):
        (folder / HOME).write_text(f"scene: s{number}\n")
        made.append(pins.pin(read_folder(folder), None, keep=made[:2]))
        os.utime(made[-1].folder, (number, number))
    kept = {path.name for path in (tmp_path / "pins").iterdir()}
    assert kept == {pin.digest for pin in (*made[:2], *made[-6:])}


def test_what_a_crash_left_behind_is_removed(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "pins/.new-x").mkdir(parents=True)
    pin = Pins(tmp_path / "pins").pin(read_folder(folder), None)
    assert [path.name for path in (tmp_path / "pins").iterdir()] == [pin.digest]


def test_the_history_outlives_its_process(tmp_path: Path) -> None:
    pins = [Pin(f"d{number}", tmp_path / f"d{number}", f"r{number}") for number in range(12)]
    history = History(tmp_path)
    for pin in pins:
        history.remember(pin)
        history.remember(pin)
    again = History(tmp_path)
    assert again.pins == pins[-8:]
    assert again.before(pins[-1]) == pins[-2]
    assert again.before(Pin("new", tmp_path, None)) == pins[-1]
    assert releases_in_use(tmp_path) == {"r10", "r11"}
    again.back_to(pins[-2])
    assert History(tmp_path).before(pins[-2]) == pins[-3]


@pytest.mark.parametrize("text", ["", "{", "7", '[{"config": 1}]', "[1]"])
def test_an_unreadable_history_is_an_empty_one(tmp_path: Path, text: str) -> None:
    (tmp_path / "history.json").write_text(text)
    assert History(tmp_path).pins == []
    assert releases_in_use(tmp_path) == set()


def test_a_history_that_cant_be_written_is_told_once_more_each_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    history = History(tmp_path / "file")
    history.remember(Pin("a", tmp_path, None))
    assert "can't be written" in caplog.text
    (tmp_path / "file").unlink()
    history.remember(Pin("a", tmp_path, None))
    assert json.loads((tmp_path / "file/history.json").read_text()) == [{"config": "a", "release": None}]


def test_a_name_that_is_not_utf_8_is_refused_and_shown_escaped(tmp_path: Path) -> None:
    (tmp_path / "scenes").mkdir()
    (tmp_path / "scenes" / "\udcff.yaml").write_text("a: 1\n")
    content = read_folder(tmp_path)
    assert content.problems == (
        rf"{tmp_path}/scenes/\xff.yaml: The name isn't UTF-8. Expected one that is: rename the file, or remove it.",
    )
    assert not content.files
