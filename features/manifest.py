"""The release manifest: every artefact with version, checksum, schema and embedding space.

A release is a folder `<version>/` of files beside `manifest.json`; `active` names the one that serves and
`previous` the one before. Both are replaced by a rename, so a reader sees the old one or the new one.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from expression import Strings, Vocabulary
from features.item_table import IdTable
from features.keys import tag_contract
from features.lists import Lists

Column = np.ndarray[Any, Any] | Strings
FORMAT = 1
NAME = "manifest.json"
SECTIONS = ("entities", "views", "lists", "indexes", "models")


class ManifestError(ValueError):
    """A release folder is incomplete, damaged or of another format."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """A release's table of contents. Sections map artefact names to entries with `files` (name -> sha256, bytes)."""

    root: Path
    release: str
    as_of: float
    entities: Mapping[str, Any]
    views: Mapping[str, Any]
    lists: Mapping[str, Any]
    indexes: Mapping[str, Any]
    models: Mapping[str, Any]
    about: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, root: Path, *, verify: bool = True) -> Manifest:
        """Read and check a release folder. ManifestError names the file that is missing or differs."""
        path = root / NAME
        try:
            document = json.loads(path.read_bytes())
        except FileNotFoundError:
            raise ManifestError(f"{path}: there is no manifest. Expected a release folder.") from None
        except ValueError as error:
            raise ManifestError(f"{path}: not JSON ({error}).") from None
        except RecursionError:
            raise ManifestError(f"{path}: nested too deeply. Expected the manifest of a release.") from None
        if not isinstance(document, dict):
            raise ManifestError(f"{path}: not an object. Expected the manifest of a release.")
        if document.get("version") != FORMAT:
            raise ManifestError(f"{path}: format {document.get('version')!r}. Expected {FORMAT}.")
        if document.get("tags") != tag_contract():
            raise ManifestError(f"{path}: key tags {document.get('tags')!r}. Expected {tag_contract()!r}.")
        lacking = [name for name in (*SECTIONS, "release", "as_of", "about") if name not in document]
        if lacking:
            raise ManifestError(f"{path}: there is no {lacking[0]!r} in it. Expected {', '.join(SECTIONS)}.")
        lost = {"item", "user"} - document["entities"].keys()
        if lost:
            raise ManifestError(f"{path}: there are no ids of {min(lost)}s. Expected both item and user.")
        if verify:
            for section in SECTIONS:
                for entry in document[section].values():
                    _verify(root, entry["files"])
        return cls(
            root=root,
            release=document["release"],
            as_of=document["as_of"],
            about=document["about"],
            **{section: document[section] for section in SECTIONS},
        )


def _verify(root: Path, files: Mapping[str, Any]) -> None:
    for name, facts in files.items():
        path = root / name
        if not path.exists():
            raise ManifestError(f"{path}: missing. Expected {facts['bytes']} bytes.")
        found = file_facts(path)
        if found != facts:
            raise ManifestError(f"{path}: differs from the manifest: {found}. Expected {facts}.")


def file_facts(path: Path) -> dict[str, Any]:
    """sha256 and size of a file."""
    with path.open("rb") as file:
        return {"sha256": hashlib.file_digest(file, "sha256").hexdigest(), "bytes": path.stat().st_size}


class ReleaseWriter:
    """Writes a release folder; nothing counts until `finish` has put the manifest there."""

    def __init__(self, releases: Path, release: str, as_of: float) -> None:
        self.root = releases / release
        self.root.mkdir(parents=True, exist_ok=False)
        self._document: dict[str, Any] = {
            "version": FORMAT, "release": release, "as_of": as_of, "tags": tag_contract(),
            "entities": {}, "views": {}, "lists": {}, "indexes": {}, "models": {}, "about": {},
        }  # fmt: skip

    def ids(self, entity: str, ids: IdTable) -> None:
        """Write an entity's id table."""
        arrays: dict[str, Any] = {"keys": ids.keys, "order": ids.order, "offsets": ids.offsets, "blob": ids.blob}
        self._document["entities"][entity] = {"n": len(ids), "files": self._save(f"ids.{entity}", arrays)}

    def view(
        self, name: str, entity: str, columns: Mapping[str, Column], spaces: Mapping[str, str] | None = None
    ) -> None:
        """Write a view's columns, one value or vector per row of `entity`; `spaces` names vectors' spaces."""
        arrays: dict[str, np.ndarray[Any, Any]] = {}
        fields: dict[str, str] = {}
        for column, values in columns.items():
            if isinstance(values, Strings):
                fields[column] = "str"
                arrays[f"{column}.codes"] = values.codes
                arrays[f"{column}.offsets"] = values.vocab.offsets
                arrays[f"{column}.blob"] = values.vocab.blob
            else:
                fields[column] = type_name(values)
                arrays[column] = values
        self._document["views"][name] = {
            "entity": entity, "fields": fields, "spaces": dict(spaces or {}), "files": self._save(name, arrays),
        }  # fmt: skip

    def lists(self, name: str, lists: Lists, **about: Any) -> None:
        """Write CSR lists."""
        arrays: dict[str, Any] = {"indptr": lists.indptr, "rows": lists.rows, "scores": lists.scores}
        self._document["lists"][name] = {
            "groups": list(lists.groups), "about": about, "files": self._save(f"lists.{name}", arrays),
        }  # fmt: skip

    def file(self, section: str, name: str, file: str, **entry: Any) -> None:
        """Register `root/file`, already written, as an index or a model."""
        self._document[section][name] = {**entry, "file": file, "files": {file: file_facts(self.root / file)}}

    def golden(self, model: str, inputs: Mapping[str, np.ndarray[Any, Any]], outputs: Mapping[str, Any]) -> None:
        """Add inputs to a registered model and the outputs that they gave when it was built, checked at every load."""
        entry = self._document["models"][model]
        entry["golden"] = {"inputs": list(inputs), "outputs": list(outputs)}
        for kind, arrays in (("in", inputs), ("out", outputs)):
            entry["files"] |= self._save(f"{model}.golden.{kind}", arrays)

    def about(self, **facts: Any) -> None:
        """Add facts for people: figures, seed, source."""
        self._document["about"].update(facts)

    def finish(self) -> Manifest:
        """Write the manifest and read it back."""
        replace(self.root / NAME, json.dumps(self._document, indent=1, ensure_ascii=False))
        return Manifest.read(self.root, verify=False)

    def _save(self, stem: str, arrays: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, Any]:
        files = {}
        for name, array in arrays.items():
            path = self.root / f"{stem}.{name}.npy"
            np.save(path, np.ascontiguousarray(array))
            files[path.name] = file_facts(path)
        return files


