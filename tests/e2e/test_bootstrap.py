"""`recserve bootstrap` as a command: repeatable, blind to the future, careful with what is there, any size of input."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.shop import DAY, START, Shop, write_log
from tests.service import Place, ask_store, ids, recserve, serving
from tests.valkey import running_valkey

TINY: dict[str, list[tuple[Any, ...]]] = {
    "one row": [("only 🙂", "the thing", START)],
    "one user": [("only", f"item {at % 7}", START + at * DAY) for at in range(60)],
    "one item": [(f"u{at % 20}", "the thing", START + at * DAY) for at in range(60)],
    "three days": [(at * at % 31, at * 7 % 43, START + at * 3 * DAY // 400) for at in range(400)],
}
COLUMNS = ("user_id", "item_id", "ts", "event", "title", "category", "price", "region")
CUT = START + 100 * DAY


def snapshot(place: Place) -> dict[str, bytes]:
    """Every file of the configuration and the releases."""
    folders = (place.configs, place.var / "releases")
    return {str(path): path.read_bytes() for folder in folders for path in folder.rglob("*") if path.is_file()}


def manifest(place: Place) -> dict[str, Any]:
    active = (place.var / "releases" / "active").read_text().strip()
    found: dict[str, Any] = json.loads((place.var / "releases" / active / "manifest.json").read_text())
    return found


def artefacts(place: Place) -> dict[str, Any]:
    """What the release holds, without its name and the account of the input."""
    document = manifest(place)
    document["about"].pop("input")
    document.pop("release")
    return document


def log_rows(rng: random.Random, count: int, first: int, last: int) -> list[list[Any]]:
    rows = []
    for _ in range(count):
        user, item = rng.randrange(50), int(80 * rng.random() ** 2)
        about = (f"Thing № {item}", f"kind {item % 6}", 1.5 + item, "north" if user % 2 else "south")
        rows.append([f"u{user}", f"00{item}", rng.randrange(first, last), "purchase", *about])
    return rows


def absurd(rng: random.Random) -> list[list[Any]]:
    """Rows of a future in which nothing is as it was."""
    rows: list[list[Any]] = []
    for at in range(3000):
        names = [f"u{at % 50}", f"00{at % 80}"] if at % 2 else [f"future user {at}", f"future item {at % 9}"]
        about = (f"Renamed {at}", f"other kind {at % 977}", 1e12 if at % 5 else "n/a", f"planet {at % 31}")
        rows.append([*names, CUT + rng.randrange(0, 900 * DAY), "refund" if at % 3 else "purchase", *about])
    return rows


def write_csv(path: Path, rows: list[list[Any]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([COLUMNS, *rows])
    return path


def test_the_same_past_gives_the_same_release_whatever_came_after(tmp_path: Path) -> None:
    """Also repeatability: two runs of the command, files equal to the byte."""
    rng = random.Random(3)
    past = log_rows(rng, 4000, START, CUT)
    whole = past + absurd(rng)
    rng.shuffle(whole)
    # Rows of one second keep the file's order: the past comes in the same order in both files.
    order = {id(row): at for at, row in enumerate(past)}
    places = sorted(at for at, row in enumerate(whole) if id(row) in order)
    for at, row in zip(places, past, strict=True):
        whole[at] = row

    def build(name: str, rows: list[list[Any]]) -> Place:
        place = Place.under(tmp_path / name)
        place.configs.parent.mkdir()
        log = write_csv(tmp_path / f"{name}.csv", rows)
        done = recserve("bootstrap", "--interactions", log, "--as-of", CUT, *place.words, "--json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["users"] == 50
        return place

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(build, ("past", "whole"), (past, whole))
    assert artefacts(first) == artefacts(second)
    assert artefacts(first)["models"]
    names = [path.relative_to(first.configs) for path in sorted(first.configs.rglob("*.yaml"))]
    assert len(names) == 6
    assert all(first.read(str(name)) == second.read(str(name)) for name in names)
    assert "future" not in json.dumps(manifest(second), ensure_ascii=False)


@pytest.mark.parametrize(
    ("header", "row", "said"),
    [
        ("user_id,item_id,ts", "a,b,not a time", ("row 4", "column ts", "not a time")),
        ("user_id,item_id", "a,b", ("timestamp",)),
        ("user_id,item_id,ts,quantity", "a,b,1700000000,many", ("row 4", "column quantity")),
    ],
)
def test_broken_input_is_named_and_changes_nothing(
    built: Place, tmp_path: Path, header: str, row: str, said: tuple[str, ...]
) -> None:
    fields = header.count(",") + 1
    good = ["a,b,1600000000,1", "a,c,1600000001,2", "d,b,1600000002,1"] if row else []
    lines = [",".join(line.split(",")[:fields]) for line in good]
    log = tmp_path / "log.csv"
    log.write_text("\n".join([header, *lines, row]) + "\n", encoding="utf-8")
    before = snapshot(built)
    done = recserve("bootstrap", "--interactions", log, *built.words)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    for text in ("log.csv", *said):
        assert text in done.stderr
    assert snapshot(built) == before


@pytest.mark.parametrize(
    "words", [["--map", "user_id=nobody"], ["--items", "no-such.csv"], ["--map", "user_id="], ["--seed", "-1"]]
)
def test_wrong_options_are_told_and_change_nothing(built: Place, shop: Shop, words: list[str]) -> None:
    before = snapshot(built)
    done = recserve("bootstrap", "--interactions", shop.interactions, *words, *built.words)
    assert done.returncode == (2 if "--seed" in words else 1)
    assert words[-1].rpartition("=")[2] in done.stderr
    assert "Traceback" not in done.stderr
    assert snapshot(built) == before


def test_an_edited_configuration_is_not_overwritten(fresh: Callable[[], Place], shop: Shop) -> None:
    place = fresh()
    place.replace("scenes/home.yaml", "budget: 120ms", "budget: 90ms")
    before = snapshot(place)
    done = recserve("bootstrap", "--interactions", shop.interactions, *place.words)
    assert done.returncode == 1
    assert "scenes/home.yaml" in done.stderr
    assert "--overwrite" in done.stderr
    assert snapshot(place) == before


@pytest.mark.parametrize("url", ["redis://127.0.0.1:1/0", "http://127.0.0.1/"])
def test_a_store_that_cannot_be_written_to_is_told_before_the_work(
    fresh: Callable[[], Place], shop: Shop, url: str
) -> None:
    place = fresh()
    before = snapshot(place)
    done = recserve("bootstrap", "--interactions", shop.interactions, *place.words, env={"REDIS_URL": url})
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert snapshot(place) == before


def test_a_store_that_fails_during_the_import_changes_nothing(fresh: Callable[[], Place], tmp_path: Path) -> None:
    place, log = fresh(), write_log(tmp_path / "log.parquet", TINY["one item"])
    before = snapshot(place)
    with running_valkey() as store:
        ask_store(store.url, ("CONFIG", "SET", "maxmemory", "1"))
        done = recserve("bootstrap", "--interactions", log, "--force", *place.words, env={"REDIS_URL": store.url})
    assert done.returncode == 1
    assert "maxmemory" in done.stderr
    assert snapshot(place) == before


def test_a_release_of_a_fraction_of_the_size_is_built_and_not_activated(
    fresh: Callable[[], Place], tmp_path: Path
) -> None:
    place, log = fresh(), write_log(tmp_path / "log.parquet", TINY["one item"])
    active, configs = (place.var / "releases" / "active").read_text(), place.read("features.yaml")
    done = recserve("bootstrap", "--interactions", log, "--overwrite", *place.words)
    assert done.returncode == 1
    assert "entities item: 1 rows, and" in done.stderr
    assert "Not activated. If that is how it should be: bootstrap with --force" in done.stderr
    assert (place.var / "releases" / "active").read_text() == active
    assert place.read("features.yaml") == configs
    assert recserve("bootstrap", "--interactions", log, "--overwrite", "--force", *place.words).returncode == 0


def test_own_scenes_that_would_not_fit_are_told_and_nothing_changes(fresh: Callable[[], Place], tmp_path: Path) -> None:
    """An own scene reads a column of the users file, which isn't given this time."""
    place, log = fresh(), write_log(tmp_path / "log.parquet", TINY["one item"])
    own = "version: 1\nscene: own\nbudget: 100ms\nrecall:\n  popular: {k: 50, by: user.region}\n"
    (place.configs / "scenes" / "own.yaml").write_text(own, encoding="utf-8")
    before = snapshot(place)
    done = recserve("bootstrap", "--interactions", log, "--force", *place.words)
    assert done.returncode == 1
    assert f"{place.configs}/scenes/own.yaml:" in done.stderr
    assert snapshot(place) == before


