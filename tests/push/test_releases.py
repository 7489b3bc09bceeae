"""`recserve release`: only what is whole and plausible is activated, and what serves is never removed."""

from __future__ import annotations

import argparse
import errno
import json
import os
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.cli import release
from app.push.history import History
from app.push.pinned import Pin
from app.push.poke import NoService, find
from app.push.releases import UNFINISHED, previous, put_back_on_failure, removable, remove, sweep
from features.growth import implausible
from features.item_table import IdTable
from features.lists import Lists
from features.manifest import Manifest, ReleaseWriter, activate, active

NOW = 2_000_000_000.0


def written(var: Path, version: str, items: int = 100, popular: int = 10, extra: bool = False, age: int = 0) -> Path:
    writer = ReleaseWriter(var / "releases", version, 1_700_000_000.0)
    writer.ids("item", IdTable.build([f"i{number}" for number in range(items)]))
    writer.ids("user", IdTable.build([]))
    writer.view("items", "item", {"price": np.zeros(items, np.float32)})
    rows = np.arange(popular, dtype=np.int32)
    writer.lists("popular", Lists.of_groups([("all", rows, np.ones(popular, np.float32))] if popular else []))
    if extra:
        writer.lists("more", Lists.of_groups([]))
    writer.finish()
    os.utime(writer.root / "manifest.json", (NOW - age, NOW - age))
    return writer.root


def manifest(tmp_path: Path, version: str, **sizes: Any) -> Manifest:
    return Manifest.read(written(tmp_path, version, **sizes))


def command(var: Path, *words: str) -> int:
    parser = argparse.ArgumentParser()
    release.add(parser.add_subparsers())
    more = ("--no-reload",) if words[0] in ("activate", "rollback") and "--operator" not in words else ()
    args = parser.parse_args(["release", *words, *more, "--var", str(var)])
    status: int = args.run(args)
    return status


@pytest.fixture
def var(tmp_path: Path) -> Path:
    for age, version in enumerate(("r4", "r3", "r2", "r1")):
        written(tmp_path, version, age=age)
    activate(tmp_path / "releases", "r1")
    return tmp_path


def test_the_same_sizes_are_plausible(tmp_path: Path) -> None:
    assert implausible(manifest(tmp_path, "new"), manifest(tmp_path, "old")) == []
    assert implausible(manifest(tmp_path, "n2", items=199, popular=19), manifest(tmp_path, "o2")) == []
    assert implausible(manifest(tmp_path, "n3", items=50, popular=5), manifest(tmp_path, "o3")) == []


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ({"items": 200}, "entities item: 200 rows, and 100 in old. Expected 50 to 199."),
        ({"items": 49}, "entities item: 49 rows, and 100 in old. Expected 50 to 199."),
        ({"popular": 20}, "lists popular: 20 rows, and 10 in old. Expected 5 to 19."),
        ({"popular": 0}, "lists popular: 0 rows, and 10 in old. Expected some."),
        ({"extra": True}, "lists more: 0 rows, none at all."),
    ],
)
def test_blank_halved_and_doubled_artefacts_are_named(tmp_path: Path, sizes: dict[str, Any], said: str) -> None:
    assert said in implausible(manifest(tmp_path, "new", **sizes), manifest(tmp_path, "old"))


def test_what_is_blank_in_both_is_how_things_are(tmp_path: Path) -> None:
    new, old = (manifest(tmp_path, name, popular=0, extra=True) for name in ("new", "old"))
    assert implausible(new, old) == []


def test_a_list_shows_what_serves(var: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (var / "releases/broken").mkdir()
    os.utime(var / "releases/broken", (NOW + 1, NOW + 1))
    assert command(var, "list", "--json") == 0
    found = json.loads(capsys.readouterr().out)["releases"]
    states = {one["release"]: one["state"] for one in found}
    assert states == {"broken": "unfinished", "r4": "", "r3": "", "r2": "", "r1": "active"}
    assert [one["release"] for one in found][1:] == ["r4", "r3", "r2", "r1"]
    assert (found[-1]["items"], found[-1]["users"], found[-1]["as_of"]) == (100, 0, "2023-11-14T22:13:20Z")
    assert command(var, "list") == 0
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.split() == ["release", "state", "as", "of", "items", "users", "size"]
    assert len(lines) == 5


def test_activate_and_rollback_swap_two_releases(var: Path, capsys: pytest.CaptureFixture[str]) -> None:
    releases = var / "releases"
    assert command(var, "activate", "r2") == 0
    assert "Release r2 is active, after r1. A running service takes it on SIGHUP" in capsys.readouterr().out
    assert (active(releases), (releases / "previous").read_text()) == ("r2", "r1\n")
    for expected in ("r1", "r2", "r1"):
        assert command(var, "rollback", "--json") == 0
        assert json.loads(capsys.readouterr().out)["active"] == expected
        assert active(releases) == expected


def test_an_unknown_release_is_refused_with_the_nearest(var: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("r22", "../releases/r2", ".lock", ""):
        assert command(var, "activate", name) == 1
    assert "There is no release 'r22'. Did you mean 'r2'?" in capsys.readouterr().err
    assert active(var / "releases") == "r1"


@pytest.mark.parametrize("harm", ["changed", "gone"])
def test_a_damaged_release_is_refused_and_the_file_named(
    var: Path, capsys: pytest.CaptureFixture[str], harm: str
) -> None:
    path = var / "releases/r2/items.price.npy"
    if harm == "gone":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-1] + b"!")
    assert command(var, "activate", "r2", "--force", "--json") == 1
    assert "items.price.npy" in capsys.readouterr().err
    assert active(var / "releases") == "r1"


