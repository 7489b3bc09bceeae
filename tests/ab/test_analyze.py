"""`recserve ab analyze`, and `srm`: what is read, what of it counts, and that everything else is said."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.ab.everybody import metrics_of_everybody
from app.ab.metrics import formulas
from tests.ab.cli import Cli
from tests.ab.logs import NOON, event, halves, record, study, written
from tests.config.support import ABTEST, EXAMPLE, example

CONFIG = ("--config", EXAMPLE)
CLICKS = ("--metric", "clicks=click")
DAY = 86_400
ROWS = [record(unit, bucket) for unit, bucket in halves(100)]
HOUR = int(NOON // 3_600)


def files(folder: Path, exposures: Sequence[Any], events: Sequence[Any]) -> tuple[Any, ...]:
    log, done = written(folder / "e.jsonl", exposures), written(folder / "events.jsonl", events)
    return "--exposures", log, "--events", done, *CONFIG


def clicks(users: int = 100, at: float = NOON + 60.5) -> list[dict[str, Any]]:
    return [event(f"u{number}", "click", at + more) for number in range(users) for more in range(number // 2 % 5 + 1)]


def slices(folder: Path, late: float = 1.0, more: Sequence[Any] = ()) -> tuple[Any, ...]:
    """200 slices of an hour, the first exposure of each `late` seconds into it, with an event in each minute."""
    edited = folder / "configs"
    if not edited.exists():
        example(folder, (ABTEST, "slots: [[0, 2000]],", "slots: [[0, 2000]], slices: {every: 1h},"))
    exposures, events = list(more), []
    for number in range(HOUR, HOUR + 200):
        bucket = ("control", "diverse")[number % 2]
        exposures.append(record(str(number), bucket, number * 3_600 + late, unit_type="slice"))
        extra = number // 2 % 7
        events += [event(f"u{number}", "click", number * 3_600 + 60.5 * minute) for minute in range(59 - extra)]
    return (*files(folder, exposures, events)[:4], "--config", edited)


def test_all_events_of_a_time_slice_count(tmp_path: Path, ab: Cli) -> None:
    found = [ab.json("analyze", "exp_mmr", *slices(tmp_path, late), *CLICKS)[1] for late in (1.0, 1_800.0)]
    for said in found:
        assert (said["unit_type"], said["left_out"]["partial"]) == ("slice", 2)
        assert said["comparisons"][0]["control"]["units"] == 99
        assert 55 < said["comparisons"][0]["control"]["value"] < 57
        assert (said["events"]["before_exposure"], said["events"]["after_window"]) == (0, 0)
    assert found[0]["comparisons"] == found[1]["comparisons"]
    assert ab("analyze", "exp_mmr", *slices(tmp_path), *CLICKS) == 0
    assert "Units left out: 2 time slices that aren't whole in the data." in ab.said


def test_one_whitelisted_request_doesnt_stop_a_time_slice_experiment(tmp_path: Path, ab: Cli) -> None:
    chosen = [record("tester", "diverse", reason="whitelist"), record("14", "diverse", forced=True)]
    where = slices(tmp_path, more=chosen)
    for named in ("exp_mmr", "home/re_rank/exp_mmr@1"):
        status, said = ab.json("analyze", named, *where, *CLICKS)
        assert (status, said["unit_type"], said["chosen"]) == (0, "slice", {"whitelist": 1, "forced": 1})
    status, said = ab.json("srm", *where[:2], *where[4:])
    (row,) = said["experiments"]
    assert (status, row["unit_type"], row["units"], row["chosen"]) == (0, "slice", 200, {"whitelist": 1, "forced": 1})


def test_slices_need_no_configuration_for_their_length_but_mustnt_contradict_it(tmp_path: Path, ab: Cli) -> None:
    where = slices(tmp_path)[:4]
    told = ("--config", tmp_path / "none", "--weights", "control=1,diverse=1")
    status, said = ab.json("analyze", "exp_mmr", *where, *CLICKS, *told)
    assert (status, said["comparisons"][0]["control"]["units"]) == (0, 99)
    other = example(tmp_path / "b", (ABTEST, "slots: [[0, 2000]],", "slots: [[0, 2000]], slices: {every: 2h},"))
    assert ab("analyze", "exp_mmr", *where, *CLICKS, "--config", other) == 1
    assert "don't fit the 7,200 seconds of the configuration" in ab.told


@pytest.mark.parametrize("words", [("--cuped", "14d"), ("--within", "1d")])
def test_windows_make_no_sense_for_slices(tmp_path: Path, ab: Cli, words: tuple[str, str]) -> None:
    assert ab("analyze", "exp_mmr", *slices(tmp_path), *CLICKS, *words) == 1
    assert ab.told.startswith(f"{words[0]}: home/re_rank/exp_mmr@1 compares time slices.")


def test_units_of_two_types_under_one_version_are_told(tmp_path: Path, ab: Cli) -> None:
    rows = [*ROWS, record("498612", "control", unit_type="slice")]
    assert ab("analyze", "exp_mmr", *files(tmp_path, rows, clicks()), *CLICKS) == 1
    assert "home/re_rank/exp_mmr@1: user_id and slice were dealt under one version" in ab.told


@pytest.mark.parametrize(("seconds", "word"), [(1, "seconds"), (60, "minutes"), (86_400, "days")])
def test_events_of_coarse_times_stay_in_the_outcome(tmp_path: Path, ab: Cli, seconds: int, word: str) -> None:
    """Each unit clicks right after its exposure, more in `diverse`; and each clicked the days before."""
    rng = np.random.default_rng(3)
    rows, fine, coarse = [], [], []
    for unit, bucket in halves(400):
        first = NOON + 7.7 + 1_000 * rng.random()
        rows.append(record(unit, bucket, first))
        taste = int(rng.integers(1, 5))
        times = [first + 0.1 + n * 0.01 for n in range(taste + 2 * (bucket == "diverse"))]
        times += [first - 3 * DAY - n for n in range(taste)]
        fine += [event(unit, "click", time) for time in times]
        coarse += [event(unit, "click", time // seconds * seconds) for time in times]
    wanted = ab.json("analyze", "exp_mmr", *files(tmp_path, rows, fine), *CLICKS)[1]
    where = files(tmp_path, rows, coarse)
    status, said = ab.json("analyze", "exp_mmr", *where, *CLICKS)
    assert (status, said["units_of_time"]) == (0, {"click": seconds})
    assert said["comparisons"] == wanted["comparisons"]
    assert said["events"]["before_exposure"] == wanted["events"]["before_exposure"]
    assert ab("analyze", "exp_mmr", *where, *CLICKS, "--cuped", "14d") == 0
    assert f"Times of click are whole {word}: that of the first exposure counts as after it, and what" in ab.said
    corrected = ab.json("analyze", "exp_mmr", *where, *CLICKS, "--cuped", "14d")[1]["comparisons"][0]
    assert corrected["variance_reduction"] > 0.9
    assert abs(corrected["difference"] - 2) < 0.2


def test_dates_dont_take_the_effect_into_the_covariate(tmp_path: Path, ab: Cli) -> None:
    """As the reviewer found: with dates and --cuped half of an effect was gone, and nothing said so."""
    rng = np.random.default_rng(4)
    rows, done = [], []
    for number, (unit, bucket) in enumerate(halves(1_000)):
        first = NOON + number % 5 * DAY + rng.random() * 6 * 3_600
        rows.append(record(unit, bucket, first))
        taste = rng.gamma(2, 0.5)
        times = [first - day * DAY for day in range(1, 6) for _ in range(rng.poisson(0.3 * taste))]
        times += [first + 60.0] * int(rng.poisson(2 * taste) + 2 * (bucket == "diverse"))
        done += [event(unit, "click", datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d")) for time in times]
    where = files(tmp_path, rows, done)
    plain = ab.json("analyze", "exp_mmr", *where, *CLICKS)[1]["comparisons"][0]
    corrected = ab.json("analyze", "exp_mmr", *where, *CLICKS, "--cuped", "14d")[1]["comparisons"][0]
    assert abs(plain["difference"] - 2) < 0.5
    assert abs(corrected["difference"] - 2) < 0.5
    assert ab("analyze", "exp_mmr", *where, *CLICKS, "--cuped", "12h") == 1
    assert "--cuped of 12h: the times of click are whole days, which can't tell so much." in ab.told


def test_missing_values_are_told_by_bucket_and_infinite_ones_unread(tmp_path: Path, ab: Cli) -> None:
    table = tmp_path / "e.csv"
    rows = [f"u{number},{NOON + 60.5},purchase,{'' if number % 4 == 1 else 10 + number % 3}" for number in range(100)]
    table.write_text("\n".join(["user_id,ts,event,value", *rows, f"u1,{NOON + 70},purchase,inf"]) + "\n")
    log = ("--exposures", written(tmp_path / "e.jsonl", ROWS))
    words = ("analyze", "exp_mmr", *log, *CONFIG, "--events", table, "--metric", "revenue=sum(purchase)")
    assert ab(*words) == 0
    assert "purchase without a value, which adds nothing to the sum: control 0, diverse 25" in ab.said
    assert f"1 event record couldn't be read:\n  {table}: column value: inf is no finite number" in ab.said
    said = ab.json(*words)[1]
    assert said["events"]["without_value"] == {"purchase": {"control": 0, "diverse": 25}}
    assert said["comparisons"][0]["control"]["value"] < 12


def test_a_log_whose_beginning_was_rotated_away_warns_and_cant_be_corrected(tmp_path: Path, ab: Cli) -> None:
    folder = tmp_path / "var"
    written(folder / "exposures.w0.20261118T120000Z.000003.jsonl", ROWS)
    where = ("--exposures", folder, "--events", written(tmp_path / "events.jsonl", clicks()), *CONFIG)
    page = tmp_path / "page.html"
    warning = "EXPOSURES ARE MISSING (rotated away, or not given): exposures.w0, files 1 to 2."
    assert ab("analyze", "exp_mmr", *where, *CLICKS, "--html", page) == 0
    assert warning in ab.said
    assert f'<div class="banner bad">{warning}' in page.read_text("utf-8")
    assert ab("srm", *where[:2], *CONFIG) == 0
    assert warning in ab.said
    for words in (("analyze", "exp_mmr", *where, *CLICKS), ("srm", *where[:2], *CONFIG)):
        assert ab.json(*words)[1]["log"]["rotated_away"] == {"exposures.w0": [[1, 2]]}
    assert ab("analyze", "exp_mmr", *where, *CLICKS, "--cuped", "14d") == 1
    assert ab.told.startswith("--cuped: exposures are missing (exposures.w0, files 1 to 2: rotated away, or not given)")


def test_until_ends_the_data_with_or_without_a_window(tmp_path: Path, ab: Cli) -> None:
    rows = [*ROWS, *(record(f"u{number}", ("control", "diverse")[number % 2], NOON + 3 * DAY) for number in range(120))]
    where = files(tmp_path, rows, [*clicks(), *clicks(120, NOON + 3 * DAY + 60.5)])
    status, said = ab.json("analyze", "exp_mmr", *where, *CLICKS, "--until", "2026-11-20")
    ended = ab.json("analyze", "exp_mmr", *files(tmp_path / "short", ROWS, clicks()), *CLICKS)[1]
    assert (status, said["comparisons"], said["srm"]) == (0, ended["comparisons"], ended["srm"])
    assert said["log"]["not_before_until"] == 120
    assert said["events"]["not_before_until"] == len(clicks())  # of the others it doesn't matter when they were
    assert ab("analyze", "exp_mmr", *where, *CLICKS, "--until", "2026-11-20") == 0
    assert "Exposures left out: 120 not before --until." in ab.said
    assert ab("analyze", "exp_mmr", *where, *CLICKS, "--until", "2026-11-01") == 1
    assert "no exposure of a unit whose bucket was drawn.\nExposures left out: 220 not before --until." in ab.told


def test_one_event_of_the_far_future_ends_no_window(tmp_path: Path, ab: Cli) -> None:
    events = [*clicks(), event("u1", "click", NOON + 400 * DAY)]
    words = ("analyze", "exp_mmr", *files(tmp_path, ROWS, events), *CLICKS, "--now", "2026-11-19")
    assert ab(*words, "--within", "7d") == 1
    assert "no unit's window has passed. Wait, or give a shorter --within." in ab.told
    assert "1 event record couldn't be read:" in ab.told
    status, said = ab.json(*words)
    assert (status, said["unread"]["events"]["count"], said["events"]["read"]) == (0, 1, len(clicks()))


def test_units_first_exposed_after_the_last_event_are_left_out(tmp_path: Path, ab: Cli) -> None:
    rows = [*ROWS, *(record(f"v{number}", ("control", "diverse")[number % 2], NOON + DAY) for number in range(20))]
    where = files(tmp_path, rows, clicks())
    status, said = ab.json("analyze", "exp_mmr", *where, *CLICKS)
    assert (status, said["waiting"], said["comparisons"][0]["control"]["units"]) == (0, 20, 50)
    assert ab("analyze", "exp_mmr", *where, "--metric", "ctr=click/exposures") == 0
    assert "Exposures go on after the last event, and count." in ab.said


def test_crossed_units_dont_come_back_with_a_window(tmp_path: Path, ab: Cli) -> None:
    again = [record(f"u{number}", ("diverse", "control")[number % 2], NOON + 5 * DAY) for number in range(20)]
    where = files(tmp_path, [*ROWS, *again], [*clicks(), event("u99", "click", NOON + 6 * DAY)])
    status, said = ab.json("analyze", "exp_mmr", *where, *CLICKS, "--despite-srm", "--within", "2d")
    arms = said["comparisons"][0]
    assert (status, said["srm"]["units"], said["srm"]["crossed"]) == (0, 80, 20)
    assert (arms["control"]["units"], arms["treatment"]["units"]) == (40, 40)
    assert said["left_out"] == {"crossed": 20, "chosen": 0, "waiting": 0, "partial": 0}


def test_units_that_were_dealt_and_then_chosen_are_left_out(tmp_path: Path, ab: Cli) -> None:
    chosen = [record(f"u{number}", "diverse", NOON + 9, reason="whitelist") for number in range(0, 20, 2)]
    where = files(tmp_path, [*ROWS, *chosen], clicks())
    status, said = ab.json("analyze", "exp_mmr", *where, *CLICKS)
    assert (status, said["left_out"]["chosen"], said["comparisons"][0]["control"]["units"]) == (0, 10, 40)
    assert said["srm"]["units"] == 100
    assert ab("analyze", "exp_mmr", *where, *CLICKS) == 0
    assert "Units left out: 10 that also had a bucket chosen for them." in ab.said


def test_every_row_is_accounted_for_in_text_json_and_page(tmp_path: Path, ab: Cli) -> None:
    rows = [*ROWS, record(None, "control"), record("t", "diverse", forced=True), record("u1", "a", experiment="x"), "{"]
    events = [*clicks(), event("u1", "click", NOON - 60), event("stranger", "click"), event("u2", "click", NOON + DAY)]
    events += [event("u3", "other", NOON + DAY + 0.5), event("u4", "click", "soon")]
    words = ("analyze", "exp_mmr", *files(tmp_path, rows, events), *CLICKS, "--within", "12h")
    page = tmp_path / "page.html"
    assert ab(*words, "--html", page) == 0
    joined = (
        f"{len(clicks()):,} count (1 before the first exposure, 2 after the window, 1 of units that aren't compared)"
    )
    for line in (
        "103 exposures in 1 file",
        "1 exposure record couldn't be read:",
        "Exposures left out: 1 of other experiments, 1 without a unit.",
        "Exposures left out, since people chose the bucket: 1 by force.",
        f"{len(clicks()) + 4:,} events, of which {joined}",
        "1 event record couldn't be read:",
    ):
        assert line in ab.said
        assert line.replace("'", "&#x27;") in page.read_text("utf-8")
    said = ab.json(*words)[1]
    log, counts = said["log"], said["events"]
    assert log["read"] == 103 == sum(log[name] for name in ("of_other_experiments", "without_unit", "chosen", "drawn"))
    parts = ("of_others", "not_before_until", "before_exposure", "after_window", "joined")
    assert counts["read"] == len(clicks()) + 4 == sum(counts[name] for name in parts)
    assert (log["unread"], counts["unread"], counts["joined"]) == (1, 1, len(clicks()))


def test_srm_tells_what_it_left_out(tmp_path: Path, ab: Cli) -> None:
    rows = [*ROWS, *[record(None, "control")] * 5, *[record(None, "control", forced=True)] * 7, *["{"] * 9]
    log = ("--exposures", written(tmp_path / "e.jsonl", rows), *CONFIG)
    assert ab("srm", *log) == 0
    assert "112 exposures in 1 file\n9 exposure records couldn't be read:" in ab.said
    assert "Exposures left out: 5 without a unit." in ab.said
    assert "since people chose the bucket: 7 by force." in ab.said
    said = ab.json("srm", *log)[1]
    assert (said["log"]["unread"], said["log"]["without_unit"], said["experiments"][0]["chosen"]) == (
        9,
        5,
        {"forced": 7},
    )
    assert ab("srm", "exp_mm", *log) == 1
    assert "No exposure of 'exp_mm' in 1 file, 112 records.\n9 exposure records couldn't be read:" in ab.told
    assert "Exposures left out: 112 of other experiments." in ab.told


def test_a_parquet_exposure_without_a_time_is_unread(tmp_path: Path, ab: Cli) -> None:
    pq.write_table(pa.Table.from_pylist([*ROWS, record("x", "control", math.nan)]), tmp_path / "exposures.parquet")
    status, said = ab.json("srm", "--exposures", tmp_path / "exposures.parquet", *CONFIG)
    assert (status, said["log"]["read"], said["log"]["unread"]) == (0, 100, 1)


def test_errors_tell_how_much_couldnt_be_read(tmp_path: Path, ab: Cli) -> None:
    events = [{"user_id": "u1", "timestamp": NOON, "event": "click"}] * 9
    assert ab("analyze", "exp_mmr", *files(tmp_path, [*ROWS, "{"], events), *CLICKS) == 1
    assert "there is no event 'click'." in ab.told
    assert "1 exposure record couldn't be read:" in ab.told
    assert "9 event records couldn't be read:" in ab.told
    assert "Object missing required field `ts`" in ab.told
    said = ab.json("analyze", "exp_mmr", *files(tmp_path, ROWS[1:], events), *CLICKS)[1]
    assert "9 event records couldn't be read:" in said["errors"]


def test_ids_that_match_nobody_are_noticed(tmp_path: Path, ab: Cli) -> None:
    where = files(tmp_path, ROWS, [event(f"U{number}", "click") for number in range(9)])
    assert ab("analyze", "exp_mmr", *where, *CLICKS) == 0
    assert "9 events, of which 0 count (9 of units that aren't compared)\nNOT ONE event counts." in ab.said


def test_cuped_is_spoken_of_where_it_was_asked_for(tmp_path: Path, ab: Cli) -> None:
    where = files(tmp_path, ROWS, clicks())
    page = tmp_path / "page.html"
    same = files(tmp_path / "same", ROWS, [event(unit, "click", NOON + 60.5) for unit, _ in halves(100)])
    assert ab("analyze", "exp_mmr", *same, *CLICKS, "--html", page) == 0
    assert "CUPED" not in ab.said + page.read_text("utf-8")
    for words in (where, same):
        assert ab("analyze", "exp_mmr", *words, *CLICKS, "--cuped", "14d", "--html", page) == 0
        nothing = "CUPED had nothing to correct clicks by: the file has no such event before the first exposures."
        assert nothing in ab.said
        assert nothing in page.read_text("utf-8")
        assert "nan" not in ab.said
    before = [event(f"u{number}", "click", NOON - 60.5) for number in range(100) for _ in range(number // 2 % 5 + 1)]
    assert ab("analyze", "exp_mmr", *files(tmp_path, ROWS, [*clicks(), *before]), *CLICKS, "--cuped", "14d") == 0
    assert "CUPED removed 100% of clicks's variance." in ab.said


def test_levels_have_as_many_digits_as_they_need(tmp_path: Path, ab: Cli) -> None:
    page = tmp_path / "page.html"
    assert ab("analyze", "exp_mmr", *study(tmp_path, 200), *CONFIG, *CLICKS, "--alpha", "0.001", "--html", page) == 0
    text = page.read_text("utf-8")
    assert "99.9% interval" in text
    assert "false discovery rate 0.1%." in text
    assert "100% " not in text


def test_a_bucket_has_one_weight(tmp_path: Path, ab: Cli) -> None:
    log = written(tmp_path / "e.jsonl", ROWS)
    assert ab("srm", "--exposures", log, *CONFIG, "--weights", "control=1,diverse=1,control=3") == 1
    assert "the bucket 'control' stands there twice" in ab.told


def test_a_field_has_one_column(tmp_path: Path, ab: Cli) -> None:
    words = (*files(tmp_path, ROWS, clicks()), *CLICKS, "--map", "unit=user_id", "--map", "unit=customer")
    assert ab("analyze", "exp_mmr", *words) == 1
    assert "--map unit=customer: unit is mapped to 'user_id' already. Expected it once." in ab.told


def test_a_log_that_is_given_twice_is_read_once_and_named(tmp_path: Path, ab: Cli) -> None:
    where = files(tmp_path, ROWS, clicks())
    again = tmp_path / ".." / tmp_path.name / "e.jsonl"
    assert ab("analyze", "exp_mmr", *where, "--exposures", again, "--metric", "ctr=click/exposures") == 0
    assert f"100 exposures in 1 file\nRead once: {again} is {where[1]} again.\n" in ab.said
    said = ab.json("analyze", "exp_mmr", *where, "--exposures", again, "--metric", "ctr=click/exposures")[1]
    assert said["log"]["twice"] == {str(again): str(where[1])}


def test_looking_often_wants_a_window(tmp_path: Path, ab: Cli) -> None:
    words = ("analyze", "exp_mmr", *study(tmp_path, 200), *CONFIG, *CLICKS, "--peek")
    assert ab(*words) == 0
    assert "where units' outcomes don't go on growing. Else give --within 7d (say)." in ab.said
    assert ab(*words, "--within", "12h") == 0
    assert ab.said.endswith("The verdicts hold however often one looks.\n")


def test_power_and_aa_take_units_whose_window_is_over(tmp_path: Path) -> None:
    """0.1 purchases a day after the first visit; who came within the last week had less time for them."""
    rng = np.random.default_rng(4)
    rows = []
    for number in range(1_000):
        first = NOON + rng.random() * 10 * DAY
        rows.append(event(f"u{number}", "visit", first))
        times = first + rng.random(rng.poisson(2)) * 20 * DAY
        rows += [event(f"u{number}", "purchase", time) for time in times.tolist() if time < NOON + 10 * DAY]
    rows += [event("u0", "visit", NOON + 10 * DAY), "{"]
    path = written(tmp_path / "e.jsonl", rows)
    found = metrics_of_everybody(
        path, "user_id", {}, formulas(["p=purchase"], None, []), 7.0 * DAY, now=NOON + 10 * DAY
    )
    assert abs(found[0].numerator.mean() - 0.7) < 0.15
    assert 600 < found.left_out.waiting < 800
    assert (
        f"Units left out: {found.left_out.waiting:,} whose time hasn't passed at the end of the data." in found.notes()
    )
    assert "1 event record couldn't be read:" in found.notes()
    said = json.loads(json.dumps(found.as_json()))
    assert (said["left_out"]["waiting"], said["events"]["unread"]) == (found.left_out.waiting, 1)
    assert len(found) == len(list(found)) == 1
