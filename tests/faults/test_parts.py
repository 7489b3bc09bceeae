"""The parts that break things, each on its own."""

from __future__ import annotations

import errno
import os
import signal
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.faults import jumping_clock, procfs
from app.faults.components import HangingModel, NanModel
from app.faults.disk import Disk, small_disk
from app.faults.errors import CantPlay
from app.faults.models import with_model
from app.faults.place import SERVICE, Place
from app.faults.pushes import MALFORMED, MARK, valid
from app.faults.readers import Reader
from features.manifest import active

SERVICE_YAML = "version: 1\nstore: {url: '${SHOP_STORE:-}'}\nreleases: var/releases\nextensions: []\ntoken: hidden\n"
SCENE_YAML = (
    "version: 1\nscene: home\nbudget: 120ms\nrecall: {popular: {k: 200}}\n"
    "rank: {model: trees, score: buy}\nreturn: [title, price]\nfallback: popular\n"
)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path / "configs", tmp_path / "var")
    (made.configs / "scenes").mkdir(parents=True)
    (made.configs / SERVICE).write_text(SERVICE_YAML)
    (made.configs / "scenes/home.yaml").write_text(SCENE_YAML)
    for name in ("models.yaml", "features.yaml"):
        (made.configs / name).write_text("version: 1\n")
    release = made.var / "releases" / "r1"
    release.mkdir(parents=True)
    (release / "manifest.json").write_text("{}")
    (made.var / "releases" / "active").write_text("r1\n")
    store = made.var / "store"
    store.mkdir()
    for name in ("lock", "server.log", "log.aof"):
        (store / name).write_text(name)
    return made


def test_a_copy_has_its_own_configuration_and_store_and_no_secrets(place: Place, tmp_path: Path) -> None:
    copy = place.copy(tmp_path / "copy")
    assert copy.served == "r1"
    assert (copy.releases / "r1").resolve() == place.releases / "r1"
    assert sorted(path.name for path in (tmp_path / "copy" / "store").iterdir()) == ["log.aof"]
    assert "token" not in copy.document(SERVICE)
    with copy.edit("scenes/home.yaml") as scene:
        scene["budget"] = "90ms"
    assert copy.document("scenes/home.yaml")["budget"] == "90ms"
    assert (place.configs / SERVICE).read_text() == SERVICE_YAML
    assert (place.configs / "scenes/home.yaml").read_text() == SCENE_YAML
    assert active(place.releases) == "r1"


def test_there_is_nothing_to_serve_without_a_configuration_or_a_release(place: Place, tmp_path: Path) -> None:
    assert Place(tmp_path / "nowhere", place.var).served is None
    assert Place(place.configs, tmp_path / "nowhere").served is None


def test_a_model_is_put_where_the_ranker_is(place: Place, tmp_path: Path) -> None:
    with_model("nan_model", tmp_path / "switch")(place)
    rank = place.document(place.scene())["rank"]
    assert rank == {"nan_model": {"model": "trees", "score": "buy", "switch": str(tmp_path / "switch")}}
    assert place.document(SERVICE)["extensions"] == ["app.faults.components"]
    with pytest.raises(CantPlay, match="no ranker"):
        with_model("nan_model", tmp_path / "switch")(place)


@pytest.mark.parametrize(("what", "spoil"), MALFORMED, ids=[what for what, _ in MALFORMED])
def test_a_malformed_push_is_another_configuration_and_can_be_taken_back(place: Place, what: str, spoil: Any) -> None:
    def content() -> dict[str, bytes | None]:
        return {
            str(path.relative_to(place.configs)): path.read_bytes() if path.is_file() else None
            for path in place.configs.rglob("*")
        }

    before = content()
    restore = spoil(place, "scenes/home.yaml")
    assert content() != before
    restore()
    assert content() == before


def test_valid_pushes_differ_in_their_first_and_last_step(place: Place) -> None:
    scene = place.document("scenes/home.yaml")
    pushed = [valid(scene, number) for number in range(4)]
    assert len({str(one) for one in pushed}) == 4
    assert [one["return"] for one in pushed] == [[], ["title"], ["title", "price"], []]
    assert [set(one["recall"]) - {"popular"} for one in pushed] == [{f"{MARK}{number}"} for number in range(4)]
    assert scene == place.document("scenes/home.yaml")


def answer(config: str, fields: list[str], *channels: str) -> dict[str, Any]:
    item = {"channels": ["popular", *channels], "fields": dict.fromkeys(fields, 1)}
    return {"config": config, "items": [item, {**item, "channels": ["popular"]}]}


