"""CSV files as exports make them: compressed under any name, with separators at the ends of lines, with long names."""

import bz2
import gzip

import pyarrow as pa
import pytest

from bootstrap.errors import BootstrapError, InputError
from bootstrap.mapping import LONGEST, identifier, mapping_of
from bootstrap.read import read_items
from tests.bootstrap.test_read import log, write

TEXT = b"user_id,item_id,ts\nu,i,1\nv,j,2\n"


@pytest.mark.parametrize("codec", ["gzip", "bz2", "zstd", "lz4"])
def test_compression_is_told_by_content(tmp_path, codec):
    x = log(tmp_path, pa.compress(TEXT, codec=codec, asbytes=True) if codec != "bz2" else bz2.compress(TEXT))
    assert x.user_ids == ["u", "v"]


def test_a_plain_file_may_be_called_gz(tmp_path):
    assert read_items(write(tmp_path / "items.csv.gz", "item_id,size\na,1\n"), {}).ids == ["a"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (gzip.compress(TEXT)[:-12], "can't be decompressed as gzip"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\xff\n", "isn't text. Expected a Parquet or CSV file"),
        (gzip.compress(b"PAR1 and so on"), "is compressed Parquet"),
        (gzip.compress(TEXT.decode().encode("utf-16")), "is UTF-16"),
        (b"\xfd7zXZ\x00 and so on", "is compressed with xz. Expected gzip"),
        (b"\x1f\x8b not gzip at all", "can't be decompressed as gzip"),
        (b"user_id,item_id,ts\nu\x07\xff\x1b[31m,i,1\n", r"row 1 \(line 2\): 'u\\x07\\xff\\x1b\[31m' isn't UTF-8"),
        (b"user\x1b[31m,item_id,ts\nu,i,1\n", r"there are user\\x1b\[31m, item_id, ts"),
    ],
)
def test_what_cannot_be_read_is_one_printable_line(tmp_path, content, message):
    with pytest.raises(InputError, match=message) as caught:
        log(tmp_path, content)
    assert str(caught.value).isprintable()


def test_nameless_empty_columns_are_left_out(tmp_path):
    x = log(tmp_path, "user_id,item_id,ts,, \nu,i,1,,\nv,j,2,,\n")
    assert list(x.report.used) == ["user_id", "item_id", "timestamp"]
    assert x.report.ignored == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("user_id,item_id,ts,,\nu,i,1,a,b\n", "line 1: columns 4 and 5 have no name"),
        ("user_id,item_id,ts,,,\nu,i,1,,b,\n", "line 1: column 5 has no name"),
        ("user_id,item_id,ts,,,\nu,i,1,a,b,c\n", "line 1: columns 4, 5 and 6 have no name"),
    ],
)
def test_nameless_columns_with_values_are_refused(tmp_path, text, message):
    with pytest.raises(InputError, match=message):
        log(tmp_path, text)


def test_row_numbers_that_a_data_frame_wrote_may_have_no_name(tmp_path):
    assert log(tmp_path, ",user_id,item_id,ts\n0,u,i,1\n1,v,j,2\n").user_ids == ["u", "v"]


def test_long_column_names_are_cut_and_stay_apart(tmp_path):
    long = "x" * 300
    assert identifier(long) == "x" * LONGEST
    x = read_items(write(tmp_path / "items.csv", f"item_id,{long}a,{long}b\ni,1,2\n"), {})
    assert list(x.columns) == ["x" * LONGEST, "x" * LONGEST + "_2"]
    with pytest.raises(BootstrapError, match="the field's name is long"):
        mapping_of([f"{long}=a"])
