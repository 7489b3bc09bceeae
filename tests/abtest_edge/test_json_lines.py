"""Exposures as lines of JSON: a file that is appended to, and set aside when it is large."""

import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from abtest import ExposureLog
from abtest.rotation import RotatingFile
from tests.abtest_edge.logs import Clock, assigned, log_at, record, requests


def test_the_thread_writes_when_the_queue_is_half_full_and_close_writes_the_rest(tmp_path: Path) -> None:
    written = threading.Event()

    class Told(ExposureLog):
        def flush(self) -> None:
            super().flush()
            if self.written:
                written.set()

    log = Told(tmp_path / "exposures.w0.jsonl", 8, Clock(), interval=3600.0)
    log.start()
    for number in range(5):
        record(log, str(number))
    assert written.wait(10)
    record(log, "9")
    log.close()
    assert (log.written, log.dropped, len(requests(tmp_path, "jsonl"))) == (6, 0, 6)
    assert not [thread for thread in threading.enumerate() if thread.name == "exposures"]
    with pytest.raises(RuntimeError):
        log.start()


def test_the_file_is_set_aside_by_size_and_only_the_newest_stay(tmp_path: Path) -> None:
    log = log_at(tmp_path, "jsonl", rotate_bytes=1000, keep=2)
    for number in range(30):
        record(log, f"{number:02}", assigned("u"))
        log.flush()
    log.close()
    aside = sorted(file.name for file in tmp_path.iterdir())
    assert len(aside) == 3
    assert aside[-1] == "exposures.w0.jsonl"
    assert aside[0].startswith("exposures.w0.20260202T024000Z.0000")
    assert all(file.stat().st_size < 1400 for file in tmp_path.iterdir())
    kept = requests(tmp_path, "jsonl")
    assert kept == [f"{number:02}" for number in range(30 - len(kept), 30)]
    assert log.written == 30


def test_a_line_that_was_cut_off_is_ended_before_the_next(tmp_path: Path) -> None:
    file = tmp_path / "exposures.w0.jsonl"
    file.write_bytes(b'{"time": 1')
    log = log_at(tmp_path, "jsonl")
    record(log, "r1")
    log.close()
    broken, whole = file.read_bytes().splitlines()
    assert broken == b'{"time": 1'
    assert json.loads(whole)["request_id"] == "r1"


def test_json_lines_import_neither_arrow_nor_open_feature() -> None:
    code = """
import sys
from pathlib import Path
from abtest import ExposureLog
from abtest.rotation import RotatingFile
ExposureLog(Path("never.jsonl"), 1, lambda: 0.0).close()
print([name for name in ("pyarrow", "openfeature") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_file_that_was_deleted_or_moved_is_made_again(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    file = folder / "exposures.w0.jsonl"
    log = log_at(folder, "jsonl")

    def write(request: str) -> list[str]:
        record(log, request)
        log.flush()
        return requests(folder, "jsonl")

    assert write("r1") == ["r1"]
    file.unlink()
    assert write("r2") == ["r2"]
    file.rename(tmp_path / "moved.jsonl")
    assert write("r3") == ["r3"]
    file.unlink()
    file.write_text("")
    assert write("r4") == ["r4"]
    file.unlink()
    folder.rmdir()
    assert write("r5") == ["r5"]
    log.close()
    assert (log.written, log.dropped) == (5, 0)


def test_a_file_that_is_deleted_when_it_should_be_set_aside_is_no_loss(tmp_path: Path) -> None:
    file = tmp_path / "exposures.w0.jsonl"

    class DeletedMeanwhile(Clock):
        """The shelf asks for the time just before it takes the file."""

        deletes = True

        def __call__(self) -> float:
            if self.deletes:
                file.unlink(missing_ok=True)
            return super().__call__()

    clock = DeletedMeanwhile()
    written = RotatingFile(file, clock, rotate_bytes=10, keep=2)
    written.write(["0123456789\n", "after\n"])
    assert file.read_text() == "after\n"
    clock.deletes = False
    written.write(["0123456789\n", "more\n"])
    written.close()
    assert [path.name for path in tmp_path.iterdir() if path != file] == ["exposures.w0.20260202T024000Z.000001.jsonl"]
