import json
import threading
from pathlib import Path
from typing import Any

import pytest

from abtest import Assignment, ExposureLog
from tests.abtest.documents import KNOB, NOW, compiled, document, experiment

PARAMS = frozenset({KNOB, "recall.vector_k"})


def assigned(unit: Any = "用户\0", **changes: Any) -> Assignment:
    entry = experiment(**({"slots": [[0, 10000]]} | changes))
    return compiled(document(exp_mmr_1=entry)).assign("home", {"user_id": unit}, {}, NOW)


def log_at(folder: Path, **settings: Any) -> ExposureLog:
    capacity = settings.pop("capacity", 1000)
    return ExposureLog(folder / "exposures.jsonl", capacity, lambda: NOW, **settings)


def record(log: ExposureLog, assignment: Assignment, request_id: str = "r1", read: Any = PARAMS) -> None:
    log.record(assignment, read, request_id, "home", NOW, "9f2c01ab34de")


def lines(folder: Path) -> list[dict[str, Any]]:
    found = [json.loads(line) for file in sorted(folder.glob("*.jsonl")) for line in file.read_text().splitlines()]
    return sorted(found, key=lambda line: str(line["request_id"]))


def test_a_record_has_every_field(tmp_path: Path) -> None:
    log = log_at(tmp_path / "made" / "here")
    assignment = assigned()
    record(log, assignment)
    log.close()
    decision = assignment.decisions[1]
    assert decision.bucket is not None
    assert lines(tmp_path / "made" / "here") == [
        {
            "time": NOW,
            "request_id": "r1",
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
            "config": "9f2c01ab34de",
            "params": [KNOB],
        }
    ]


def test_controls_and_testers_are_recorded_as_all_others(tmp_path: Path) -> None:
    log = log_at(tmp_path)
    for user in range(40):
        record(log, assigned(user, whitelist={"diverse": [7]}), f"{user:02}")
    log.close()
    found = lines(tmp_path)
    assert len(found) == 40
    assert {line["bucket"] for line in found} == {"control", "diverse"}
    assert [line["unit"] for line in found if line["reason"] == "whitelist"] == ["7"]


@pytest.mark.parametrize(
    ("assignment", "read"),
    [
        (assigned(), frozenset({"recall.vector_k"})),
        (assigned(), frozenset()),
        (assigned(None), PARAMS),
        (assigned(status="paused"), PARAMS),
        (assigned(slots=[]), PARAMS),
        (assigned(when="context.hour > 3"), PARAMS),
    ],
)
def test_unread_parameters_and_the_defaults_are_no_exposure(tmp_path: Path, assignment: Assignment, read: Any) -> None:
    log = log_at(tmp_path)
    record(log, assignment, read=read)
    assert len(log) == 0
    log.close()
    assert (log.written, log.dropped, lines(tmp_path)) == (0, 0, [])


def test_a_full_queue_drops_the_newest_and_counts(tmp_path: Path) -> None:
    log = log_at(tmp_path, capacity=3)
    for number in range(5):
        record(log, assigned(), str(number))
    assert (len(log), log.dropped) == (3, 2)
    log.close()
    assert [line["request_id"] for line in lines(tmp_path)] == ["0", "1", "2"]
    record(log, assigned())
    assert (log.written, log.dropped) == (3, 3)


def test_the_thread_writes_when_the_queue_is_half_full_and_close_writes_the_rest(tmp_path: Path) -> None:
    written = threading.Event()

    class Told(ExposureLog):
        def flush(self) -> None:
            super().flush()
            if self.written:
                written.set()

    log = Told(tmp_path / "exposures.jsonl", 8, lambda: NOW, interval=3600.0)
    log.start()
    assignment = assigned()
    for number in range(5):
        record(log, assignment, str(number))
    assert written.wait(10)
    record(log, assignment, "9")
    log.close()
    assert (log.written, log.dropped, len(lines(tmp_path))) == (6, 0, 6)
    assert not [thread for thread in threading.enumerate() if thread.name == "exposures"]
    with pytest.raises(RuntimeError):
        log.start()


def test_the_file_is_set_aside_by_size_and_only_the_newest_stay(tmp_path: Path) -> None:
    log = log_at(tmp_path, rotate_bytes=1000, keep=2)
    for number in range(30):
        record(log, assigned("u"), f"{number:02}")
        log.flush()
    log.close()
    aside = sorted(file.name for file in tmp_path.iterdir())
    assert len(aside) == 3
    assert aside[-1] == "exposures.jsonl"
    assert aside[0].startswith("exposures.20260202T024000Z.0000")
    assert all(file.stat().st_size < 1400 for file in tmp_path.iterdir())
    kept = [line["request_id"] for line in lines(tmp_path)]
    assert kept == [f"{number:02}" for number in range(30 - len(kept), 30)]
    assert log.written == 30


def test_a_line_that_was_cut_off_is_ended_before_the_next(tmp_path: Path) -> None:
    (tmp_path / "exposures.jsonl").write_bytes(b'{"time": 1')
    log = log_at(tmp_path)
    record(log, assigned())
    log.close()
    broken, whole = (tmp_path / "exposures.jsonl").read_bytes().splitlines()
    assert broken == b'{"time": 1'
    assert json.loads(whole)["request_id"] == "r1"


def test_a_disk_that_refuses_is_counted_and_tried_again(tmp_path: Path) -> None:
    target = tmp_path / "exposures.jsonl"
    target.mkdir()
    log = log_at(tmp_path)
    record(log, assigned(), "lost")
    log.flush()
    assert (log.written, log.dropped) == (0, 1)
    target.rmdir()
    record(log, assigned(), "kept")
    log.close()
    assert (log.written, log.dropped) == (1, 1)
    assert [line["request_id"] for line in lines(tmp_path)] == ["kept"]


def test_a_full_disk_is_counted(tmp_path: Path) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no /dev/full here")
    (tmp_path / "exposures.jsonl").symlink_to(full)
    log = log_at(tmp_path)
    record(log, assigned())
    log.close()
    assert (log.written, log.dropped) == (0, 1)


def test_capacity_is_positive(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="room for a record"):
        log_at(tmp_path, capacity=0)
