"""Exposure logs: whatever their form, who was exposed to what, and what couldn't be read."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.ab import lines
from app.ab.enrolled import Enrolled, Gatherer, Key
from app.ab.errors import AbError
from app.ab.exposures import Asked, read_exposures
from app.ab.files import exposure_files
from tests.ab.logs import NOON, halves, record, written


def rows(enrolled: Enrolled) -> set[tuple[str, str, float, int]]:
    columns = zip(enrolled.unit, enrolled.bucket, enrolled.first, enrolled.count, strict=True)
    return {(enrolled.units[u], enrolled.buckets[b], float(first), int(n)) for u, b, first, n in columns}


def rows_of(enrolled: Sequence[Enrolled]) -> set[tuple[str, str, float, int]]:
    (one,) = enrolled
    return rows(one)


WANTED = {("u1", "control", NOON, 2), ("u2", "diverse", NOON + 5, 1), ("用户💰", "control", NOON, 1)}
RECORDS = [
    record("u1", "control", NOON + 9),
    record("u2", "diverse", NOON + 5),
    record("u1", "control", NOON),
    record("用户💰", "control"),
    record("t", "diverse", reason="whitelist"),
    record("d", "diverse", forced=True),
]


@pytest.mark.parametrize("form", ["plain", "gzip", "parquet"])
def test_every_form_of_a_log_says_the_same(tmp_path: Path, form: str) -> None:
    path = written(tmp_path / "exposures.w0.jsonl", RECORDS)
    if form == "gzip":
        (tmp_path / "exposures.w0.jsonl.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    if form == "parquet":
        pq.write_table(pa.Table.from_pylist(RECORDS), tmp_path / "exposures.w0.parquet")
        path.unlink()
    log = read_exposures(exposure_files([tmp_path]))
    assert (len(log.files), log.records, log.unread.count) == (1, 6, 0)
    (found,) = log.enrolled
    assert str(found.key) == "home/re_rank/exp_mmr@1"
    assert rows(found) == WANTED
    assert found.chosen == {"whitelist": 1, "forced": 1}
    assert sum(found.days.values()) == 4


def test_rotated_files_of_all_workers_are_one_log(tmp_path: Path) -> None:
    names = ["exposures.w0.jsonl", "exposures.w0.20261118T120000Z.000001.jsonl", "exposures.w1.jsonl"]
    for name in names:
        written(tmp_path / name, [record("u1", "control"), record(name, "diverse")])
    written(tmp_path / "else.jsonl", ["{}"])
    (found,) = read_exposures(exposure_files([tmp_path])).enrolled
    assert rows(found) == {("u1", "control", NOON, 3), *((name, "diverse", NOON, 1) for name in names)}


def test_bad_lines_are_counted_and_named_and_the_rest_is_read(tmp_path: Path) -> None:
    bad = ["{", "", json.dumps({"time": 1}), '{"time": "soon"}', "\x00", json.dumps(record("u9", "control"))[:40]]
    path = written(tmp_path / "e.jsonl", [RECORDS[0], *bad, *RECORDS[1:]])
    log = read_exposures([path])
    assert rows_of(log.enrolled) == WANTED
    assert log.unread.count == 5
    assert log.unread.first[0].startswith(f"{path}:2: ")
    assert log.unread.first[1] == f"{path}:4: Object missing required field `scene`"


def test_a_line_without_an_end_fills_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "BLOCK", 512)
    monkeypatch.setattr(lines, "LONGEST", 1024)
    path = written(tmp_path / "e.jsonl", [RECORDS[0], "x" * 10_000, *RECORDS[1:]])
    log = read_exposures([path])
    assert rows_of(log.enrolled) == WANTED
    assert (log.unread.count, log.unread.first) == (1, [f"{path}:2: more than 1,024 bytes"])


def test_compressed_data_that_end_early_are_named(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl.gz"
    path.write_bytes(gzip.compress(written(tmp_path / "e.jsonl", RECORDS * 200).read_bytes())[:-20])
    log = read_exposures([path])
    assert log.records > 0
    assert "end early" in log.unread.first[0]


def test_a_parquet_row_that_is_no_exposure_is_named(tmp_path: Path) -> None:
    path = tmp_path / "exposures.parquet"
    pq.write_table(pa.Table.from_pylist([*RECORDS, {**RECORDS[0], "time": None}]), path)
    log = read_exposures([path])
    assert rows_of(log.enrolled) == WANTED
    assert log.unread.first == [f"{path} row 7: Expected `float`, got `null` - at `$.time`"]
    pq.write_table(pa.Table.from_pylist([{"a": 1}]), path)
    with pytest.raises(AbError, match="no column bucket"):
        read_exposures([path])


def test_versions_and_experiments_are_apart_and_can_be_asked_for(tmp_path: Path) -> None:
    path = written(
        tmp_path / "e.jsonl",
        [record("u", "control"), record("u", "control", version=2), record("u", "a", layer="recall", experiment="x")],
    )
    names = ["home/re_rank/exp_mmr@1", "home/re_rank/exp_mmr@2", "home/recall/x@1"]
    assert [str(one.key) for one in read_exposures([path]).enrolled] == names[:2] + names[2:]
    for wanted, found in (("exp_mmr", names[:2]), ("exp_mmr@2", names[1:2]), (names[2], names[2:]), ("y", [])):
        assert [str(one.key) for one in read_exposures([path], Asked(wanted)).enrolled] == found


def test_folders_without_logs_and_missing_files_are_told(tmp_path: Path) -> None:
    with pytest.raises(AbError, match=r"no exposures\*\.jsonl"):
        exposure_files([tmp_path])
    with pytest.raises(AbError, match="doesn't exist"):
        exposure_files([tmp_path / "none.jsonl"])


def test_gathering_in_pieces_is_gathering_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    random.seed(3)
    entries = [(f"u{random.randrange(50)}", random.choice("ab"), NOON + random.randrange(900)) for _ in range(2_000)]
    key = Key("home", "rank", "e", 1, "user_id")
    found = []
    for most in (7, 1 << 20):
        monkeypatch.setattr("app.ab.enrolled._RAW", most)
        gatherer = Gatherer(key)
        for unit, bucket, time in entries:
            gatherer.draw(unit, "user_id", bucket, time)
        found.append(rows(gatherer.done()))
    assert found[0] == found[1]
    assert sum(count for *_, count in found[0]) == 2_000


def test_buckets_of_the_configuration_that_nobody_saw_are_there(tmp_path: Path) -> None:
    path = written(tmp_path / "e.jsonl", [record(unit, bucket) for unit, bucket in halves(10)])
    (found,) = read_exposures([path]).enrolled
    more = found.among(("control", "bold", "diverse"))
    assert rows(more) == rows(found)
    exposures = more.exposures()
    assert np.bincount(exposures.bucket, minlength=3).tolist() == [5, 0, 5]
    assert exposures.day is not None
    assert exposures.day.values == ("2026-11-18",)


def test_what_people_chose_splits_no_experiment_in_two(tmp_path: Path) -> None:
    slices = [record(str(number), "control", unit_type="slice") for number in (498_612, 498_613)]
    chosen = [record("t", "diverse", reason="whitelist"), record(None, "diverse", forced=True), record("498612", "a")]
    chosen[-1] |= {"reason": "whitelist"}
    for order in ([*chosen, *slices], [*slices, *chosen]):
        log = read_exposures([written(tmp_path / "e.jsonl", order)])
        (found,) = log.enrolled
        assert (found.key.unit_type, found.chosen, found.units) == (
            "slice",
            {"whitelist": 2, "forced": 1},
            ["498612", "498613"],
        )
        assert found.also_chosen.tolist() == []
        assert log.no_unit == 0


def test_units_that_were_dealt_and_chosen_are_named_in_either_order(tmp_path: Path) -> None:
    drawn = [record("a", "control"), record("b", "control")]
    chosen = [record("b", "diverse", reason="whitelist"), record("c", "diverse", forced=True)]
    for order in ([*chosen, *drawn], [*drawn, *chosen]):
        (found,) = read_exposures([written(tmp_path / "e.jsonl", order)]).enrolled
        assert [found.units[unit] for unit in found.also_chosen] == ["b"]


def test_every_record_is_counted_once(tmp_path: Path) -> None:
    rows = [
        *RECORDS,
        record(None, "control"),
        record("late", "control", NOON + 60),
        record("t", "diverse", NOON + 60, reason="whitelist"),
        record("u1", "control", experiment="other"),
        record("u1", "x", experiment=None, version=None),
    ]
    log = read_exposures([written(tmp_path / "e.jsonl", [*rows, "{"])], Asked("exp_mmr", until=NOON + 60))
    tally = log.tally()
    assert tally == {
        "read": 11,
        "unread": 1,
        "of_other_experiments": 2,
        "not_before_until": 2,
        "without_unit": 1,
        "chosen": 2,
        "drawn": 4,
    }
    assert tally["read"] == sum(tally.values()) - tally["read"] - tally["unread"]
    assert rows_of(log.enrolled) == WANTED
    assert log.enrolled[0].last == NOON + 9


def test_other_experiments_arent_gathered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Key] = []

    class Seen(Gatherer):
        def __init__(self, key: Key) -> None:
            made.append(key)
            super().__init__(key)

    monkeypatch.setattr("app.ab.exposures.Gatherer", Seen)
    path = written(tmp_path / "e.jsonl", [record("u", "a", experiment=name) for name in ("x", "y", "z", "x")])
    log = read_exposures([path], Asked("x"))
    assert [key.experiment for key in made] == ["x"]
    assert (log.records, log.others) == (4, 2)


@pytest.mark.parametrize("time", [float("nan"), 1e300, 1e17, 0.0, NOON + 86_401])
def test_an_exposure_whose_time_cant_be_is_unread(tmp_path: Path, time: float) -> None:
    path = tmp_path / "exposures.parquet"
    pq.write_table(pa.Table.from_pylist([*RECORDS, record("u9", "control", time)]), path)
    log = read_exposures([path], Asked(now=NOON))
    assert rows_of(log.enrolled) == WANTED
    assert (log.records, log.unread.count) == (6, 1)
    assert "is no time between 1990 and now" in log.unread.first[0]
