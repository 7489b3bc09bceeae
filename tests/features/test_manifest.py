"""The release folder: what is written comes back, and whatever is damaged is named."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expression import Strings
from features.item_table import IdTable
from features.lists import Lists
from features.manifest import (
    NAME,
    Manifest,
    ManifestError,
    ReleaseWriter,
    activate,
    active,
    read_column,
    read_ids,
    read_lists,
    replace,
    type_name,
)

TITLES = ["Tee grün", None, "💰", ""]


def written(releases: Path, version: str = "r1") -> Path:
    writer = ReleaseWriter(releases, version, 1_700_000_000.0)
    writer.ids("item", IdTable.build(["a", "b", "c", "d"]))
    writer.ids("user", IdTable.build([]))
    columns = {
        "price": np.array([1, np.nan, 3, 4], np.float32),
        "stock": np.array([1, 0, 3, 4], np.int32),
        "seen": np.array([1, 2, 3, 4], np.float64),
        "on": np.array([True, False, True, True]),
        "vector": np.arange(8, dtype=np.float32).reshape(4, 2),
        "title": Strings.encode(TITLES),
        "nothing": Strings.encode([None] * 4),
    }
    writer.view("items", "item", columns, {"vector": "als"})
    writer.lists("popular", Lists.of_groups([("all", np.array([1, 0], np.int32), np.array([1, 0.5], np.float32))]))
    writer.lists("empty", Lists.of_groups([]))
    (writer.root / "trees.onnx").write_bytes(b"graph")
    writer.file("models", "trees", "trees.onnx", heads=["buy"])
    writer.about(seed=7)
    writer.finish()
    return writer.root


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("releases"))


def test_what_is_written_comes_back(root: Path) -> None:
    manifest = Manifest.read(root)
    assert (manifest.release, manifest.as_of, manifest.about["seed"]) == ("r1", 1_700_000_000.0, 7)
    assert manifest.views["items"]["spaces"] == {"vector": "als"}
    assert manifest.models["trees"]["heads"] == ["buy"]
    ids = read_ids(manifest, "item")
    assert ids.version == "r1"
    assert ids.rows(["d", "x", "a"]).tolist() == [3, -1, 0]
    title = read_column(manifest, "items", "title")
    assert isinstance(title, Strings)
    assert title.decode() == TITLES
    price = read_column(manifest, "items", "price")
    assert isinstance(price, np.ndarray)
    np.testing.assert_array_equal(price, [1, np.nan, 3, 4])
    assert read_lists(manifest, "popular").group("all") == 0


def test_what_is_empty_comes_back_empty(root: Path) -> None:
    manifest = Manifest.read(root)
    assert len(read_ids(manifest, "user")) == 0
    assert read_ids(manifest, "user").rows(["a"]).tolist() == [-1]
    nothing = read_column(manifest, "items", "nothing")
    assert isinstance(nothing, Strings)
    assert nothing.decode() == [None] * 4
    assert len(read_lists(manifest, "empty")) == 0


def test_columns_are_mapped_and_read_only(root: Path) -> None:
    column = read_column(Manifest.read(root), "items", "vector")
    assert isinstance(column, np.ndarray)
    assert type(column) is np.ndarray
    assert isinstance(column.base, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        column[0] = 0


def files_of(root: Path) -> list[str]:
    document = json.loads((root / NAME).read_bytes())
    sections = ("entities", "views", "lists", "indexes", "models")
    return [f for section in sections for entry in document[section].values() for f in entry["files"]]


def test_every_file_of_the_folder_is_in_the_manifest(root: Path) -> None:
    assert sorted([*files_of(root), NAME]) == sorted(path.name for path in root.iterdir())


def damage(path: Path, how: str) -> None:
    content = path.read_bytes()
    match how:
        case "missing":
            path.unlink()
        case "empty":
            path.write_bytes(b"")
        case "cut":
            path.write_bytes(content[:-1])
        case "longer":
            path.write_bytes(content + b"\0")
        case _:
            path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


@pytest.mark.parametrize("how", ["missing", "empty", "cut", "longer", "changed"])
def test_every_damaged_file_is_named(tmp_path: Path, how: str) -> None:
    root = written(tmp_path)
    for name in files_of(root):
        held = (root / name).read_bytes()
        damage(root / name, how)
        with pytest.raises(ManifestError) as found:
            Manifest.read(root)
        assert str(root / name) in str(found.value)
        (root / name).write_bytes(held)
    Manifest.read(root)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_any_changed_byte_is_found(root: Path, data: st.DataObject) -> None:
    path = root / data.draw(st.sampled_from(files_of(root)))
    held = path.read_bytes()
    at, flip = data.draw(st.integers(0, len(held) - 1)), data.draw(st.integers(1, 255))
    path.write_bytes(held[:at] + bytes([held[at] ^ flip]) + held[at + 1 :])
    try:
        with pytest.raises(ManifestError, match="differs from the manifest"):
            Manifest.read(root)
    finally:
        path.write_bytes(held)


def test_a_folder_without_manifest_is_no_release(tmp_path: Path) -> None:
    ReleaseWriter(tmp_path, "half", 0.0).ids("item", IdTable.build(["a"]))
    with pytest.raises(ManifestError, match="there is no manifest"):
        Manifest.read(tmp_path / "half")


def edited(root: Path, **changes: Any) -> None:
    document = json.loads((root / NAME).read_bytes())
    document.update(changes)
    (root / NAME).write_text(json.dumps({k: v for k, v in document.items() if v != "gone"}))


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "not JSON"), ('{"version": 1', "not JSON"), ("[]", "not an object"), ("{}", "format None. Expected 1")],
)
def test_a_damaged_manifest_is_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / NAME).write_text(text)
    with pytest.raises(ManifestError, match=message) as found:
        Manifest.read(tmp_path)
    assert str(tmp_path / NAME) in str(found.value)


@pytest.mark.parametrize("name", ["entities", "views", "lists", "indexes", "models", "release", "as_of", "about"])
def test_a_missing_section_is_named(tmp_path: Path, name: str) -> None:
    root = written(tmp_path)
    edited(root, **{name: "gone"})
    with pytest.raises(ManifestError, match=f"there is no '{name}' in it"):
        Manifest.read(root)


def test_another_format_and_other_key_tags_are_refused(tmp_path: Path) -> None:
    root = written(tmp_path)
    edited(root, version=2)
    with pytest.raises(ManifestError, match=r"format 2\. Expected 1"):
        Manifest.read(root)
    edited(root, version=1, tags={"function": "crc16"})
    with pytest.raises(ManifestError, match="key tags"):
        Manifest.read(root)


def test_a_release_without_user_ids_is_named(tmp_path: Path) -> None:
    writer = ReleaseWriter(tmp_path, "r", 0.0)
    writer.ids("item", IdTable.build(["a"]))
    with pytest.raises(ManifestError, match="no ids of users"):
        writer.finish()


def test_a_release_is_never_overwritten(tmp_path: Path) -> None:
    written(tmp_path)
    with pytest.raises(FileExistsError):
        ReleaseWriter(tmp_path, "r1", 0.0)


def test_activation_remembers_the_release_before(tmp_path: Path) -> None:
    assert active(tmp_path) is None
    for version in ("r1", "r2"):
        written(tmp_path, version)
        activate(tmp_path, version)
        assert active(tmp_path) == version
    assert (tmp_path / "previous").read_text().strip() == "r1"
    activate(tmp_path, "r2")
    assert (tmp_path / "previous").read_text().strip() == "r1"
    activate(tmp_path, "r1")
    assert (active(tmp_path), (tmp_path / "previous").read_text().strip()) == ("r1", "r2")


def test_a_folder_without_a_manifest_is_not_activated(tmp_path: Path) -> None:
    written(tmp_path)
    activate(tmp_path, "r1")
    (tmp_path / "r2").mkdir()
    for version in ("r2", "r3"):
        with pytest.raises(ManifestError, match=rf"{version}.manifest\.json: there is no manifest"):
            activate(tmp_path, version)
    assert (active(tmp_path), (tmp_path / "previous").exists()) == ("r1", False)


def test_a_column_of_another_type_is_refused() -> None:
    with pytest.raises(ValueError, match=r"cannot be uint8\[1d\]"):
        type_name(np.zeros(3, np.uint8))
    with pytest.raises(ValueError, match=r"cannot be float32\[3d\]"):
        type_name(np.zeros((2, 2, 2), np.float32))
    assert type_name(np.zeros((3, 5), np.float32)) == "f32[5]"


def test_a_manifest_that_is_nested_too_deeply_is_one_that_can_not_be_read(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text("[" * 100_000)
    with pytest.raises(ManifestError, match=r"manifest\.json: nested too deeply"):
        Manifest.read(tmp_path)


def test_a_pointer_that_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "active").write_bytes(b"\xff")
    with pytest.raises(ManifestError, match="active: isn't UTF-8"):
        active(tmp_path)


def test_a_write_that_a_full_disk_breaks_off_leaves_the_old_content_and_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "active"
    replace(path, "r1")
    (tmp_path / "active.new").symlink_to("/dev/full")
    with pytest.raises(OSError, match=rf"No space left on device: '{path}'"):
        replace(path, "r2")
    assert path.read_text() == "r1"
    assert list(tmp_path.iterdir()) == [path]
