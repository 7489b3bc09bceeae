from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bootstrap.errors import InputError
from bootstrap.read import read_inputs, read_interactions, read_items, read_users

RETAIL = Path(__file__).parents[2] / "../shared/data/online_retail.parquet"
DAY = 86400.0


def write(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def parquet(path: Path, **columns: object) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


def log(tmp_path: Path, text: str | bytes, as_of: float | None = None, **mapping: str):
    return read_interactions(write(tmp_path / "log.csv", text), mapping, as_of=as_of)


def test_rows_come_in_order_of_time_and_rows_of_one_time_keep_the_files_order(tmp_path):
    x = log(tmp_path, "user_id,item_id,timestamp\nb,3,20\na,1,10\nc,2,20\nb,1,5\n")
    assert x.ts.tolist() == [5, 10, 20, 20]
    assert [x.user_ids[u] for u in x.user] == ["b", "a", "b", "c"]
    assert [x.item_ids[i] for i in x.item] == ["1", "1", "3", "2"]
    assert (x.user.dtype, x.item.dtype, x.ts.dtype) == (np.int32, np.int32, np.float64)
    assert (x.event.dtype, x.weight.dtype) == (np.int16, np.float32)
    assert x.events == ["purchase"]
    assert x.weight.tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize(
    "header",
    [
        "CustomerID,StockCode,InvoiceDate,Quantity",
        "household_id,product_id,transaction_timestamp,quantity",
        "visitorid,itemid,timestamp,weight",
        "User ID;SKU;Event Time;Qty",
        "userId\tmovieId\tts\tcount",
    ],
)
def test_common_exports_need_no_flags(tmp_path, header):
    delimiter = next(d for d in ",;\t" if d in header)
    row = delimiter.join(["u", "i", "1300000000", "2"])
    x = log(tmp_path, f"{header}\n{row}\n")
    assert (x.user_ids, x.item_ids, x.ts.tolist(), x.weight.tolist()) == (["u"], ["i"], [1.3e9], [2])


def test_events_are_coded_by_name(tmp_path):
    x = log(tmp_path, "user,item,ts,event_type\nu,i,1,view\nu,i,2,cart\nu,j,3,view\nu,j,4,\n")
    assert [x.events[e] for e in x.event] == ["view", "cart", "view"]
    assert x.report.dropped == {"no event": 1}
    assert x.report.events == {"cart": 1, "view": 2}


def test_two_columns_for_one_field_are_an_error_that_lists_them_and_a_flag_decides(tmp_path):
    text = "customer_id,client_id,item,ts\na,b,i,1\n"
    with pytest.raises(InputError, match=r"customer_id, client_id could each be the user_id.*--map user_id="):
        log(tmp_path, text)
    assert log(tmp_path, text, user_id="client_id").user_ids == ["b"]
    assert log(tmp_path, text, user_id="Customer ID").user_ids == ["a"]


def test_the_fields_own_name_wins_over_other_names(tmp_path):
    assert log(tmp_path, "customer_id,user_id,item,ts\na,b,i,1\n").user_ids == ["b"]


def test_a_missing_column_is_an_error_with_the_nearest_name(tmp_path):
    with pytest.raises(InputError, match=r"no column for item_id.*nearest: iten_id.*--map item_id=COLUMN"):
        log(tmp_path, "user_id,iten_id,ts\na,b,1\n")
    with pytest.raises(InputError, match=r"no column 'Stok'; nearest: stock"):
        log(tmp_path, "user_id,stock,ts\na,b,1\n", item_id="Stok")


def test_a_mapped_attribute_that_no_file_has_is_an_error(tmp_path):
    path = write(tmp_path / "log.csv", "user_id,item_id,ts\na,b,1\n")
    with pytest.raises(InputError, match="--map brand=Brnd: no input file"):
        read_inputs(path, mapping={"brand": "Brnd"})


def test_ids_stay_text_and_whole_floats_lose_their_point(tmp_path):
    path = parquet(
        tmp_path / "x.parquet",
        user_id=[17850.0, float("nan"), 12346.0],
        item_id=[2**63 - 1, 7, 2**53 + 1],
        ts=[1, 2, 3],
    )
    x = read_interactions(path, {})
    assert x.user_ids == ["12346", "17850"]
    assert x.item_ids == ["9007199254740993", "9223372036854775807"]
    assert x.report.dropped == {"no user": 1}


def test_whole_floats_in_a_csv_lose_their_point_but_text_that_looks_alike_does_not(tmp_path):
    x = log(tmp_path, "user_id,item_id,ts\n17850.0,1.0,1\n,2x,2\n12346.0,1.50,3\n")
    assert x.user_ids == ["12346", "17850"]
    assert x.item_ids == ["1.0", "1.50"]


def test_ids_are_kept_byte_for_byte(tmp_path):
    ids = ["é", "e\u0301", " u ", "用户💰", "a\x00b", "Ω", "NA", "007", "a,b", 'q"', "line\nbreak"]
    path = parquet(tmp_path / "x.parquet", user_id=ids, item_id=ids, ts=list(range(len(ids))))
    assert read_interactions(path, {}).user_ids == sorted(ids)
    quoted = ['"' + i.replace('"', '""') + '"' for i in ids]
    text = "user_id,item_id,ts\n" + "".join(f"{q},{q},{n}\n" for n, q in enumerate(quoted))
    assert log(tmp_path, text).item_ids == sorted(ids)


def test_dictionary_and_large_text_columns_are_read(tmp_path):
    users = pa.array(["b", "a", "b"]).dictionary_encode()
    path = parquet(tmp_path / "x.parquet", user_id=users, item_id=pa.array(["x"] * 3, pa.large_string()), ts=[1, 2, 3])
    assert read_interactions(path, {}).user.tolist() == [1, 0, 1]


def test_returns_and_broken_weights_are_dropped_and_counted(tmp_path):
    x = log(tmp_path, "user,item,ts,qty\na,i,1,2\na,j,2,-1\na,k,3,0\na,l,4,\na,m,5,inf\nb,n,6,0.5\n")
    assert x.item_ids == ["i", "n"]
    assert x.report.dropped == {
        "weight missing or not finite": 2,
        "weight zero or negative (returns)": 2,
    }
    with pytest.raises(InputError, match=r"row 2 \(line 3\) column qty: 'many' is no number"):
        log(tmp_path, "user,item,ts,qty\na,i,1,2\na,i,1,many\n")
    assert log(tmp_path, "user,item,ts,qty\na,i,1,many\n", weight="").weight.tolist() == [1]


def test_nothing_remaining_is_an_error_with_the_reasons(tmp_path):
    with pytest.raises(InputError, match=r"no row remains \(2: no user\)"):
        log(tmp_path, "user_id,item_id,ts\n,i,1\n,j,2\n")


@pytest.mark.parametrize("extra", [False, True])
def test_events_from_as_of_on_change_nothing(tmp_path, extra):
    rows = ["1.0,a,10,5,red", "2.0,a,20,5,red", "2.0,b,30,7,blue"]
    late = ["x9,late,40,999,green", "2.0,a,41,1e3,", "zz,a,42,oops,blue", "2.0,b,43,9.5,12"]
    text = "\n".join(["user_id,item_id,timestamp,price,colour", *rows, *(late if extra else [])]) + "\n"
    x = log(tmp_path, text, as_of=40.0)
    assert (x.user_ids, x.item_ids) == (["1", "2"], ["a", "b"])
    assert x.items.columns["price"].tolist() == [5, 7]
    assert x.items.columns["price"].dtype == np.float32
    assert x.items.columns["colour"] == ["red", "blue"]
    assert x.report.dropped == ({"at or after as-of": 4} if extra else {})


def test_columns_of_the_log_become_item_and_user_attributes(tmp_path):
    lines = ["InvoiceNo,StockCode,Description,Quantity,InvoiceDate,UnitPrice,CustomerID,Country"]
    for n in range(120):
        item, user = n % 4, n % 3
        price = 2.5 if n != 7 else 99
        lines.append(f"{n},S{item}, Thing {item} ,1,2011-01-01 10:{n % 60:02d}:00,{price},{user},C{user}")
    x = log(tmp_path, "\n".join(lines))
    assert x.items.columns["title"] == ["Thing 0", "Thing 1", "Thing 2", "Thing 3"]
    assert x.items.columns["price"].tolist() == [2.5] * 4
    assert x.users.columns == {"country": ["C0", "C1", "C2"]}
    assert x.report.ignored == {"InvoiceNo": "describes neither items nor users"}
    assert x.report.used["title"] == "Description"


def test_a_value_that_nearly_all_rows_share_describes_nobody_unless_mapped(tmp_path):
    rows = [f"u{n % 10},i{n % 7},{n},{'UK' if n % 40 else 'FR'},EUR" for n in range(400)]
    text = "\n".join(["user_id,item_id,ts,country,currency", *rows])
    x = log(tmp_path, text)
    assert (x.users.columns, x.items.columns) == ({}, {})
    assert x.report.ignored["currency"] == "is the same everywhere"
    assert "region" in log(tmp_path, text, region="country").report.used


def test_items_have_typed_columns_named_as_identifiers(tmp_path):
    path = write(
        tmp_path / "items.csv",
        "product_id,Product Name,UnitPrice,Department,In Stock?,2nd,launched,live,gap,code,and,nothing\n"
        "a,Tea,2.5,Drinks,3,x,2011-01-02,true,1,12345678901,p,\n"
        "b,,NA,,4,y,2011-01-03 00:00:00,false,,2,q,\n",
    )
    x = read_items(path, {})
    c = x.columns
    assert x.ids == ["a", "b"]
    assert c["title"] == ["Tea", None]
    assert c["category"] == ["Drinks", None]
    np.testing.assert_array_equal(c["price"], np.array([2.5, np.nan], np.float32))
    assert (c["price"].dtype, c["in_stock"].dtype, c["live"].dtype) == (np.float32, np.int32, np.bool_)
    assert c["in_stock"].tolist() == [3, 4]
    assert c["c_2nd"] == ["x", "y"]
    assert c["c_and"] == ["p", "q"]
    assert c["launched"].dtype == np.float64
    assert c["launched"][0] == datetime(2011, 1, 2, tzinfo=UTC).timestamp()
    np.testing.assert_array_equal(c["gap"], np.array([1, np.nan], np.float32))
    assert c["code"] == ["12345678901", "2"]
    assert x.report is not None
    assert x.report.ignored == {"nothing": "is empty"}


def test_repeated_items_are_dropped_and_conflicting_ones_name_both_rows(tmp_path):
    path = tmp_path / "items.csv"
    same = read_items(write(path, "id,title\na,Tea\nb,Oat\na,Tea\n"), {})
    assert same.ids == ["a", "b"]
    assert same.report is not None
    assert same.report.dropped == {"repeats an earlier row": 1}
    with pytest.raises(InputError) as caught:
        read_items(write(path, 'id,title\na,Tea\nb,"Oat\nmilk"\n\na,Coffee\n'), {})
    assert str(caught.value) == (
        f"{path} row 3 (line 6) column title: id 'a' has 'Coffee' here and 'Tea' in row 1."
        " Expected one row per id; remove one of them."
    )
    assert (caught.value.row, caught.value.line, caught.value.column) == (3, 6, "title")


def test_files_and_log_are_joined_and_the_file_stands(tmp_path):
    log_path = write(tmp_path / "log.csv", "user_id,sku,ts,price,town\nu,a,1,5,X\nu,a,2,5,X\nw,c,3,6,Y\nw,a,4,5,Y\n")
    items = write(tmp_path / "items.csv", "id,price,stock\na,9,1\nb,8,2\n")
    users = write(tmp_path / "users.csv", "user_id,age\nv,30\nu,40\n")
    x = read_inputs(log_path, items=items, users=users, mapping={"item_id": "sku"})
    assert x.items.ids == ["a", "b", "c"]
    np.testing.assert_array_equal(x.items.columns["price"], np.array([9, 8, np.nan], np.float32))
    np.testing.assert_array_equal(x.items.columns["stock"], np.array([1, 2, np.nan], np.float32))
    assert x.users.ids == ["u", "v", "w"]
    assert x.users.columns["town"] == ["X", None, "Y"]
    np.testing.assert_array_equal(x.users.columns["age"], np.array([40, 30, np.nan], np.float32))
    assert len(x.reports) == 3


def test_users_without_any_id_are_an_error(tmp_path):
    with pytest.raises(InputError, match="column id: every id is empty"):
        read_users(write(tmp_path / "u.csv", "id,age\n,3\n,4\n"), {})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        (b"user_id,item_id,ts\n", "has no rows"),
        (b"user_id,item_id,ts,ts\na,b,1,2\n", "column ts: ts names more than one column"),
        (b"user_id,item_id,ts\na,b,1\n\nc,2\n", r"row 2 \(line 4\): Expected 3 columns, got 2"),
        (b"user_id,item_id,ts\na,b,1\nc,caf\xe9,2\n", r"row 2 \(line 3\): 'caf\\xe9' isn't UTF-8|isn't UTF-8 text"),
        (b'user_id,item_id,ts\na,b,1\na,b,"1\nc,d,2\n', r"row 2 \(line 3\): a quote opens here"),
        (b"PK\x03\x04zip", "spreadsheet or zip"),
        ("user_id,item_id,ts\na,b,1\n".encode("utf-16"), "UTF-16"),
        (b"PAR1 not really", "isn't a readable Parquet file"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_clear_line(tmp_path, content, message):
    with pytest.raises(InputError, match=message) as caught:
        log(tmp_path, content)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"nowhere\.csv: doesn't exist"):
        read_interactions(tmp_path / "nowhere.csv", {})


def test_a_byte_order_mark_and_quoted_line_breaks_are_read(tmp_path):
    x = log(tmp_path, b'\xef\xbb\xbfuser_id,item_id,ts\r\n"a\nb",i,1\r\nc,j,2\r\n')
    assert x.user_ids == ["a\nb", "c"]


@pytest.mark.skipif(not RETAIL.exists(), reason="the data set isn't here")
def test_online_retail_needs_no_flags():
    x = read_interactions(RETAIL, {})
    assert (len(x), len(x.user_ids), len(x.item_ids)) == (396_337, 4_334, 3_659)
    assert x.user_ids[0] == "12346"
    assert x.items.columns["title"][x.item_ids.index("85123A")] == "WHITE HANGING HEART T-LIGHT HOLDER"
    assert x.items.columns["price"][x.item_ids.index("85123A")] == pytest.approx(2.95)
    assert list(x.users.columns) == ["country"]
    assert x.ts[-1] == datetime(2011, 12, 9, 12, 50, tzinfo=UTC).timestamp()
    cut = x.ts[-1] - 30 * DAY
    early = read_interactions(RETAIL, {}, as_of=cut)
    assert len(early) == int((x.ts < cut).sum())
    assert early.report.lines()[0].startswith(f"{RETAIL}: 396,337 rows read")