def test_a_doubled_release_takes_force(var: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(var, "huge", items=1_000)
    assert command(var, "activate", "huge") == 1
    said = capsys.readouterr().err
    assert "entities item: 1,000 rows, and 100 in r1. Expected 50 to 199." in said
    assert said.splitlines()[-1] == "Not activated. If that is how it should be, add --force."
    assert active(var / "releases") == "r1"
    assert command(var, "activate", "huge", "--force") == 0
    assert active(var / "releases") == "huge"


def test_without_anything_to_go_back_to_it_says_so(var: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(var, "rollback") == 1
    assert "no release was active before" in capsys.readouterr().err


def test_gc_keeps_active_previous_newest_and_what_a_service_holds(
    var: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(5, 9):
        written(var, f"r{number}", age=-number)
    activate(var / "releases", "r2")
    history = History(var / "configs")
    for version in ("r1", "r3", "r4"):
        history.remember(Pin("d", var / "configs/d", version))
    assert command(var, "gc", "--keep", "1", "--json") == 0
    done = json.loads(capsys.readouterr().out)
    assert sorted(done["removed"]) == ["r5", "r6", "r7"]
    assert sorted(done["kept"]) == ["r1", "r2", "r3", "r4", "r8"]
    assert command(var, "gc", "--keep", "1") == 0
    assert "Removed 0 of 5 releases" in capsys.readouterr().out


def test_a_build_that_is_running_is_left_alone(var: Path) -> None:
    releases = var / "releases"
    (releases / "building").mkdir()
    (releases / ".cuts-x").mkdir()
    os.utime(releases / "building", (NOW, NOW))
    os.utime(releases / ".cuts-x", (NOW, NOW))
    assert "building" not in [one.version for one in removable(releases, 9, set(), NOW + UNFINISHED - 1)]
    assert sweep(releases, NOW + UNFINISHED - 1) == []
    assert [one.version for one in removable(releases, 9, set(), NOW + UNFINISHED + 1)] == ["building"]
    assert sweep(releases, NOW + UNFINISHED + 1) == [".cuts-x"]


def test_what_was_activated_meanwhile_is_not_removed(var: Path) -> None:
    assert remove(var / "releases", "r1") is False
    activate(var / "releases", "r2")
    assert remove(var / "releases", "r1") is False
    assert remove(var / "releases", "r3") is True


@pytest.mark.parametrize("words", [["list"], ["gc"], ["activate", "r1"], ["rollback"]])
def test_without_releases_it_says_how_to_make_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    assert command(tmp_path, *words) == 1
    assert "Run `recserve bootstrap` to build one." in capsys.readouterr().err


Operator = Callable[[str, dict[str, Any]], str]


@pytest.fixture
def operator() -> Iterator[Operator]:
    """Starts a stand-in for the operator's listener; gives its address."""
    servers: list[tuple[ThreadingHTTPServer, threading.Thread]] = []

    def start(releases: str, reply: dict[str, Any]) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.answer(200, {"push": {"releases": releases}})

            def do_POST(self) -> None:
                self.answer(422 if "errors" in reply else 200, reply)

            def answer(self, status: int, document: dict[str, Any]) -> None:
                content = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:
                return

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        servers.append((server, thread))
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server, thread in servers:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_running_service_takes_what_is_activated(
    var: Path, operator: Operator, capsys: pytest.CaptureFixture[str]
) -> None:
    url = operator(str((var / "releases").resolve()), {"status": "reloaded"})
    assert command(var, "activate", "r2", "--operator", url, "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"active": "r2", "previous": "r1", "served": True}


def test_what_a_running_service_refuses_is_put_back(
    var: Path, operator: Operator, capsys: pytest.CaptureFixture[str]
) -> None:
    url = operator(str((var / "releases").resolve()), {"errors": ["models.yaml:5 models: there is no 'trees'."]})
    assert command(var, "activate", "r2", "--operator", url) == 1
    said = capsys.readouterr().err
    assert "models.yaml:5 models: there is no 'trees'." in said
    assert "The running service refused it; what was active is so again." in said
    assert active(var / "releases") == "r1"
    assert not (var / "releases/previous").exists()


def test_putting_back_writes_nothing(var: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that was filled meanwhile takes no new file, but renames."""
    releases = var / "releases"
    activate(releases, "r2")

    def refused() -> None:
        with put_back_on_failure(releases):
            activate(releases, "r3")
            assert (active(releases), previous(releases)) == ("r3", "r2")
            monkeypatch.setattr(Path, "open", full)
            raise RuntimeError("refused")

    with pytest.raises(RuntimeError, match="refused"):
        refused()
    monkeypatch.undo()
    assert (active(releases), previous(releases)) == ("r2", "r1")
    assert not list(releases.glob(".*.before"))


def full(path: Path, *how: object, **more: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))


def test_another_service_is_not_told(var: Path, operator: Operator, capsys: pytest.CaptureFixture[str]) -> None:
    url = operator("/elsewhere/releases", {"errors": ["never asked"]})
    assert command(var, "activate", "r2", "--operator", url) == 0
    assert "a service that serves /elsewhere/releases, not " in capsys.readouterr().out
    assert command(var, "rollback", "--operator", url, "--reload") == 1
    assert active(var / "releases") == "r2"


def test_nobody_there_is_told_with_what_to_do(var: Path, operator: Operator) -> None:
    with pytest.raises(NoService, match="nothing listens there"):
        find("http://127.0.0.1:1", var / "releases")
    for url in ("nonsense", "http://127.0.0.1:99999", "ftp://"):
        with pytest.raises(NoService):
            find(url, var / "releases")
