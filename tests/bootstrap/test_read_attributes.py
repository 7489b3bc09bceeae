"""What becomes of columns that aren't what their name promises: lists, numbers as titles, text as prices."""

import datetime

import numpy as np
import pyarrow as pa
import pytest

from bootstrap.dataset import Dataset
from bootstrap.errors import InputError
from bootstrap.read import read_inputs, read_interactions, read_items, read_users
from tests.bootstrap.test_read import log, parquet, write

NESTED = {"list<string>": pa.array([["a"], ["b"]]), "struct<x: string>": pa.array([{"x": "a"}, {"x": "b"}])}


def items(tmp_path, text):
    return read_items(write(tmp_path / "items.csv", text), {})


@pytest.mark.parametrize("kind", NESTED)
@pytest.mark.parametrize("role", ["user_id", "item_id", "event"])
def test_lists_and_records_are_no_ids_and_no_events(tmp_path, role, kind):
    columns = {"user_id": ["u", "v"], "item_id": ["i", "j"], "ts": [1, 2]} | {role: NESTED[kind]}
    path = parquet(tmp_path / "log.parquet", **columns)
    with pytest.raises(InputError) as caught:
        read_interactions(path, {})
    assert str(caught.value) == f"{path} column {role}: has type {kind}. Expected text or whole numbers."


@pytest.mark.parametrize("kind", NESTED)
@pytest.mark.parametrize(("role", "read"), [("item_id", read_items), ("user_id", read_users)])
def test_lists_and_records_are_no_ids_of_items_and_users(tmp_path, role, read, kind):
    path = parquet(tmp_path / "x.parquet", **{role: NESTED[kind]}, name=["a", "b"])
    with pytest.raises(InputError) as caught:
        read(path, {})
    assert str(caught.value) == f"{path} column {role}: has type {kind}. Expected text or whole numbers."


@pytest.mark.parametrize(
    "values",
    [
        ["00200", "300"],
        ["2024-01-03", "2024-01-04"],
        ["true", "false"],
        ["1.50", "2.5"],
        ["1.0", "2.00"],
        ["1e3", "inf"],
    ],
)
def test_titles_and_categories_of_a_csv_file_stay_as_written(tmp_path, values):
    rows = "".join(f"i{at},{value},{value}\n" for at, value in enumerate(values))
    x = items(tmp_path, f"item_id,title,department\n{rows}i9,,\n")
    assert x.columns["title"] == [*values, None]
    assert x.columns["category"] == [*values, None]
    numbered = "".join(f"u{at},i{at % 4},{at},{values[at % 2]}\n" for at in range(8))
    assert log(tmp_path, f"user,item,ts,title\n{numbered}").items.columns["title"] == [*values, *values]


def test_titles_of_a_parquet_file_become_text(tmp_path):
    path = parquet(
        tmp_path / "items.parquet", item_id=["a", "b", "c"], title=[200.0, 7.0, None], category=[True, False, True]
    )
    x = read_items(path, {})
    assert x.columns["title"] == ["200", "7", None]
    assert x.columns["category"] == ["true", "false", "true"]
    day, moment = datetime.date(2024, 1, 3), datetime.datetime(2024, 1, 3, 10, 20, 30, 500_000)
    path = parquet(tmp_path / "items.parquet", item_id=["a"], title=[day], category=[moment])
    assert read_items(path, {}).columns == {"title": ["2024-01-03"], "category": ["2024-01-03 10:20:30.5"]}


@pytest.mark.parametrize("bad", ["$2.50", '"3,50"', "free"])
def test_a_price_that_is_no_number_is_ignored_with_its_row_or_refused_where_mapped(tmp_path, bad):
    path = write(tmp_path / "items.csv", f"item_id,Unit Price\na,2.5\nb,{bad}\n")
    x = read_items(path, {})
    shown = bad.strip('"')
    assert x.columns == {}
    assert x.report is not None
    assert x.report.lines()[-1] == (
        f"  ignored Unit Price: row 2 (line 3): '{shown}' is no number. Expected a price such as 2.5."
    )
    with pytest.raises(InputError, match=r"items.csv row 2 \(line 3\) column Unit Price: .* is no number"):
        read_items(path, {"price": "Unit Price"})


def test_a_price_in_a_log_names_the_logs_own_row(tmp_path):
    x = log(tmp_path, "user,item,ts,price\n,i,1,2\nu,i,9,free\nu,j,3,2\n")
    assert x.items.columns == {}
    assert x.report.ignored == {"price": "row 2 (line 3): 'free' is no number. Expected a price such as 2.5."}


