"""What a log of exposures does in either format: who is recorded with what, and what is dropped and counted."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from abtest import Assignment
from tests.abtest.documents import KNOB, KNOB_K, NOW
from tests.abtest_edge.logs import CONFIG, FORMATS, READ, Format, assigned, log_at, record, requests, rows, sliced


@pytest.mark.parametrize("format", FORMATS)
def test_a_record_has_every_field_and_both_formats_the_same(tmp_path: Path, format: Format) -> None:
    folder = tmp_path / "made" / "here"
    log = log_at(folder, format)
    assignment = assigned("用户\0")
    record(log, "r\0💰", assignment, now=NOW + 0.25)
    log.close()
    assert (log.written, log.dropped, len(log)) == (1, 0, 0)
    decision = assignment.decisions[1]
    assert decision.bucket is not None
    assert rows(folder, format) == [
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
def test_controls_and_testers_are_recorded_as_all_others(tmp_path: Path, format: Format) -> None:
    log = log_at(tmp_path, format)
    for user in range(40):
        record(log, f"{user:02}", assigned(user, whitelist={"diverse": [7]}))
    log.close()
    found = rows(tmp_path, format)
    assert len(found) == 40
    assert {row["bucket"] for row in found} == {"control", "diverse"}
    assert [row["unit"] for row in found if row["reason"] == "whitelist"] == ["7"]


@pytest.mark.parametrize("format", FORMATS)
def test_forced_buckets_are_marked_whatever_the_unit(tmp_path: Path, format: Format) -> None:
    log = log_at(tmp_path, format)
    for unit in ("u1", None):
        record(log, "r", assigned(unit, {"re_rank": "exp_mmr@1/diverse"}))
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
        record(log, "r", sliced(NOW + 3600 * hours))
    log.close()
    first = int(NOW // 3600)
    found = [(row["unit_type"], row["unit"]) for row in rows(tmp_path, format)]
    assert found == [("slice", str(first + hours)) for hours in range(3)]


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    ("assignment", "read"),
    [
        (assigned(), frozenset({KNOB_K})),
        (assigned(), frozenset()),
        (assigned(None), READ),
        (assigned(status="paused"), READ),
        (assigned(slots=[]), READ),
        (assigned(when="context.hour > 3"), READ),
    ],
)
def test_unread_parameters_and_the_defaults_are_no_exposure(
    tmp_path: Path, format: Format, assignment: Assignment, read: frozenset[str]
) -> None:
    log = log_at(tmp_path, format)
    record(log, "r1", assignment, read)
    assert len(log) == 0
    log.close()
    assert (log.written, log.dropped, rows(tmp_path, format)) == (0, 0, [])


@pytest.mark.parametrize("format", FORMATS)
def test_a_full_queue_drops_the_newest_and_counts(tmp_path: Path, format: Format) -> None:
    log = log_at(tmp_path, format, capacity=3)
    for number in range(5):
        record(log, str(number))
    assert (len(log), log.dropped) == (3, 2)
    log.close()
    assert requests(tmp_path, format) == ["0", "1", "2"]
    record(log)
    assert (log.written, log.dropped) == (3, 3)


@pytest.mark.parametrize(
    ("format", "place", "block"),
    [
        ("jsonl", "var", Path.touch),
        ("jsonl", "var/exposures.w0.jsonl", lambda path: path.mkdir(parents=True)),
        ("parquet", "var", Path.touch),
    ],
)
def test_a_disk_that_refuses_costs_its_rows_counts_them_and_is_tried_again(
    tmp_path: Path, format: Format, place: str, block: Callable[[Path], None]
) -> None:
    folder, obstacle = tmp_path / "var", tmp_path / place
    block(obstacle)
    log = log_at(folder, format, rotate_rows=2)
    record(log, "lost")
    record(log, "lost too")
    log.flush()
    assert (len(log), log.written, log.dropped) == (0, 0, 2)
    obstacle.rename(tmp_path / "out of the way")
    record(log, "kept")
    log.close()
    assert (log.written, log.dropped, requests(folder, format)) == (1, 2, ["kept"])


@pytest.mark.parametrize(
    ("format", "written_to", "left"),
    [("jsonl", "exposures.w0.jsonl", ["exposures.w0.jsonl"]), ("parquet", ".exposures.w0.parquet.part", [])],
)
def test_a_full_disk_is_counted_and_leaves_no_part_behind(
    tmp_path: Path, format: Format, written_to: str, left: list[str]
) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no /dev/full here")
    (tmp_path / written_to).symlink_to(full)
    log = log_at(tmp_path, format)
    record(log, "lost")
    log.close()
    assert (log.written, log.dropped, [file.name for file in tmp_path.iterdir()]) == (0, 1, left)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"format": "csv"}, "jsonl or parquet, not csv"),
        ({"format": "jsonl", "capacity": 0}, "room for a record"),
        ({"format": "parquet", "capacity": 0}, "room for a record"),
        ({"format": "parquet", "rotate_rows": 0}, "room for a row"),
    ],
)
def test_formats_and_sizes_that_make_no_sense_are_refused(
    tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        log_at(tmp_path, **settings)
