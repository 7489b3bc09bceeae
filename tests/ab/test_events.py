"""Events of the enrolled, from whatever file, and the metrics that people write."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.ab.errors import AbError
from app.ab.events import Events, Whose, read_events
from app.ab.metrics import Formula, Term, formulas
from app.ab.times import JsonTimes
from tests.ab.logs import NOON, event, written

UNITS = ["u1", "7"]
ROWS = [
    event("u1", "click"),
    event("stranger", "click"),
    event("7", "purchase", NOON, value=2.5),
    event("7", "purchase", NOON + 1, value=None),
]
WANTED = {("u1", "click", NOON + 60, None), ("7", "purchase", NOON, 2.5), ("7", "purchase", NOON + 1, None)}


def rows(events: Events) -> set[tuple[str, str, float, float | None]]:
    columns = zip(events.unit, events.event, events.time, events.value, strict=True)
    return {(UNITS[u], events.names[e], float(t), None if np.isnan(v) else float(v)) for u, e, t, v in columns}


def test_every_form_of_a_file_says_the_same(tmp_path: Path) -> None:
    lines = written(tmp_path / "e.jsonl", [*ROWS, {**ROWS[2], "user_id": 7, "ts": "2026-11-18T12:00:00Z"}])
    packed = tmp_path / "e.ndjson.gz"
    packed.write_bytes(gzip.compress(lines.read_bytes()))
    parquet = tmp_path / "e.parquet"
    pq.write_table(pa.Table.from_pylist([{"value": None, **row} for row in ROWS]), parquet)
    table = tmp_path / "e.csv"
    text = "".join(f"{r['user_id']},{r['ts']},{r['event']},{r.get('value') or ''}\n" for r in ROWS)
    table.write_text(f"user_id,ts,event,value\n{text}")
    for path in (lines, packed, parquet, table):
        found = read_events(path, Whose(UNITS, "user_id"), {})
        assert rows(found) == WANTED, path
        assert found.seen["click"] == 2
        assert found.unread.count == 0


def test_columns_of_other_names_are_mapped(tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    path.write_text("who,when,spent\nu1,2026-11-18 12:00:00,3\n,2026-11-18,1\n")
    mapping = {"unit": "who", "ts": "when", "value": "spent"}
    found = read_events(path, Whose(UNITS, "device_id"), mapping)
    assert rows(found) == {("u1", "event", NOON, 3.0)}
    assert (found.unread.count, found.seen) == (1, {"event": 1})
    lines = written(tmp_path / "e.jsonl", [{"who": "u1", "when": NOON, "spent": 3}])
    assert rows(read_events(lines, Whose(UNITS, "device_id"), mapping)) == rows(found)


@pytest.mark.parametrize(
    ("text", "mapping", "said"),
    [
        ("a,ts\nu1,1\n", {}, "has no column device_id. Expected one, or --map unit=COLUMN; there are a, ts."),
        ("device_id\nu1\n", {}, "has no column ts. Expected one, or --map ts=COLUMN"),
        ("device_id,ts\nu1,1\n", {"value": "spent"}, "has no column 'spent'"),
        ("device_id,ts,value\nu1,1,much\n", {}, "column value: isn't numbers"),
        ("device_id,ts\nu1,soon\n", {}, "'soon' is no time"),
        ("device_id,ts\nu1,1\n", {"user": "a"}, "--map user=a: no such field"),
    ],
)
def test_what_is_missing_or_wrong_is_told(tmp_path: Path, text: str, mapping: dict[str, str], said: str) -> None:
    path = tmp_path / "e.csv"
    path.write_text(text)
    with pytest.raises(AbError) as caught:
        read_events(path, Whose(UNITS, "device_id"), mapping)
    assert said in str(caught.value)


def test_bad_lines_of_events_are_counted(tmp_path: Path) -> None:
    path = written(tmp_path / "e.jsonl", ["{", event("u1", "click"), event("u1", "click", ts="soon")])
    found = read_events(path, Whose(UNITS, "user_id"), {})
    assert (len(found.unit), found.unread.count) == (1, 2)
    assert found.unread.first[1] == f"{path}: 'soon' is no time between 1990 and now"


def test_everybody_and_time_slices_can_be_asked_for(tmp_path: Path) -> None:
    lines = written(tmp_path / "e.jsonl", [event("b", "x", NOON + 7_200.5), event("a", "x", NOON + 3_599.0)])
    table = tmp_path / "e.csv"
    table.write_text(f"user_id,ts,event\nb,{NOON + 7_200.5},x\na,{NOON + 3_599},x\n")
    hour = int(NOON) // 3_600
    for path in (lines, table):
        found = read_events(path, Whose(None, "user_id"), {})
        assert [found.units[unit] for unit in found.unit] == ["b", "a"]
        found = read_events(path, Whose([str(hour + number) for number in range(3)], "slice", 3_600), {})
        assert found.unit.tolist() == [2, 0]


FORMS = {
    "seconds": int(NOON),
    "milliseconds": int(NOON * 1e3),
    "microseconds": int(NOON * 1e6),
    "nanoseconds": int(NOON) * 10**9,
    "numbers as text": str(int(NOON)),
    "milliseconds as text": str(int(NOON * 1e3)),
    "UTC": "2026-11-18T12:00:00Z",
    "a zone": "2026-11-18 13:00:00+01:00",
    "no zone": "2026-11-18 12:00:00",
    "words for UTC": "2026-11-18 12:00:00 UTC",
    "year first with slashes": "2026/11/18 12:00:00",
    "day first": "18/11/2026 12:00",
}


@pytest.mark.parametrize("said", FORMS.values(), ids=FORMS)
def test_json_and_csv_read_a_time_alike(tmp_path: Path, said: int | str) -> None:
    lines = written(tmp_path / "e.jsonl", [event("u1", "click", said)])
    table = tmp_path / "e.csv"
    table.write_text(f"user_id,ts,event\nu1,{said},click\n")
    for path in (lines, table):
        assert read_events(path, Whose(UNITS, "user_id"), {}, now=NOON).time.tolist() == [NOON], path


def test_a_day_can_be_a_number_in_json_as_in_csv(tmp_path: Path) -> None:
    lines = written(tmp_path / "e.jsonl", [event("u1", "click", 20_261_118), event("u1", "click", "20261118")])
    table = tmp_path / "e.csv"
    table.write_text("user_id,ts,event\nu1,20261118,click\nu1,20261118,click\n")
    for path in (lines, table):
        found = read_events(path, Whose(UNITS, "user_id"), {}, now=NOON)
        assert found.time.tolist() == [NOON - 43_200] * 2, path


def test_dates_of_which_nothing_tells_the_order_are_refused_in_both_forms(tmp_path: Path) -> None:
    lines = written(tmp_path / "e.jsonl", [event("u1", "click", "1/12/2025"), event("u1", "click", "soon")])
    table = tmp_path / "e.csv"
    table.write_text("user_id,ts,event\nu1,1/12/2025,click\n")
    for path in (lines, table):
        with pytest.raises(AbError, match=r"could be day/month or month/day\."):
            read_events(path, Whose(UNITS, "user_id"), {})


def test_what_the_first_dates_of_a_file_tell_holds_for_the_others() -> None:
    times = JsonTimes("e.jsonl")
    assert times.read(["13/11/2026"]).tolist() == times.read(["2026-11-13"]).tolist()
    assert times.read(["1/12/2026"]).tolist() == times.read(["2026-12-01"]).tolist()
    with pytest.raises(AbError, match="some have the day first"):
        times.read(["12/13/2026"])


def test_times_that_cant_be_are_unread_and_dont_end_the_data(tmp_path: Path) -> None:
    bad = [12, NOON + 400 * 86_400, -NOON, "1912-01-01", "2126-11-18", NOON + 86_401]
    lines = written(tmp_path / "e.jsonl", [event("u1", "click", ts) for ts in (NOON, *bad, NOON + 86_400)])
    table = tmp_path / "e.csv"
    dated = ["1912-01-01", "2126-11-18 00:00:00", "2026-11-19 12:00:01", "2026-11-19 12:00:00", "2026-11-18 12:00:00"]
    table.write_text("user_id,ts,event\n" + "".join(f"u1,{ts},click\n" for ts in dated))
    for path, count in ((lines, len(bad)), (table, 3)):
        found = read_events(path, Whose(UNITS, "user_id"), {}, now=NOON)
        assert sorted(found.time) == [NOON, NOON + 86_400], path
        assert (found.unread.count, found.seen, found.last) == (count, {"click": 2}, NOON + 86_400)
    assert "column ts: 1912-01-01 00:00:00 is no time between 1990 and now (3 times)" in found.unread.first[0]


def test_infinite_values_are_unread_and_missing_ones_are_missing(tmp_path: Path) -> None:
    table = tmp_path / "e.csv"
    table.write_text("".join(["user_id,ts,event,value\n", *(f"u1,{NOON},buy,{v}\n" for v in ("inf", "-inf", "2", ""))]))
    parquet = tmp_path / "e.parquet"
    kept = [float("inf"), float("-inf"), 2.0, float("nan")]
    pq.write_table(pa.table({"user_id": ["u1"] * 4, "ts": [NOON] * 4, "event": ["buy"] * 4, "value": kept}), parquet)
    for path in (table, parquet):
        found = read_events(path, Whose(UNITS, "user_id"), {})
        assert (found.unread.count, found.seen) == (2, {"buy": 2}), path
        assert np.nan_to_num(found.value, nan=-1.0).tolist() == [2.0, -1.0]
        assert "inf is no finite number" in found.unread.first[0]


CTR = Formula("ctr", Term("count", "click"), Term("count", "impression"))


def test_metrics_are_written_as_flags_or_in_a_file(tmp_path: Path) -> None:
    flags = ["ctr=click/impression", "orders=count(purchase)", "buyers=any(purchase)", "aov = sum(purchase) / purchase"]
    found = formulas(flags, None, ["orders"])
    assert found == [
        CTR,
        Formula("orders", Term("count", "purchase"), goal="decrease"),
        Formula("buyers", Term("any", "purchase")),
        Formula("aov", Term("sum", "purchase"), Term("count", "purchase")),
    ]
    assert [str(one) for one in found] == ["click/impression", "purchase", "any(purchase)", "sum(purchase)/purchase"]
    path = tmp_path / "metrics.yaml"
    path.write_text(
        "metrics:\n  ctr: {ratio: [click, impression]}\n  orders: {count: purchase, goal: decrease}\n"
        "  buyers: {mean: any(purchase)}\n  aov: sum(purchase)/purchase\n"
    )
    assert formulas([], path, []) == found


@pytest.mark.parametrize(
    ("flag", "said"),
    [
        ("click", "no name. Expected NAME=FORMULA"),
        ("x=median(click)", "'median(click)' is no term"),
        ("x=a/b/c", "'b/c' is no term"),
        ("x=exposures", "can only stand under a ratio"),
    ],
)
def test_a_metric_that_is_none_is_told(flag: str, said: str) -> None:
    with pytest.raises(AbError) as caught:
        formulas([flag], None, [])
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("metrics: {ctr: {ratio: [click]}}", "m.yaml:1 metrics.ctr.ratio: Expected [above, below]"),
        ("metrics:\n  a: click\n  ctr: {rat: [click]}", "m.yaml:3 metrics.ctr: Expected a formula"),
        ("metrics: {a: {count: x, goal: up}}", "Got 'up'. Expected increase, decrease, none."),
        ("a: 1", "Expected one key metrics"),
        ("metrics: {a: x, a: y}", "Duplicate key"),
    ],
)
def test_a_file_of_metrics_that_is_wrong_is_told_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(text)
    with pytest.raises(AbError) as caught:
        formulas([], path, [])
    assert said in str(caught.value)


def test_names_stand_once_and_are_known() -> None:
    with pytest.raises(AbError, match="given 2 times"):
        formulas(["a=x", "a=y"], None, [])
    with pytest.raises(AbError, match="--lower-is-better b: there is no such metric"):
        formulas(["a=x"], None, ["b"])
