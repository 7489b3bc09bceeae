"""The files of a log: the same one twice is read once, and what was rotated away is noticed."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.ab.exposures import read_exposures
from app.ab.files import exposure_files, gone
from tests.ab.logs import NOON, record, written

ROWS = [record(f"u{number}", "control", NOON + number) for number in range(50)]


def aside(folder: Path, number: int, stem: str = "exposures.w0", moment: str = "20261118T120000Z") -> Path:
    return written(folder / f"{stem}.{moment}.{number:06}.jsonl", [record(f"{folder.name}-{stem}-{number}", "control")])


def test_a_log_under_two_spellings_is_read_once(tmp_path: Path) -> None:
    path = written(tmp_path / "e.jsonl", ROWS)
    (tmp_path / "sub").mkdir()
    spelled = tmp_path / "sub" / ".." / "e.jsonl"
    link = tmp_path / "link.jsonl"
    link.symlink_to(path)
    log = read_exposures(exposure_files([path, spelled, link]))
    assert (log.records, log.files) == (50, [path])
    assert log.twice == {spelled: path, link: path}


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_log_and_its_packed_copy_are_read_once(tmp_path: Path, elsewhere: bool) -> None:
    path = written(tmp_path / "exposures.w0.jsonl", ROWS)
    packed = (tmp_path / "archive" if elsewhere else tmp_path) / "exposures.w0.jsonl.gz"
    packed.parent.mkdir(exist_ok=True)
    packed.write_bytes(gzip.compress(path.read_bytes()))
    for order in ([path, packed], [packed, path]):
        log = read_exposures(order)
        assert (log.records, log.files, log.twice) == (50, [path], {packed: path})


def test_an_older_copy_of_a_log_gives_way_to_it(tmp_path: Path) -> None:
    short, whole = written(tmp_path / "a.jsonl", ROWS[:20]), written(tmp_path / "b.jsonl", ROWS)
    for order in ([short, whole], [whole, short]):
        log = read_exposures(order)
        assert (log.records, log.files) == (50, [whole])


def test_copies_of_parquet_are_the_same_and_other_files_arent(tmp_path: Path) -> None:
    path = tmp_path / "exposures.w0.parquet"
    pq.write_table(pa.Table.from_pylist(ROWS), path)
    shutil.copy(path, tmp_path / "exposures.w1.parquet")
    pq.write_table(pa.Table.from_pylist([record("u", "control"), *ROWS]), tmp_path / "exposures.w2.parquet")
    empty = written(tmp_path / "empty.jsonl", [])
    log = read_exposures([*exposure_files([tmp_path]), empty, written(tmp_path / "other.jsonl", [])])
    assert (log.records, len(log.files), len(log.twice)) == (101, 4, 1)


def test_what_was_rotated_away_is_noticed_for_each_worker(tmp_path: Path) -> None:
    written(tmp_path / "exposures.w0.jsonl", ROWS)
    for number in (3, 4, 6):
        aside(tmp_path, number)
    for number in (1, 2):
        aside(tmp_path, number, "exposures.w1")
    (tmp_path / "exposures.w2.20261118T120000Z.000002.parquet").touch()
    found = gone(exposure_files([tmp_path]))
    assert [str(one) for one in found] == ["exposures.w0, files 1 to 2, 5", "exposures.w2, file 1"]
    assert found[0].count == 3


def test_files_that_were_moved_to_an_archive_are_there(tmp_path: Path) -> None:
    here, archive = tmp_path / "var", tmp_path / "archive"
    kept = [aside(archive, 1), aside(archive, 2), aside(here, 3)]
    assert gone(kept) == []
    assert [str(one) for one in gone(kept[2:])] == ["exposures.w0, files 1 to 2"]


def test_machines_of_the_same_names_are_apart(tmp_path: Path) -> None:
    files = [aside(tmp_path / "a", number) for number in (1, 2)]
    files += [aside(tmp_path / "b", number, moment="20261119T080000Z") for number in (2, 3)]
    assert [str(one) for one in gone(files)] == [f"{tmp_path / 'b' / 'exposures.w0'}, file 1"]


def test_the_file_that_is_being_written_misses_those_beside_it(tmp_path: Path) -> None:
    live = written(tmp_path / "exposures.w0.jsonl", ROWS)
    first = aside(tmp_path, 1)
    assert [str(one) for one in gone([live])] == ["exposures.w0, file 1"]
    assert gone([live, first]) == []
    assert gone([first]) == []
