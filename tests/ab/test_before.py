"""What is asked before an experiment runs: `power`, `aa` and `simulate`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from abtest.analysis.anytime import TUNED_FOR, critical
from tests.ab.cli import Cli
from tests.ab.logs import event, written
from tests.config.support import EXAMPLE

CONFIG = ("--config", EXAMPLE)


def purchases(folder: Path) -> tuple[object, ...]:
    """3,000 units: all visit, 50 buy, and spend very different sums."""
    spent = np.random.default_rng(5).lognormal(0, 2, 3_000)
    rows = [event(f"u{n}", "visit") for n in range(3_000)]
    rows += [event(f"u{n}", "buy") for n in range(50)]
    rows += [event(f"u{n}", "pay", value=float(much)) for n, much in enumerate(spent)]
    return "--events", written(folder / "events.jsonl", rows)


def test_power_plans_for_the_boundary_that_analyze_will_peek_by(ab: Cli) -> None:
    _, said = ab.json("power", "--rate", "0.1", "--lift", "5%", "--anytime")
    units = said["units"]["control"]
    reach = float(critical(2 * units, 0.05, TUNED_FOR)) + 0.8416212
    assert units == pytest.approx(reach**2 * (0.1 * 0.9 + 0.105 * 0.895) / 0.005**2, abs=1)


def test_power_names_a_metric_that_does_not_vary(tmp_path: Path, ab: Cli) -> None:
    where = purchases(tmp_path)
    for words in (("--lift", "5%"), ("--units", "500"), ("--units", "500", "--lift", "5%")):
        assert ab("power", *where, "--metric", "visitors=any(visit)", *words) == 1
        assert "Metric visitors can't be planned for: it doesn't vary between units." in ab.told


def test_power_says_that_a_lift_is_too_small(ab: Cli) -> None:
    assert ab("power", "--rate", "0.1", "--lift", "1e-200%") == 1
    assert "No number of units shows a lift of 1e-202." in ab.told


def test_power_refuses_a_deviation_whose_square_is_no_number(ab: Cli) -> None:
    assert ab("power", "--mean", "1", "--sd", "1e200", "--lift", "1%") == 1
    assert "a variance above 0, both finite" in ab.told


def test_power_and_aa_say_what_could_not_be_read(tmp_path: Path, ab: Cli) -> None:
    where = purchases(tmp_path)
    with open(str(where[1]), "a", encoding="utf-8") as file:
        file.write("{\n" * 5)
    for words in (("power", "--units", "500"), ("aa", "--splits", "100")):
        assert ab(words[0], *where, "--metric", "buyers=any(buy)", *words[1:]) == 0
        assert "5 event records couldn't be read" in ab.said


def test_aa_splits_as_the_experiment_will(tmp_path: Path, ab: Cli) -> None:
    call = ("aa", *purchases(tmp_path), "--metric", "revenue=sum(pay)")
    status, said = ab.json(*call)
    assert (status, said["metrics"][0]["share"], said["metrics"][0]["failed"]) == (0, 0.5, [])
    status, said = ab.json(*call, "--share", "0.1")
    assert (status, said["metrics"][0]["share"]) == (1, 0.1)
    assert said["metrics"][0]["failed"][0] == "too many false positives"
    assert ab(*call, "--share", "0.1") == 1
    assert "10%" in ab.said
    assert "NOT SOUND: too many false positives" in ab.said


@pytest.mark.parametrize("share", ["0", "1", "x"])
def test_a_share_that_leaves_an_arm_empty_is_refused(tmp_path: Path, ab: Cli, share: str) -> None:
    with pytest.raises(SystemExit):
        ab("aa", *purchases(tmp_path), "--metric", "revenue=sum(pay)", "--share", share)


def test_aa_says_that_a_metric_without_variance_has_no_p_values(tmp_path: Path, ab: Cli) -> None:
    assert ab("aa", *purchases(tmp_path), "--metric", "visitors=any(visit)", "--splits", "100") == 1
    assert "NOT SOUND: no p-values" in ab.said
    assert "nan" not in ab.said


def test_simulate_says_what_too_few_units_were_dealt_to(ab: Cli) -> None:
    assert ab("simulate", *CONFIG, "--units", "100", "--context", "app_version=3.0") == 0
    assert "Too few units to check (more by --units):\n  home/recall, slots: 9" in ab.said
    assert "it takes 500" in ab.said
    assert "independent" not in ab.said
    assert "nan" not in ab.said
    _, said = ab.json("simulate", *CONFIG, "--units", "100", "--context", "app_version=3.0")
    assert [line.partition(":")[0] for line in said["unchecked"]] == ["home/recall, slots", "home/re_rank, slots"]


def test_all_checks_of_a_simulation_share_its_threshold(ab: Cli) -> None:
    _, said = ab.json("simulate", *CONFIG, "--units", "2000", "--context", "app_version=3.0")
    (scene,) = said["scenes"]
    tests = [*scene["layers"], *(split for layer in scene["layers"] for split in layer["splits"]), *scene["pairs"]]
    made = sum(each["p"] is not None for each in tests)
    assert made == 3
    assert said["threshold"] == pytest.approx(1e-4 / made)