def test_a_store_in_use_by_a_service_is_told_before_the_work(fresh: Callable[[], Place], shop: Shop) -> None:
    place = fresh()
    with serving(place) as service:
        before = snapshot(place)
        done = recserve("bootstrap", "--interactions", shop.interactions, *place.words)
        assert done.returncode == 1
        assert f"in use by process {service.process.pid}" in done.stderr
        assert snapshot(place) == before


EXTERNAL = "one user"  # keeps its history in a store of one's own


@dataclass
class Tiny:
    """Releases of the inputs above, and the external store."""

    places: dict[str, Place]
    summaries: dict[str, Any]
    url: str

    def env(self, kind: str) -> dict[str, str]:
        return {"REDIS_URL": self.url} if kind == EXTERNAL else {}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tiny]:
    """Built two at a time; no titles, no categories, no prices in any. One is a CSV file with names of its own."""
    root = tmp_path_factory.mktemp("tiny")
    with running_valkey() as store, ThreadPoolExecutor(2) as pool:
        made = Tiny({kind: Place.under(root / kind) for kind in TINY}, {}, store.url)

        def build(kind: str) -> Any:
            made.places[kind].configs.parent.mkdir()
            words: list[str | Path] = ["--interactions", write_log(root / f"{kind}.parquet", TINY[kind])]
            if kind == "three days":
                rows = [f"{user}.0,{item},{ts}" for user, item, ts in TINY[kind]]
                path = root / "log.csv"
                path.write_text("\n".join(["who,what,at", *rows]) + "\n", encoding="utf-8")
                maps = (("user_id", "who"), ("item_id", "what"), ("timestamp", "at"))
                words = ["--interactions", path, *(word for f, c in maps for word in ("--map", f"{f}={c}"))]
                words += ["--overwrite"]
                made.places[kind].configs.mkdir()
                (made.places[kind].configs / "service.yaml").write_text("# edited by hand\n")
            done = recserve("bootstrap", *words, *made.places[kind].words, "--json", env=made.env(kind))
            assert done.returncode == 0, done.stderr
            return json.loads(done.stdout)

        made.summaries.update(zip(TINY, pool.map(build, TINY), strict=True))
        yield made


