from pathlib import Path

import pytest

from abtest import SLOTS, Experiments
from perf.data import NOW
from perf.experiments import (
    CONTEXT,
    FIFTH,
    LAYERS,
    SCENE,
    Cost,
    Measured,
    Ours,
    Theirs,
    many,
    measure_experiments,
    scene,
)
from perf.timing import Figure

USERS = [f"u{number}" for number in range(3_000)]
TYPES = {"region": "str", "hour": "int", "app_version": "semver"}


def compiled(document: dict[str, object]) -> Experiments:
    experiments, problems = Experiments.compile(document, TYPES, [SCENE])
    assert experiments is not None, problems
    return experiments


def test_measuring_gives_the_figures_and_a_table() -> None:
    measured = measure_experiments(requests=60, experiments=20)
    figures = measured.figures()
    assert set(figures) == {
        "ab_requests_per_second",
        "ab_requests_per_second_all",
        "ab_compile_1000",
        "ab_over_growthbook",
    }
    assert figures["ab_requests_per_second"].against == 100_000
    assert figures["ab_over_growthbook"].ratio == max(measured.fifth.ratio, measured.everybody.ratio) > 0
    for cost in (measured.fifth, measured.everybody):
        assert min(cost.assign, cost.request, cost.write, cost.growthbook) > 0
    assert measured.fifth.exposures < 2 < 4 < measured.everybody.exposures <= 5
    assert "requests/s on a core" in measured.text()
    assert "growthbook on equal layers" in measured.text()


def test_the_parts_of_a_request_add_up() -> None:
    fifth = Cost(3.0, 5.0, 3.0, growthbook=80.0, ratio=0.1, exposures=1.0)
    everybody = Cost(3.0, 6.0, 10.0, growthbook=80.0, ratio=0.2, exposures=5.0)
    measured = Measured(fifth, everybody, compile_seconds=0.5)
    figures = measured.figures()
    assert (fifth.all, figures["ab_requests_per_second"].value) == (8.0, 125_000.0)
    assert figures["ab_requests_per_second"].ratio == 1.25
    assert figures["ab_requests_per_second_all"].value == 62_500.0
    assert figures["ab_compile_1000"].ratio == 0.25
    assert figures["ab_over_growthbook"] == Figure(16.0, "us", 80.0, 0.2)
    assert "125,000 and 62,500 requests/s" in measured.text()


@pytest.mark.parametrize(("share", "part"), [(FIFTH, 0.2), (SLOTS, 1.0)])
def test_both_sides_hold_out_2_percent_and_split_their_share_of_every_layer_in_halves(share: int, part: float) -> None:
    experiments = compiled(scene(share))
    ours = [experiments.assign(SCENE, {"user_id": user}, CONTEXT, NOW) for user in USERS]
    theirs = Theirs(share)
    values = theirs.values(USERS)
    whole = len(USERS) * len(LAYERS)
    enrolled = sum(decision.bucket is not None for assignment in ours for decision in assignment.decisions)
    assert enrolled / whole == pytest.approx(0.98 * part, abs=0.012)
    assert len(theirs.seen) / whole == pytest.approx(0.98 * part, abs=0.012)
    for at, layer in enumerate(LAYERS):
        treated = sum(assignment.params[f"{layer}.knob"] == 1 for assignment in ours) / len(USERS)
        assert treated == pytest.approx(0.49 * part, abs=0.035)
        assert sum(row[at] == 1 for row in values) / len(USERS) == pytest.approx(0.49 * part, abs=0.035)


def test_a_thousand_experiments_are_a_thousand() -> None:
    layers = compiled(many(1_000)).scenes[SCENE].layers
    assert sum(len(layer.experiments) for layer in layers) == 1_000
    assert all(holder is not None for layer in layers for holder in layer.table)


def test_every_exposure_of_a_block_is_written(tmp_path: Path) -> None:
    ours = Ours(tmp_path, SLOTS)
    ours.spend(USERS[:250])
    ours.log.close()
    assert ours.log.dropped == 0
    assert ours.log.written == len((tmp_path / "exposures.jsonl").read_text().splitlines()) > 1_100
