"""Rows that no request could name or no store keep are dropped and counted; columns that clash are renamed."""

import time

import numpy as np
import pytest

from app.wire import MAX_ID_BYTES as LONGEST_IN_A_REQUEST
from bootstrap.columns import MAX_ID_BYTES
from bootstrap.dataset import Dataset
from bootstrap.errors import BootstrapError, InputError
from bootstrap.mapping import mapping_of
from bootstrap.read import HEAVIEST, read_inputs, read_items
from tests.bootstrap.test_read import log, parquet, write

DAY = 86_400.0


def test_times_that_the_store_cannot_keep_are_dropped_and_counted(tmp_path):
    ts = [-1.0, -1e9, 0.0, 2.0**32 - 0.5, 2.0**32, 1e9]
    path = parquet(tmp_path / "x.parquet", user_id=["u"] * 6, item_id=list("abcdef"), ts=ts)
    x = read_inputs(path)
    assert x.interactions.item_ids == ["c", "d", "f"]
    assert x.interactions.report.dropped == {
        "before 1970": 2,
        "after 7 February 2106, the end of the store's clock": 1,
    }
    data = Dataset.of(x)
    assert data.records(0)["ts"].tolist() == [0, 10**9, 2**32 - 1]


def test_times_ahead_of_the_clock_are_noted(tmp_path):
    now = time.time()
    rows = [f"u,{name},{now + ahead}" for name, ahead in (("a", 3 * DAY), ("b", 2 * DAY), ("c", -5), ("d", DAY / 2))]
    report = log(tmp_path, "\n".join(["user_id,item_id,ts", *rows])).report
    assert report.notes == ("2 rows lie more than a day after now: are the times right?",)
    assert log(tmp_path, "user_id,item_id,ts\nu,i,1300000000\n").report.notes == ()


def test_names_too_long_for_a_request_are_dropped_and_counted(tmp_path):
    assert MAX_ID_BYTES == LONGEST_IN_A_REQUEST
    fits, long = "é" * 128, "é" * 128 + "x"
    rows = [f"{fits},{fits},1,{fits}", f"{long},i,2,e", f"u,{long},3,e", f"u,{long}y,4,e", f"u,i,5,{long}"]
    x = log(tmp_path, "\n".join(["user_id,item_id,ts,event", *rows]))
    assert (x.user_ids, x.item_ids, x.events) == ([fits], [fits], [fits])
    assert x.report.dropped == {
        "user longer than 256 bytes": 1,
        "item longer than 256 bytes": 2,
        "event longer than 256 bytes": 1,
    }
    path = tmp_path / "items.csv"
    items = read_items(write(path, f"item_id,title\n{long},A\n{fits},B\n,C\n{long},D\n"), {})
    assert items.ids == [fits]
    assert items.report is not None
    assert items.report.dropped == {"no id": 1, "id longer than 256 bytes": 2}
    with pytest.raises(InputError, match="every id is empty or too long"):
        read_items(write(path, f"item_id,title\n{long},A\n"), {})


def test_absurd_weights_are_dropped_and_counted(tmp_path):
    x = log(tmp_path, f"user,item,ts,qty\na,i,1,{HEAVIEST:g}\na,j,2,1e38\na,k,3,3e12\n")
    assert x.item_ids == ["i"]
    assert x.report.dropped == {"weight above 1e+12": 2}
    assert np.isfinite(x.weight).all()


def test_an_event_that_says_nothing_is_missing(tmp_path):
    x = log(tmp_path, "user,item,ts,event\nu,i,1, view \nu,i,2,null\nu,i,3,NA\nu,j,4,view\nu,j,5,\n")
    assert x.report.events == {"view": 2}
    assert x.report.dropped == {"no event": 3}
    numbers = parquet(tmp_path / "x.parquet", user=["u", "u"], item=["i", "i"], ts=[1, 2], event=[1.0, 2.0])
    assert read_inputs(numbers).interactions.events == ["1", "2"]


def test_columns_called_like_those_that_bootstrap_makes_are_renamed_and_reported(tmp_path):
    lines = [f"u{n % 10},i{n % 7},{1.3e9 + n},buyer {n % 7},town {n % 10}" for n in range(200)]
    path = write(tmp_path / "log.csv", "\n".join(["user_id,item_id,ts,buyers,History", *lines]))
    items = write(tmp_path / "items.csv", "item_id,embedding,Title Vector,colour\ni1,5,7,red\ni2,6,8,blue\n")
    users = write(tmp_path / "users.csv", "user_id,embedding,age\nu1,3,4\nu2,4,5\n")
    x = read_inputs(path, items=items, users=users)
    assert set(x.items.columns) == {"embedding_given", "title_vector_given", "colour", "buyers_given"}
    assert set(x.users.columns) == {"embedding_given", "history_given", "age"}
    text = "\n".join(line for report in x.reports for line in report.lines())
    for column, name in (
        ("buyers", "buyers"),
        ("History", "history"),
        ("embedding", "embedding"),
        ("Title Vector", "title_vector"),
    ):
        assert f"note: {column} is called {name}_given: recserve makes a column {name} itself" in text
        assert f"{name}_given={column}" in text
    assert text.count("recserve makes a column") == 5


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (["user_id"], "no '='"),
        (["=customer"], "no field"),
        (["user_id="], "user_id=: no column. Expected a column's name; only event and weight can do without"),
        (["title ="], "no column"),
        (["user_id=a", "user_id=b"], "user_id=b: user_id is mapped to 'a' already"),
    ],
)
def test_mappings_that_mean_nothing_are_refused(pairs, message):
    with pytest.raises(BootstrapError, match=message):
        mapping_of(pairs)


def test_a_mapping_is_field_to_column():
    assert mapping_of(["user_id = who", "event=", "formula=a=b"]) == {"user_id": "who", "event": "", "formula": "a=b"}


def test_a_column_that_another_field_claims_is_named_with_its_claim(tmp_path):
    expected = (
        r"no column for user_id: --map item_id=user_id takes the one that looks like it\. Expected --map user_id="
    )
    with pytest.raises(InputError, match=expected):
        log(tmp_path, "user_id,thing,ts\na,b,1\n", item_id="user_id")