def type_name(values: np.ndarray[Any, Any]) -> str:
    """The field type of an array: f32, f64, i32, i64, bool or f32[d]."""
    names = {"float32": "f32", "float64": "f64", "int32": "i32", "int64": "i64", "bool": "bool"}
    name = names.get(values.dtype.name)
    if name is None or values.ndim > 2:
        raise ValueError(f"A column cannot be {values.dtype}[{values.ndim}d]. Expected one of {', '.join(names)}.")
    return name if values.ndim == 1 else f"{name}[{values.shape[1]}]"


def _array(root: Path, stem: str, name: str) -> np.ndarray[Any, Any]:
    array: np.ndarray[Any, Any] = np.load(root / f"{stem}.{name}.npy", mmap_mode="r", allow_pickle=False)
    array.reshape(-1).view(np.uint8)[::4096].max(initial=0)  # map every page now: no request pays for it
    return array.view(np.ndarray)  # np.memmap makes every take() slower; the mapping itself stays alive as base


def read_ids(manifest: Manifest, entity: str) -> IdTable:
    """The id table of an entity, memory-mapped."""
    stem = f"ids.{entity}"
    parts = [_array(manifest.root, stem, part) for part in ("keys", "order", "offsets", "blob")]
    return IdTable(manifest.release, *parts)


def read_column(manifest: Manifest, view: str, field: str) -> Column:
    """One column of a view, memory-mapped and read-only."""
    if manifest.views[view]["fields"][field] == "str":
        vocab = Vocabulary(
            _array(manifest.root, view, f"{field}.offsets"), _array(manifest.root, view, f"{field}.blob")
        )
        return Strings(_array(manifest.root, view, f"{field}.codes"), vocab)
    return _array(manifest.root, view, field)


def read_golden(manifest: Manifest, model: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """A model's golden inputs and outputs by name; empty when it has none."""
    golden = manifest.models[model].get("golden", {"inputs": [], "outputs": []})
    return (
        {name: _array(manifest.root, f"{model}.golden.in", name) for name in golden["inputs"]},
        {name: _array(manifest.root, f"{model}.golden.out", name) for name in golden["outputs"]},
    )


def read_lists(manifest: Manifest, name: str) -> Lists:
    """Lists, memory-mapped."""
    indptr, rows, scores = (_array(manifest.root, f"lists.{name}", part) for part in ("indptr", "rows", "scores"))
    return Lists(indptr, rows, scores, tuple(manifest.lists[name]["groups"]))


def replace(path: Path, text: str) -> None:
    """Write a small file so that a reader sees the old content or the new one, also after a crash.

    Raises OSError, with the file's name in it whatever failed: a full disk says none by itself.
    """
    temporary = path.with_name(path.name + ".new")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise OSError(error.errno, error.strerror, str(path)) from error


def activate(releases: Path, release: str) -> None:
    """Make `release` the one that is served next; remembers the one before for a rollback.

    Raises ManifestError, changing nothing, for a folder without a manifest.
    """
    manifest = releases / release / NAME
    if not manifest.is_file():
        raise ManifestError(f"{manifest}: there is no manifest, so it can't be activated. Expected a complete release.")
    current = active(releases)
    if current is not None and current != release:
        replace(releases / "previous", current + "\n")
    replace(releases / "active", release + "\n")


def active(releases: Path) -> str | None:
    """The active release's version, None when nothing was activated yet. ManifestError when the file is no text."""
    path = releases / "active"
    try:
        return path.read_text(encoding="utf-8").strip() if path.exists() else None
    except UnicodeDecodeError:
        raise ManifestError(f"{path}: isn't UTF-8. Expected the name of a release; write it there.") from None
