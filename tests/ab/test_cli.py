"""The verbs over whole files: what they print, as JSON too, and how they end."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from abtest import slot
from app.cli import main
from tests.ab.cli import Cli
from tests.ab.logs import event, halves, record, study, written
from tests.config.support import ABTEST, EXAMPLE, example

CONFIG = ("--config", EXAMPLE)


def test_check_lists_experiments(ab: Cli) -> None:
    assert ab("check", *CONFIG) == 0
    assert "home/re_rank/exp_mmr@1  running  20.00%  control 50%, diverse 50%" in ab.said
    status, said = ab.json("check", *CONFIG)
    (row,) = said["experiments"]
    assert (status, row["slots"], row["control"], row["when"]) == (
        0,
        [[0, 2000]],
        "control",
        "context.app_version >= '3.0'",
    )


def test_check_says_who_would_move_and_refuses_what_moves_the_enrolled(tmp_path: Path, ab: Cli) -> None:
    grown = example(tmp_path / "a", (ABTEST, "[0, 2000]", "[0, 3000]"))
    assert ab("check", "--config", grown, "--against", EXAMPLE) == 0
    assert re.search(r"home/re_rank +4\.90%  enter  default +exp_mmr@1/control", ab.said)
    cut = example(tmp_path / "b", (ABTEST, "[0, 2000]", "[0, 1000]"))
    status, said = ab.json("check", "--config", cut, "--against", EXAMPLE / ABTEST)
    assert (status, said["good"]) == (1, False)
    assert "its slots shrank: 1000 of 10,000 layer slots would move users" in said["against"]["refusals"][0]["message"]
    assert ab("check", "--config", cut, "--against", EXAMPLE) == 1
    assert ab.told.startswith(f"{cut / ABTEST}:13 scenes.home.layers.re_rank.experiments.exp_mmr@1.slots: ")
    assert ab.told.endswith("1 change would move users. A reload refuses this.\n")
    assert ab("check", "--config", cut, "--against", EXAMPLE, "--shrink") == 0


def test_check_against_what_is_no_configuration_is_told(tmp_path: Path, ab: Cli) -> None:
    (tmp_path / "x.yaml").write_text("version: 1\nscenes: {home: {layers: {}}, home: {}}\n")
    assert ab("check", *CONFIG, "--against", tmp_path / "x.yaml") == 1
    assert "x.yaml:2 scenes.home: Duplicate key" in ab.told
    assert ab("check", *CONFIG, "--against", tmp_path / "y.yaml") == 1
    assert "can't be read: No such file" in ab.told


def test_why_shows_every_hash_and_reason(ab: Cli) -> None:
    user = next(f"u{number}" for number in range(1_000) if _enrolled(f"u{number}"))
    assert ab("why", *CONFIG, "--user", user, "--context", "app_version=3.2.0", "--at", "2026-11-30") == 0
    assert f"home/re_rank/1:{user}" in ab.said
    assert f" {slot('home/re_rank/1', user)}  held by exp_mmr@1" in ab.said
    assert re.search(r"=> exp_mmr@1/(control|diverse), by hash", ab.said)
    assert "context.app_version >= '3.0' holds" in ab.said
    status, said = ab.json("why", *CONFIG, "--user", user)
    assert status == 0
    assert [layer["reason"] for layer in said["layers"]] == ["unallocated", "condition"]
    assert ab("why", *CONFIG, "--user", user, "--context", "app=3") == 1
    assert "not declared in service.yaml" in ab.told


@pytest.mark.parametrize("unit", ["", "x" * 257, "é" * 129])
def test_why_refuses_an_id_that_the_service_refuses(ab: Cli, unit: str) -> None:
    assert ab("why", *CONFIG, "--user", unit) == 1
    assert ab.told == "--user: expected an id of 1 to 256 bytes.\n"


def _enrolled(unit: str) -> bool:
    layer, held = slot("home/re_rank/1", unit), slot("home/holdout/1", unit)
    return layer is not None and held is not None and layer < 2_000 and held >= 200


def test_simulate_finds_the_shipped_layers_even_and_independent(ab: Cli) -> None:
    status, said = ab.json("simulate", *CONFIG, "--units", "20000", "--context", "app_version=3.0")
    assert (status, said["good"]) == (0, True)
    (scene,) = said["scenes"]
    assert abs(scene["layers"][1]["shares"]["exp_mmr@1/control"] - 0.098) < 0.01
    assert ab("simulate", *CONFIG, "--units", "2000") == 0
    assert "Even, and independent." in ab.said


def test_srm_is_silent_about_a_sound_split(tmp_path: Path, ab: Cli) -> None:
    where = study(tmp_path)[:2]
    assert ab("srm", *where, *CONFIG) == 0
    assert "The split of 1,000 units is as it was meant: p 1.00." in ab.said
    status, said = ab.json("srm", "exp_mmr", *where, *CONFIG)
    assert (status, said["experiments"][0]["units"], said["experiments"][0]["sound"]) == (0, 1_000, True)


def test_srm_exits_with_one_for_lost_units_and_for_units_in_two_buckets(tmp_path: Path, ab: Cli) -> None:
    lost = study(tmp_path, lost=200)[:2]
    assert ab("srm", *lost, *CONFIG) == 1
    assert "Sample-ratio mismatch (overall, " in ab.said
    rows = [record(unit, bucket) for unit, bucket in halves(400)] + [record("u1", "control")]
    crossed = written(tmp_path / "crossed.jsonl", rows)
    assert ab("srm", "--exposures", crossed, *CONFIG) == 1
    assert "1 unit was in two buckets." in ab.said


def test_srm_by_attribute_finds_where_units_went_missing(tmp_path: Path, ab: Cli) -> None:
    rows = [(f"u{n}", ("control", "diverse")[n % 2], ("web", "app")[n // 2 % 2]) for n in range(2_000)]
    kept = [row for n, row in enumerate(rows) if row[1:] != ("diverse", "app") or n % 3]
    log = written(tmp_path / "e.jsonl", [record(unit, bucket) for unit, bucket, _ in kept])
    users = tmp_path / "users.csv"
    users.write_text("user_id,platform\n" + "".join(f"{unit},{platform}\n" for unit, _, platform in rows))
    status, said = ab.json("srm", "--exposures", log, *CONFIG, "--users", users, "--by", "platform")
    found = {
        group["group"]: group["mismatch"] for group in said["experiments"][0]["groups"] if group["family"] == "platform"
    }
    assert (status, found) == (1, {"app": True, "web": False})
    assert ab("srm", "--exposures", log, *CONFIG, "--users", users, "--by", "age") == 1
    assert "has no column 'age' (--by)" in ab.told
    assert ab("srm", "--exposures", log, *CONFIG, "--by", "age") == 1


def test_an_experiment_that_is_configured_nowhere_wants_its_weights(tmp_path: Path, ab: Cli) -> None:
    log = written(tmp_path / "e.jsonl", [record(unit, bucket, experiment="old") for unit, bucket in halves(100)])
    assert ab("srm", "--exposures", log, *CONFIG) == 1
    assert "home/re_rank/old@1 isn't in the configuration any more. Give --weights" in ab.told
    assert ab("srm", "--exposures", log, "--config", tmp_path / "none", "--weights", "control=1,diverse=1") == 0
    assert ab("srm", "--exposures", log, *CONFIG, "--weights", "control=9,diverse=1") == 1
    assert ab("srm", "--exposures", log, *CONFIG, "--weights", "a=1,b=1", "--control", "a") == 1
    assert "the log has the bucket 'control', and the experiment a, b" in ab.told


METRICS = ("--metric", "ctr=click/impression", "--metric", "buyers=any(purchase)", "--metric", "revenue=sum(purchase)")


def test_analyze_compares_metrics(tmp_path: Path, ab: Cli) -> None:
    where = study(tmp_path)
    status, said = ab.json("analyze", "exp_mmr", *where, *CONFIG, *METRICS)
    assert status == 0
    ctr, buyers, revenue = said["comparisons"]
    assert ctr["verdict"] == "better"
    assert ctr["lift_interval"]["low"] < 0.5 < ctr["lift_interval"]["high"]
    assert (buyers["control"]["value"], buyers["treatment"]["value"]) == (0.2, 0.0)
    assert revenue["control"]["value"] == 2.5
    assert said["metrics"]["revenue"] == "sum(purchase)"
    assert ab("analyze", "exp_mmr", *where, *CONFIG, *METRICS, "--lower-is-better", "ctr") == 0
    assert re.search(r"ctr +click/impression +diverse .* worse\n", ab.said)


def test_clicks_before_the_first_exposure_only_correct(tmp_path: Path, ab: Cli) -> None:
    where = study(tmp_path)
    call = ("analyze", "exp_mmr", *where, *CONFIG, "--metric", "clicks=click")
    plain = ab.json(*call)[1]["comparisons"][0]
    corrected = ab.json(*call, "--cuped", "1d")[1]["comparisons"][0]
    assert plain["variance_reduction"] == 0
    assert corrected["variance_reduction"] != 0
    assert abs(plain["difference"] - corrected["difference"]) < 0.2


def test_analyze_within_a_window_leaves_out_who_hasnt_had_it(tmp_path: Path, ab: Cli) -> None:
    where = study(tmp_path, days=4)
    status, said = ab.json("analyze", "exp_mmr", *where, *CONFIG, "--metric", "clicks=click", "--within", "2d")
    assert (status, said["waiting"]) == (0, 500)
    assert said["comparisons"][0]["control"]["units"] == 250
    assert ab("analyze", "exp_mmr", *where, *CONFIG, "--metric", "clicks=click", "--within", "9d") == 1
    assert "no unit's window has passed" in ab.told


def test_analyze_refuses_a_wrong_split_unless_told(tmp_path: Path, ab: Cli) -> None:
    where = study(tmp_path, lost=200)
    call = ("analyze", "exp_mmr", *where, *CONFIG, *METRICS)
    status, said = ab.json(*call)
    assert (status, said["srm"]["mismatch"]) == (1, True)
    assert "comparisons" not in said
    assert ab(*call) == 1
    assert ab.told.endswith("To compare anyway, add --despite-srm.\n")
    page = tmp_path / "report.html"
    assert ab(*call, "--despite-srm", "--html", page) == 0
    assert '<div class="banner bad">Sample-ratio mismatch' in page.read_text("utf-8")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "No metric. Give --metric, such as --metric purchase_rate=any(purchase). Events: impression (20,000)"),
        (("--metric", "x=klick"), "x=klick: there is no event 'klick'. Did you mean 'click'?"),
        (("--metric", "x=sum(click)"), "x=sum(click): no click has a value."),
        (("--metric", "x=click/exposures", "--within", "1d"), "--within can't cut exposures"),
        (("--metric", "x=click", "--control", "bold"), "there is no bucket 'bold'"),
    ],
)
def test_what_analyze_cant_do_is_told(tmp_path: Path, ab: Cli, words: tuple[str, ...], said: str) -> None:
    assert ab("analyze", "exp_mmr", *study(tmp_path), *CONFIG, *words) == 1
    assert said in ab.told


def test_analyze_wants_one_version(tmp_path: Path, ab: Cli) -> None:
    where = study(tmp_path)
    written(tmp_path / "var" / "exposures.w1.jsonl", [record("u1", "control", version=2)])
    assert ab("analyze", "exp_mmr", *where, *CONFIG, "--metric", "x=click") == 1
    assert "could be home/re_rank/exp_mmr@1, home/re_rank/exp_mmr@2. Name one of them." in ab.told
    assert ab("analyze", "exp_mm", *where, *CONFIG, "--metric", "x=click") == 1
    assert "No exposure of 'exp_mm' in 2 files" in ab.told


def test_the_page_needs_nothing_but_itself(tmp_path: Path, ab: Cli) -> None:
    where = study(tmp_path)
    page = tmp_path / "report.html"
    words = ("--metric", "a<b>=click/exposures", "--metric", "buyers=any(purchase)", "--peek", "--html", page)
    assert ab("analyze", "exp_mmr", *where, *CONFIG, *words) == 0
    text = page.read_text("utf-8")
    assert not re.search(r"<script|https?:|src=|@import|url\(", text)
    assert "a&lt;b&gt;" in text
    assert text.count("<svg") == 3
    assert "The verdicts hold however often one looks where units&#x27; outcomes don&#x27;t go on growing." in text
    assert "nan" not in text.lower()


def test_power_needs_lift_or_units(ab: Cli) -> None:
    status, said = ab.json("power", "--rate", "0.1", "--lift", "10%", "--daily", "1000")
    assert status == 0
    assert 14_000 < said["units"]["control"] < 15_500
    assert said["days"] == 30
    status, said = ab.json("power", "--mean", "10", "--sd", "30", "--units", "14000")
    assert (status, round(said["units"]["lift"], 2)) == (0, 0.1)
    assert ab("power", "--rate", "0.1", "--lift", "10%", "--units", "14750") == 0
    assert re.search(r"power +80\.\d%", ab.said)
    for words in (
        ("--rate", "0.1"),
        ("--lift", "1%"),
        ("--mean", "1", "--lift", "1%"),
        ("--rate", ".9", "--lift", "50%"),
    ):
        assert ab("power", *words) == 1


def test_power_and_aa_measure_a_metric_in_a_file(tmp_path: Path, ab: Cli) -> None:
    events = study(tmp_path)[2:]
    status, said = ab.json("power", *events, "--metric", "ctr=click/impression", "--units", "500")
    assert (status, said["baseline"]["binary"]) == (0, False)
    status, said = ab.json("aa", *events, "--metric", "ctr=click/impression", "--splits", "300")
    assert (status, said["sound"]) == (0, True)
    assert ab("aa", *events, "--metric", "ctr=click/impression", "--splits", "300") == 0
    assert "sound" in ab.said
    assert ab("aa", *events, "--metric", "x=click/exposures") == 1


def test_aa_finds_a_metric_whose_test_isnt_sound(tmp_path: Path, ab: Cli) -> None:
    rows = [event(f"u{n}", "purchase", value=1e6 if n == 0 else 1.0) for n in range(60)]
    events = written(tmp_path / "e.jsonl", rows)
    assert ab("aa", "--events", events, "--metric", "revenue=sum(purchase)", "--splits", "400") == 1
    assert "NOT SOUND" in ab.said


def test_every_action_has_help_with_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    for action in ("check", "why", "simulate", "srm", "power", "analyze", "aa", "start", "ramp", "stop"):
        with pytest.raises(SystemExit) as ended:
            main(["ab", action, "--help"])
        assert ended.value.code == 0
        said = capsys.readouterr().out
        assert f"recserve ab {action}" in said.partition("examples:")[2]
        assert "--json" in said
