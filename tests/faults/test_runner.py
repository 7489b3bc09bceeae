"""How scenarios are run, repeated and reported, with scenarios that take no time."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from app.cli import main
from app.faults.errors import CantPlay, Late
from app.faults.judge import window
from app.faults.place import Place
from app.faults.report import HEADER, details, is_window, rows
from app.faults.runner import Options, Report, run_all
from app.faults.scenario import Kit, Scenario, Verdict
from app.faults.scenarios import ORDER, scenarios
from tests.faults.series import STARTED, every, run

Play = Callable[[Kit], Verdict]


def played(play: Play, tmp_path: Path, said: list[str] | None = None) -> Report:
    async def work(kit: Kit) -> Verdict:
        return play(kit)

    options = Options(
        Place(tmp_path / "configs", tmp_path / "var"), tmp_path, True, lambda _, text: (said or []).append(text)
    )
    [report] = run_all([Scenario("some", "fault", "must", (2.0, 1.0), work)], options)
    return report


def verdict(*broken: str) -> Verdict:
    made = Verdict()
    made.window("steady", window(run(every(0.1, 5.0)), STARTED, STARTED + 5.0))
    made.note("recovery_s", 0.5)
    for words in broken:
        made.must(False, words)
    return made


def test_what_holds_and_what_does_not(tmp_path: Path) -> None:
    assert played(lambda _: verdict(), tmp_path).holds is True
    report = played(lambda _: verdict("p99 200 ms within 130 ms"), tmp_path)
    assert report.holds is False
    assert report.document()["broken"] == ["p99 200 ms within 130 ms"]
    assert report.document()["figures"]["recovery_s"] == 0.5


def test_a_run_whose_generator_was_late_is_repeated_once(tmp_path: Path) -> None:
    tries: list[Path] = []

    def play(kit: Kit) -> Verdict:
        tries.append(kit.folder)
        if len(tries) == 1:
            raise Late("30 ms")
        return verdict()

    said: list[str] = ["begin"]
    assert played(play, tmp_path, said).holds is True
    assert len(set(tries)) == 2
    assert said[1:] == ["late: 30 ms; once more"]


def test_a_run_that_is_late_twice_is_discarded_and_does_not_hold(tmp_path: Path) -> None:
    def play(_: Kit) -> Verdict:
        raise Late("30 ms")

    report = played(play, tmp_path)
    assert report.holds is None
    document = report.document()
    assert (document["holds"], document["discarded"]) == (False, True)
    assert document["figures"]["discarded"] == "late: 30 ms"


def test_a_scenario_that_can_not_be_played_does_not_hold(tmp_path: Path) -> None:
    def play(_: Kit) -> Verdict:
        raise CantPlay("there is no scene")

    report = played(play, tmp_path)
    assert (report.holds, report.broken) == (False, ("CantPlay: there is no scene",))


def test_a_bug_of_the_kit_is_no_verdict(tmp_path: Path) -> None:
    def play(_: Kit) -> Verdict:
        raise KeyError("bug")

    with pytest.raises(KeyError):
        played(play, tmp_path)


def test_scratch_and_cores_are_given_back(tmp_path: Path) -> None:
    before = os.sched_getaffinity(0)
    seen: list[Kit] = []

    def play(kit: Kit) -> Verdict:
        seen.append(kit)
        (kit.folder / "store").mkdir()
        return verdict()

    played(play, tmp_path)
    assert os.sched_getaffinity(0) == before
    assert not seen[0].folder.exists()
    assert seen[0].spare == {max(before)}
    assert seen[0].cores == (before - seen[0].spare or seen[0].spare)


def test_the_table_has_a_row_for_each_window() -> None:
    figures = verdict().figures | {"fault": {"n": 3, "availability": 1.0, "full": 0.5, "p50": 1.0, "p99": None}}
    reports = [Report("one", True, 1.0, figures), Report("two", None, 2.0, {"discarded": "late"})]
    lines = rows(reports)
    assert [line[:4] for line in lines] == [
        ("one", "yes", "steady", "50"),
        ("", "", "fault", "3"),
        ("two", "discarded", "", ""),
    ]
    assert {len(line) for line in lines} == {len(HEADER)}
    assert lines[1][5:8] == ("50.00%", "1.0", "")


def test_details_have_the_other_figures_and_what_is_broken() -> None:
    figures = {**verdict().figures, "reasons": {"rank.model: timeout": 3}}
    lines = details([Report("one", False, 1.0, figures, ("no error: {'500': 3}",))])
    assert lines[0] == "one: recovery_s 0.5, reasons {rank.model: timeout: 3}, in 1 s"
    assert lines[1] == "  does not hold: no error: {'500': 3}"
    assert not is_window(figures["reasons"])


def test_every_scenario_says_what_it_breaks_and_what_must_hold() -> None:
    found = scenarios()
    assert list(found) == list(ORDER)
    for name, scenario in found.items():
        assert scenario.name == name
        assert scenario.fault
        assert scenario.must
        assert scenario.seconds[0] >= scenario.seconds[1] > 0


def test_the_verb_lists_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["faults", "--list", "--json"]) == 0
    assert [one["name"] for one in json.loads(capsys.readouterr().out)["scenarios"]] == list(ORDER)
    assert main(["faults", "soak", "--list"]) == 0
    assert capsys.readouterr().out.startswith("soak  (about ")


def test_an_unknown_scenario_is_refused_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["faults", "earthquake"]) == 1
    assert "'earthquake'. There are: store_slow_then_black_hole" in capsys.readouterr().err