def test_prices_of_other_types(tmp_path):
    path = tmp_path / "items.parquet"
    text = read_items(parquet(path, item_id=["a", "b"], price=["2.5", " 3 "]), {})
    np.testing.assert_array_equal(text.columns["price"], np.array([2.5, 3], np.float32))
    long = read_items(parquet(path, item_id=["a", "b"], price=[2**40, 1]), {})
    np.testing.assert_array_equal(long.columns["price"], np.array([2**40, 1], np.float32))
    flags = read_items(parquet(path, item_id=["a", "b"], price=[True, False]), {})
    assert flags.report is not None
    assert flags.report.ignored == {"price": "has type bool. Expected prices as numbers."}


def test_infinite_numbers_are_missing_and_noted(tmp_path):
    x = items(tmp_path, "item_id,price,size\na,2.5,1\nb,inf,-Infinity\nc,1e308,3\nd,3,NaN\n")
    np.testing.assert_array_equal(x.columns["price"], np.array([2.5, np.nan, np.nan, 3], np.float32))
    np.testing.assert_array_equal(x.columns["size"], np.array([1, np.nan, 3, np.nan], np.float32))
    assert x.report is not None
    assert x.report.notes == (
        "price is no finite number in 2 rows: read as missing",
        "size is no finite number in 1 row: read as missing",
    )
    path = parquet(tmp_path / "x.parquet", item_id=["a", "b", "c"], size=[1.0, float("inf"), float("nan")])
    stored = read_items(path, {})
    np.testing.assert_array_equal(stored.columns["size"], np.array([1, np.nan, np.nan], np.float32))
    assert stored.report is not None
    assert stored.report.notes == ("size is no finite number in 1 row: read as missing",)


def test_columns_that_are_no_attributes_are_ignored_for_their_own_reasons(tmp_path):
    path = parquet(
        tmp_path / "items.parquet",
        item_id=["a", "b"],
        nothing=pa.nulls(2),
        long=pa.array([1, 2], pa.duration("s")),
        clock=pa.array([1, 2], pa.time64("us")),
        tags=[["x"], ["y"]],
        picture=[b"\xff\x00", b"text"],
        words=[b"some", b"text"],
    )
    x = read_items(path, {})
    assert x.columns == {"words": ["some", "text"]}
    assert x.report is not None
    assert x.report.ignored == {
        "nothing": "is empty",
        "long": "holds durations",
        "clock": "holds times of day without a date",
        "tags": "holds lists or records",
        "picture": "holds bytes that aren't UTF-8 text",
    }


@pytest.mark.parametrize(("role", "expected"), [("event", "kinds of event"), ("weight", "numbers")])
def test_an_event_or_weight_without_values_says_how_to_leave_it_out(tmp_path, role, expected):
    columns = {"user_id": ["u"], "item_id": ["i"], "ts": [1], role: pa.nulls(1)}
    path = parquet(tmp_path / "log.parquet", **columns)
    with pytest.raises(InputError, match=f"column {role}: is empty. Expected {expected}; --map {role}= leaves"):
        read_interactions(path, {})
    assert len(read_interactions(path, {role: ""})) == 1


def test_files_that_know_only_some_of_the_logs_ids_are_noted_and_strangers_refused(tmp_path):
    path = write(tmp_path / "log.csv", "user_id,item_id,ts\nu,a,1000000000\nu,b,1000000000\nv,c,1000000000\n")
    some = write(tmp_path / "items.csv", "item_id,size\na,1\nz,2\n")
    all_of_them = write(tmp_path / "users.csv", "user_id,age\nu,1\nv,2\nw,3\n")
    notes = [report.notes for report in read_inputs(path, items=some, users=all_of_them).reports]
    assert notes == [(), ("2 of the log's 3 items aren't in it",), ()]
    with pytest.raises(InputError) as caught:
        read_inputs(path, items=write(some, "item_id,size\nx1,1\n"))
    assert str(caught.value) == (
        f"{some}: none of the log's 3 items is in it. Expected ids as in the log, such as 'a'; column item_id has"
        " such as 'x1'. --map item_id=COLUMN names another."
    )
    with pytest.raises(InputError, match="none of the log's 2 users is in it"):
        read_inputs(path, users=write(all_of_them, "user_id,age\nx,1\n"))


def test_lists_are_spread_over_a_category_or_over_what_groups_items(tmp_path):
    path = write(tmp_path / "log.csv", "user_id,item_id,ts\nu,i0,1\nv,i1,2\n")

    def kind(columns, mapping=None):
        rows = [",".join([f"i{at}", f"x{at}", f"b{at % 4}", f"c{at % 2}"]) for at in range(8)]
        text = "\n".join([f"item_id,{columns}", *rows])
        return Dataset.of(
            read_inputs(path, items=write(tmp_path / "items.csv", text), mapping=mapping or {})
        ).found.kind

    assert kind("ean,brand,colour") == "brand"
    assert kind("ean,brand,department") == "category"
    assert kind("ean,brand,colour", {"category": "colour"}) == "category"
    assert kind("ean,price,title") is None
    assert kind("ean,title,weight_kg") == "weight_kg"
