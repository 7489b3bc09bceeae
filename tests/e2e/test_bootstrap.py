"""`recserve bootstrap` as a command: repeatable, blind to the future, careful with what is there, any size of input."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.shop import DAY, START, Shop, write_log
from tests.service import Place, ask_store, ids, recserve, serving
from tests.valkey import running_valkey

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
    made = []
    for name, rows in (("past", past), ("whole", whole)):
        place = Place.under(tmp_path / name)
        place.configs.parent.mkdir()
        log = write_csv(tmp_path / f"{name}.csv", rows)
        done = recserve("bootstrap", "--interactions", log, "--as-of", CUT, *place.words, "--json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["users"] == 50
        made.append(place)
    first, second = made
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


@pytest.mark.parametrize("words", [["--map", "user_id=nobody"], ["--items", "no-such.csv"]])
def test_wrong_options_are_told_and_change_nothing(built: Place, shop: Shop, words: list[str]) -> None:
    before = snapshot(built)
    done = recserve("bootstrap", "--interactions", shop.interactions, *words, *built.words)
    assert done.returncode == 1
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


def test_a_store_in_use_by_a_service_is_told_before_the_work(fresh: Callable[[], Place], shop: Shop) -> None:
    place = fresh()
    with serving(place) as service:
        before = snapshot(place)
        done = recserve("bootstrap", "--interactions", shop.interactions, *place.words)
        assert done.returncode == 1
        assert f"in use by process {service.process.pid}" in done.stderr
        assert snapshot(place) == before


TINY: dict[str, list[tuple[Any, ...]]] = {
    "one row": [("only 🙂", "the thing", START)],
    "one user": [("only", f"item {at % 7}", START + at * DAY) for at in range(60)],
    "one item": [(f"u{at % 20}", "the thing", START + at * DAY) for at in range(60)],
    "three days": [(at * at % 31, at * 7 % 43, START + at * 3 * DAY // 400) for at in range(400)],
}


@pytest.mark.parametrize("kind", TINY)
def test_tiny_input_gives_a_release_that_serves(tmp_path: Path, kind: str) -> None:
    """No titles, no categories, no prices either. One of them keeps its history in a store of one's own."""
    place = Place.under(tmp_path)
    rows = TINY[kind]
    log = write_log(tmp_path / "log.parquet", rows)
    with running_valkey() as store:
        env = {"REDIS_URL": store.url} if kind == "one user" else None
        done = recserve("bootstrap", "--interactions", log, *place.words, "--json", env=env)
        assert done.returncode == 0, done.stderr
        items, users = ({str(row[at]) for row in rows} for at in (1, 0))
        summary = json.loads(done.stdout)
        assert (summary["items"], summary["users"]) == (len(items), len(users))
        assert recserve("check", "--config", place.configs).returncode == 0
        if env:
            assert ask_store(store.url, ("DBSIZE",)) == [1]
        with serving(place, env=env) as service:
            home = service.ask("home", min(users), size=100)
            assert set(ids(home)) == items
            assert home["degraded"] == []
            assert all(item["channels"] for item in home["items"])
            had = {str(item) for user, item, _ in rows if str(user) == min(users)}
            found = service.ask("discover", min(users), size=100)
            assert set(ids(found)) == items - had
            assert found["short"] == "catalogue_exhausted"
            assert set(ids(service.ask("discover", None, size=100))) == items


def test_mapped_columns_and_an_overwritten_configuration(fresh: Callable[[], Place], tmp_path: Path) -> None:
    place = fresh()
    place.replace("scenes/home.yaml", "budget: 120ms", "budget: 90ms")
    log = tmp_path / "log.csv"
    rows = [f"{at % 9}.0,{at % 23},2025-01-{1 + at % 28:02} 10:00" for at in range(200)]
    log.write_text("\n".join(["who,what,at", *rows]) + "\n", encoding="utf-8")
    maps = ["--map", "user_id=who", "--map", "item_id=what", "--map", "timestamp=at"]
    was = (place.var / "releases" / "active").read_text()
    done = recserve("bootstrap", "--interactions", log, *maps, "--overwrite", *place.words)
    assert done.returncode == 0, done.stderr
    assert "120ms" in place.read("scenes/home.yaml")
    assert (place.var / "releases" / "active").read_text() != was
    with serving(place) as service:
        answer = service.ask("home", "3", size=10)
        assert len(ids(answer)) == 10
        assert [item for item in answer["items"] if "repeat" in item["channels"]]
