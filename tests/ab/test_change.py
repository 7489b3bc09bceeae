"""start, ramp and stop: the file as a person would have edited it, checked, or as it was."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.ab.edit import Range
from app.ab.slots import grown, shrunk, size
from app.config.load import load_config
from tests.ab.cli import Cli
from tests.config.support import ABTEST, example

NOW = "2026-11-30T10:00:00Z"
DRAFT = (
    ABTEST,
    "exp_mmr@1: {owner: ranking, status: running, slots: [[0, 2000]],",
    "exp_mmr@1: {owner: ranking,  # why\n                      status: draft, slots: [],",
)


def text(folder: Path) -> str:
    return (folder / ABTEST).read_text(encoding="utf-8")


def test_from_draft_to_end_by_commands_alone(tmp_path: Path, ab: Cli) -> None:
    folder = example(tmp_path, DRAFT)
    written = text(folder)
    common = ("exp_mmr", "--config", folder, "--now", NOW)
    assert ab("start", *common, "--share", "10%") == 0
    assert "exp_mmr@1: draft -> running, 10.00% of the units ([0, 1000))." in ab.said
    assert text(folder) == written.replace("draft, slots: []", "running, slots: [[0, 1000]]")
    assert ab("ramp", *common, "--share", "50%") == 0
    assert text(folder) == written.replace("draft, slots: []", "running, slots: [[0, 5000]]")
    assert ab("stop", *common) == 0
    ended = 'ended, end: "2026-11-30T10:00:00+00:00", slots: [[0, 5000]]'
    assert text(folder) == written.replace("draft, slots: []", ended)
    load_config(folder, env={})


def test_a_dry_run_shows_the_change_and_writes_nothing(tmp_path: Path, ab: Cli) -> None:
    folder = example(tmp_path)
    before = text(folder)
    status, said = ab.json("ramp", "exp_mmr@1", "--share", "30%", "--config", folder, "--dry-run")
    assert (status, said["slots"], said["share"], said["written"]) == (0, [[0, 3000]], 0.3, False)
    assert "+          exp_mmr@1: {owner: ranking, status: running, slots: [[0, 3000]]" in said["diff"]
    assert text(folder) == before


def test_shrinking_wants_a_flag_and_is_remembered(tmp_path: Path, ab: Cli) -> None:
    folder = example(tmp_path)
    before = text(folder)
    call = ("ramp", "exp_mmr@1", "--share", "5%", "--config", folder, "--now", NOW)
    assert ab(*call) == 1
    assert ab.told == (
        "exp_mmr@1 runs on 20%: 5% would take users out of their buckets, and with them what they did. "
        "If that is meant, add --shrink.\n"
    )
    assert text(folder) == before
    assert ab(*call, "--shrink") == 0
    assert 'freed: {"2026-11-30T10:00:00+00:00": [[500, 2000]]}, slots: [[0, 500]]' in text(folder)
    assert "Warning: exp_mmr@1 gives up [500, 2000)" in ab.said
    assert (
        ab("ramp", "exp_mmr@1", "--share", "4%", "--config", folder, "--now", "2026-12-01T10:00:00Z", "--shrink") == 0
    )
    assert '[[500, 2000]], "2026-12-01T10:00:00+00:00": [[400, 500]]}' in text(folder)
    assert (  # the times are keys: a second one within a second gets the next second
        ab("ramp", "exp_mmr@1", "--share", "3%", "--config", folder, "--now", "2026-12-01T10:00:00Z", "--shrink") == 0
    )
    assert '"2026-12-01T10:00:01+00:00": [[300, 400]]}' in text(folder)


def beside(slots: str) -> tuple[str, str, str]:
    """An edit that puts the draft `next@1` beside the example's experiment."""
    buckets = "{a: {weight: 10000, control: true, set: {re_rank.relevance: 0.9}}}"
    draft = f"{{owner: x, status: draft, slots: {slots}, buckets: {buckets}}}"
    return ABTEST, "        experiments:\n", f"        experiments:\n          next@1: {draft}\n"