@pytest.mark.parametrize(
    ("answers", "mixed"),
    [
        ([answer("a", ["title"], "push_1"), answer("b", ["title"], "push_2"), answer("a", ["title"], "push_1")], False),
        ([answer("a", ["title"]), answer("a", ["title"], "push_1"), answer("a", ["title"])], False),
        ([answer("a", ["title"], "push_1", "push_2")], True),
        ([answer("a", ["title"], "push_1"), answer("a", ["price"], "push_1")], True),
        ([answer("a", ["title"], "push_1"), answer("a", ["title"], "push_2")], True),
        ([answer("a", ["title"], "push_1"), answer("b", ["title"], "push_1")], True),
    ],
)
def test_a_mixed_answer_is_seen(answers: list[dict[str, Any]], mixed: bool) -> None:
    stage: Any = None
    reader = Reader(stage)
    for one in answers:
        reader.look(one)
    assert reader.read == len(answers)
    assert bool(reader.mixed) is mixed


class Trees:
    """A model whose head `buy` counts up."""

    name, heads, needs, cost_ms = "trees", ("buy",), frozenset({"item.price"}), 0.5

    def score(self, view: Any, batch: Any) -> dict[str, Any]:
        return {"buy": np.arange(len(batch), dtype=np.float32)}


class Buy:
    """The expression `buy`."""

    names = frozenset({"buy"})

    def __call__(self, columns: Any) -> Any:
        return columns["buy"]


def test_a_model_fails_only_while_its_switch_is_on(tmp_path: Path) -> None:
    switch, view = tmp_path / "switch", None
    batch: Any = range(4)
    model: Any = Trees()
    buy: Any = Buy()
    spoilt, hanging = NanModel(model, buy, str(switch)), HangingModel(model, buy, str(switch), usually=5.0)
    assert hanging.needs == spoilt.needs == {"item.price"}
    assert (hanging.cost_ms, spoilt.cost_ms) == (5.0, 0.5)
    for one in (spoilt, hanging):
        assert one.score(view, batch).tolist() == [0, 1, 2, 3]  # type: ignore[arg-type]  # no view is read here
    switch.touch()
    assert np.isnan(spoilt.score(view, batch)).tolist() == [True, False, True, False]  # type: ignore[arg-type]


def test_a_filled_disk_refuses_and_a_freed_one_takes(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        if not disk.mounted:
            pytest.skip("this user may not mount a file system")
        path = tmp_path / "disk" / "log"
        path.write_bytes(b"before")
        disk.fill([])
        with path.open("ab", buffering=0) as file, pytest.raises(OSError, match="No space left") as refused:
            file.write(bytes(4096)) and file.write(bytes(4096))  # the first may end a block that was begun
        assert refused.value.errno == errno.ENOSPC
        disk.free()
        path.write_bytes(b"after")
    assert not (tmp_path / "disk" / "log").exists()


def test_a_limit_stands_for_a_full_disk_where_nothing_can_be_mounted(tmp_path: Path) -> None:
    """The process that is limited is another one: a limit on this one would be the test run's."""
    code = (
        "import sys\nfor line in sys.stdin:\n"
        "  try: open(sys.argv[1], 'ab', buffering=0).write(b'xx'); print('ok', flush=True)\n"
        "  except OSError as error: print(error.errno, flush=True)\n"
    )
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "log")], stdin=pipe, stdout=pipe, text=True
    ) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None

        def write() -> str:
            assert writer.stdin is not None
            assert writer.stdout is not None
            writer.stdin.write("\n")
            writer.stdin.flush()
            return writer.stdout.readline().strip()

        disk = Disk(tmp_path, mounted=False)
        assert write() == "ok"
        disk.fill([writer.pid])
        assert write() == str(errno.EFBIG)
        disk.free()
        assert write() == "ok"


def test_a_process_that_starts_with_the_hook_sees_its_wall_clock_jump(tmp_path: Path) -> None:
    path, hook = tmp_path / "offset", tmp_path / "hook"
    path.write_bytes(struct.pack("<d", 0.0))
    hook.mkdir()
    (hook / "sitecustomize.py").write_bytes(Path(jumping_clock.__file__).read_bytes())
    code = (
        "import struct, sys, time\nfrom time import monotonic, time as wall\n"
        "before, was = wall(), monotonic()\nopen(sys.argv[1], 'r+b').write(struct.pack('<d', 3600.0))\n"
        "print(round((wall() - before) / 100), round((time.time_ns() / 1e9 - before) / 100), monotonic() - was < 1800)"
    )
    env = {**os.environ, "PYTHONPATH": str(hook), jumping_clock.VARIABLE: str(path)}
    done = subprocess.run([sys.executable, "-c", code, path], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["36", "36", "True"]
    assert len(list(tmp_path.glob("offset.*"))) == 1


def test_only_the_very_process_is_ended() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as sleeper:
        at = procfs.started(sleeper.pid)
        assert at is not None
        assert procfs.held(sleeper.pid).descriptors >= 3
        assert sleeper.pid in procfs.family(os.getpid())
        assert procfs.end({sleeper.pid: at + 1}, signal.SIGKILL, 0.0) == {}  # another process of the same number
        assert procfs.started(sleeper.pid) == at
        assert procfs.end({sleeper.pid: at}, signal.SIGKILL, 10.0) == {}
        assert procfs.started(sleeper.pid) is None
