"""Exposures as lines of JSON: a file that is appended to, and set aside when it is large."""

import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from abtest import ExposureLog
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
ExposureLog(Path("never.jsonl"), 1, lambda: 0.0).close()
print([name for name in ("pyarrow", "openfeature") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