def test_slots_that_were_freed_lately_are_taken_last_and_warned_of(tmp_path: Path, ab: Cli) -> None:
    folder = example(tmp_path, beside("[]"))
    assert ab("stop", "exp_mmr", "--config", folder, "--now", NOW) == 0
    call = ("next", "--config", folder, "--now", "2026-12-02T00:00:00Z")
    assert ab("start", *call, "--share", "70%") == 0
    assert "slots: [[2000, 9000]]" in text(folder)
    assert "Warning" not in ab.said
    assert ab("ramp", *call, "--share", "85%") == 0
    assert "Warning: next@1 takes [0, 500), which exp_mmr@1 gave up on 2026-11-30, under 14 days ago." in ab.said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("start", "exp_mmr"), "exp_mmr@1 is running. Expected a draft"),
        (("ramp", "exp_mmr", "--share", "20%"), "exp_mmr@1 has 20% already."),
        (("stop", "exp_mm"), "There is no experiment 'exp_mm'. Did you mean 'exp_mmr'?"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, ab: Cli, words: tuple[str, ...], said: str) -> None:
    folder = example(tmp_path)
    before = text(folder)
    assert ab(*words, "--config", folder) == 1
    assert ab.told.startswith(said)
    assert text(folder) == before


def test_more_than_is_free_is_refused(tmp_path: Path, ab: Cli) -> None:
    folder = example(tmp_path, beside("[[5000, 9000]]"))
    status, said = ab.json("ramp", "exp_mmr", "--share", "80%", "--config", folder)
    assert status == 1
    assert said["errors"][0].startswith("exp_mmr@1 can't have 80%: 6000 slots are wanted and 4000 are free")


def test_a_configuration_with_a_problem_is_not_edited(tmp_path: Path, ab: Cli) -> None:
    folder = example(tmp_path, ("scenes/home.yaml", "120ms", "120"))
    assert ab("stop", "exp_mmr", "--config", folder) == 1
    assert "scenes/home.yaml:3 budget: Got 120." in ab.told
    assert "status: running" in text(folder)


def test_a_byte_order_mark_line_ends_and_a_link_stay(tmp_path: Path, ab: Cli) -> None:
    folder = example(tmp_path)
    path = folder / ABTEST
    data = b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n")
    (tmp_path / "real.yaml").write_bytes(data)
    path.unlink()
    path.symlink_to(tmp_path / "real.yaml")
    assert ab("ramp", "exp_mmr", "--share", "25%", "--config", folder) == 0
    assert path.is_symlink()
    assert path.read_bytes() == data.replace(b"[[0, 2000]]", b"[[0, 2500]]")


RANGES = st.lists(st.integers(0, 400), min_size=2, max_size=8, unique=True).map(
    lambda ends: list(zip(sorted(ends)[::2], sorted(ends)[1::2], strict=False))
)


@given(RANGES, st.data())
def test_growing_and_shrinking_keep_every_slot_that_can_stay(ranges: list[Range], data: st.DataObject) -> None:
    mine, free = ranges[::2], ranges[1::2]
    mine = data.draw(st.permutations(mine))
    bigger = grown(mine, free)
    assert slots(bigger.all) == slots(mine) | slots(free)
    assert size(bigger.all) == size(mine) + size(free)
    count = data.draw(st.integers(1, size(mine)))
    smaller = shrunk(mine, count)
    assert size(smaller.all) == count
    assert slots(smaller.all) == set(sorted(slots(mine))[:count])
    assert slots(smaller.freed) == slots(mine) - slots(smaller.all)


def slots(ranges: Sequence[Range]) -> set[int]:
    return {slot for low, high in ranges for slot in range(low, high)}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file away")
def test_a_file_keeps_its_owner(tmp_path: Path, ab: Cli) -> None:
    folder = example(tmp_path)
    os.chown(folder / ABTEST, 1234, 2345)
    assert ab("stop", "exp_mmr@1", "--config", folder, "--now", NOW) == 0
    status = (folder / ABTEST).stat()
    assert (status.st_uid, status.st_gid) == (1234, 2345)


@pytest.mark.parametrize("now", ["1e14", "-5", "1969-12-31T23:59:59Z"])
def test_a_time_that_no_file_can_hold_is_refused(
    tmp_path: Path, ab: Cli, capsys: pytest.CaptureFixture[str], now: str
) -> None:
    with pytest.raises(SystemExit):
        ab("stop", "exp_mmr@1", "--config", example(tmp_path), f"--now={now}")
    assert "is out of range. Expected a time from 1970 to 9998." in capsys.readouterr().err


def test_an_exclusive_experiment_gets_slots_of_its_domain(tmp_path: Path, ab: Cli) -> None:
    domains = "domains: {shared: {slots: [[0, 8000]]}, alone: {slots: [[8000, 10000]], exclusive: true}}"
    folder = example(
        tmp_path,
        (ABTEST, "    holdout: {slots", f"    {domains}\n    holdout: {{slots"),
        (ABTEST, "status: running, slots: [[0, 2000]]", "status: draft, slots: [], domain: alone"),
    )
    assert ab("start", "exp_mmr", "--config", folder, "--share", "50%") == 0
    assert "50.00% of the units of the domain alone ([0, 5000))." in ab.said
