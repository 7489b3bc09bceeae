import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from abtest import ExposureLog
from abtest.exposure_record import FIELDS
from tests.abtest.documents import KNOB, NOW
from tests.abtest_edge.logs import (
    CONFIG,
    FORMATS,
    READ,
    Clock,
    Format,
    assigned,
    files,
    log_at,
    record,
    requests,
    rows,
    sliced,
)


def test_both_formats_have_the_same_fields_and_values(tmp_path: Path) -> None:
    for format in ("jsonl", "parquet"):
        log = log_at(tmp_path, format)
        record(log, "r\0💰", "用户\0", NOW + 0.25)
        log.close()
        assert (log.written, log.dropped, len(log)) == (1, 0, 0)
    decision = assigned("用户\0").decisions[1]
    assert decision.bucket is not None
    assert rows(tmp_path) == rows(tmp_path, "jsonl")
    assert rows(tmp_path) == [
        {
            "time": NOW + 0.25,
            "request_id": "r\0💰",
            "scene": "home",
            "layer": "re_rank",
            "experiment": "exp_mmr",
            "version": 1,
            "bucket": decision.bucket.name,
            "unit_type": "user_id",
            "unit": "用户\0",
            "layer_slot": decision.slot,
            "bucket_slot": decision.bucket_slot,
            "reason": "hash",
            "forced": False,
            "config": CONFIG,
            "params": [KNOB],
        }
    ]


@pytest.mark.parametrize("format", FORMATS)
def test_forced_buckets_are_marked_whatever_the_unit(tmp_path: Path, format: Format) -> None:
    log = log_at(tmp_path, format)
    for unit in ("u1", None):
        forced = assigned(unit, {"re_rank": "exp_mmr@1/diverse"})
        log.record(forced, READ, "r", "home", NOW, CONFIG)
    log.close()
    names = ("unit", "bucket", "reason", "forced")
    assert [tuple(row[name] for name in names) for row in rows(tmp_path, format)] == [
        ("u1", "diverse", "forced", True),
        (None, "diverse", "forced", True),
    ]
    assert [row["layer_slot"] is None for row in rows(tmp_path, format)] == [False, True]


@pytest.mark.parametrize("format", FORMATS)
def test_the_unit_of_a_time_slice_experiment_is_the_slice(tmp_path: Path, format: Format) -> None:
    log = log_at(tmp_path, format)
    for hours in range(3):
        log.record(sliced(NOW + 3600 * hours), READ, "r", "home", NOW, CONFIG)
    log.close()
    first = int(NOW // 3600)
    found = [(row["unit_type"], row["unit"]) for row in rows(tmp_path, format)]
    assert found == [("slice", str(first + hours)) for hours in range(3)]


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


def test_a_disk_that_refuses_costs_its_rows_and_counts_them(tmp_path: Path) -> None:
    folder = tmp_path / "var"
    folder.write_text("in the way")
    log = log_at(folder)
    record(log, "lost")
    record(log, "lost too")
    log.flush()
    assert (len(log), log.dropped) == (2, 0)
    log = log_at(folder, rotate_rows=2)
    record(log, "lost")
    record(log, "lost too")
    log.flush()
    assert (len(log), log.written, log.dropped) == (0, 0, 2)
    folder.unlink()
    record(log, "kept")
    log.close()
    assert (log.written, log.dropped, requests(folder)) == (1, 2, ["kept"])


def test_a_failed_write_leaves_nothing_behind(tmp_path: Path) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no /dev/full here")
    (tmp_path / ".exposures.w0.parquet.part").symlink_to(full)
    log = log_at(tmp_path)
    record(log, "lost")
    log.close()
    assert (log.written, log.dropped, list(tmp_path.iterdir())) == (0, 1, [])


def test_an_id_that_utf8_cannot_hold_is_spelled_out(tmp_path: Path) -> None:
    log = log_at(tmp_path)
    record(log, "bad\ud800")
    record(log, "good")
    log.close()
    assert requests(tmp_path) == ["bad\\ud800", "good"]


def test_formats_and_sizes_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="jsonl or parquet, not csv"):
        ExposureLog(tmp_path / "exposures.csv", 10, Clock(), format="csv")  # type: ignore[arg-type]  # what's tested
    with pytest.raises(ValueError, match="room for a row"):
        log_at(tmp_path, rotate_rows=0)


def test_json_lines_import_neither_arrow_nor_open_feature() -> None:
    code = """
import sys
from pathlib import Path
from abtest import ExposureLog
ExposureLog(Path("never.jsonl"), 1, lambda: 0.0).close()
print([name for name in ("pyarrow", "openfeature") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