@pytest.mark.parametrize("kind", TINY)
def test_tiny_input_gives_a_release_that_serves(tiny: Tiny, kind: str) -> None:
    rows, place = TINY[kind], tiny.places[kind]
    items, users = ({str(row[at]) for row in rows} for at in (1, 0))
    summary = tiny.summaries[kind]
    assert (summary["items"], summary["users"]) == (len(items), len(users))
    user = min(users)
    with serving(place, env=tiny.env(kind)) as service:
        home = service.ask("home", user, size=100)
        assert set(ids(home)) == items
        assert home["degraded"] == []
        assert all(item["channels"] for item in home["items"])
        had = {str(item) for who, item, _ in rows if str(who) == user}
        found = service.ask("discover", user, size=100)
        assert set(ids(found)) == items - had
        assert found["short"] == "catalogue_exhausted"
        assert set(ids(service.ask("discover", None, size=100))) == items


def test_a_store_of_ones_own_gets_the_history(tiny: Tiny) -> None:
    assert ask_store(tiny.url, ("DBSIZE",)) == [1]


def test_files_that_were_edited_are_replaced_when_told_to(tiny: Tiny) -> None:
    place = tiny.places["three days"]
    assert "edited by hand" not in place.read("service.yaml")
    assert recserve("check", "--config", place.configs).returncode == 0
