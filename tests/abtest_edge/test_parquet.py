"""Exposures as Parquet: rows gather, and become whole files."""

from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from abtest.exposure_record import FIELDS
from tests.abtest.documents import NOW
from tests.abtest_edge.logs import Clock, files, log_at, record, requests


def test_all_files_have_one_schema_and_make_one_data_set(tmp_path: Path) -> None:
    log = log_at(tmp_path, rotate_rows=2)
    for number in range(5):
        record(log, str(number))
    log.close()
    schemas = {pq.read_schema(file) for file in files(tmp_path)}
    assert len(files(tmp_path)) == 3
    assert len(schemas) == 1
    schema = schemas.pop()
    assert tuple(schema.names) == FIELDS
    assert schema.field("time").type == pa.float64()
    assert schema.field("params").type == pa.list_(pa.string())
    assert ds.dataset(tmp_path, format="parquet").count_rows() == 5


def test_a_file_appears_when_there_are_rows_enough_for_it(tmp_path: Path) -> None:
    log = log_at(tmp_path, rotate_rows=3)
    for number in range(2):
        record(log, str(number))
    log.flush()
    assert (len(log), log.written, list(tmp_path.iterdir())) == (2, 0, [])
    for number in range(2, 8):
        record(log, str(number))
    log.flush()
    assert (len(log), log.written) == (2, 6)
    assert [pq.read_metadata(file).num_rows for file in files(tmp_path)] == [3, 3]
    log.close()
    assert requests(tmp_path) == [str(number) for number in range(8)]


@pytest.mark.parametrize("later", [60.0, 61.0, -0.5])
def test_a_file_appears_when_its_first_row_is_old_or_the_clock_was_set_back(tmp_path: Path, later: float) -> None:
    clock = Clock()
    log = log_at(tmp_path, clock=clock, rotate_seconds=60.0)
    record(log, "first")
    log.flush()
    clock.now += 59.0
    record(log, "second")
    log.flush()
    assert (len(log), log.written) == (2, 0)
    clock.now = NOW + later
    log.flush()
    assert (len(log), log.written, requests(tmp_path)) == (0, 2, ["first", "second"])
    log.flush()
    log.close()
    assert len(files(tmp_path)) == 1


def test_the_newest_files_of_a_total_size_stay(tmp_path: Path) -> None:
    log = log_at(tmp_path, rotate_rows=1)
    record(log, "0000")
    log.flush()
    size = files(tmp_path)[0].stat().st_size
    log.close()
    log = log_at(tmp_path, rotate_rows=1, rotate_bytes=size + 100, keep=3)
    for number in range(1, 8):
        record(log, f"{number:04}")
        log.flush()
    log.close()
    assert requests(tmp_path) == ["0005", "0006", "0007"]
    assert [int(file.name.split(".")[3]) for file in files(tmp_path)] == [6, 7, 8]
    assert log.written == 7


def test_the_newest_file_stays_however_large_it_is(tmp_path: Path) -> None:
    log = log_at(tmp_path, rotate_rows=1, rotate_bytes=1, keep=1)
    for number in range(3):
        record(log, str(number))
    log.close()
    assert requests(tmp_path) == ["2"]


def test_numbers_go_on_after_a_restart_though_the_clock_was_set_back(tmp_path: Path) -> None:
    clock = Clock()
    for request_id in ("before", "after"):
        log = log_at(tmp_path, clock=clock)
        record(log, request_id)
        log.close()
        clock.now -= 86_400
    assert requests(tmp_path) == ["before", "after"]
    assert files(tmp_path)[0].name > files(tmp_path)[1].name


def test_a_file_of_a_killed_process_is_neither_read_nor_kept(tmp_path: Path) -> None:
    (tmp_path / ".exposures.w0.parquet.part").write_bytes(b"PAR1 cut off")
    log = log_at(tmp_path)
    record(log, "r1")
    log.close()
    assert [file.name for file in tmp_path.iterdir()] == [files(tmp_path)[0].name]
    assert requests(tmp_path) == ["r1"]


def test_rows_that_gather_are_not_lost_to_a_disk_that_refuses(tmp_path: Path) -> None:
    folder = tmp_path / "var"
    folder.write_text("in the way")
    log = log_at(folder)
    record(log, "first")
    record(log, "second")
    log.flush()
    assert (len(log), log.dropped) == (2, 0)


def test_an_id_that_utf8_cannot_hold_is_spelled_out(tmp_path: Path) -> None:
    log = log_at(tmp_path)
    record(log, "bad\ud800")
    record(log, "good")
    log.close()
    assert requests(tmp_path) == ["bad\\ud800", "good"]
