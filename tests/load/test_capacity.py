from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from app.load.capacity import Search, find_capacity, overload
from app.load.plan import Phase, Plan, schedule
from app.load.result import Connections, Result
from app.load.samples import Recorder
from tests.load.server import document, plan

PLAN = plan(("127.0.0.1", 1), Phase("unused", 0, 1))
FULL, LOWER = document(), document(level=1)


def service(
    capacity: float, *, full: float = float("inf"), late: Callable[[float], bool] = lambda rate: False
) -> Callable[[Plan], Result]:
    """A service that sheds above `capacity` requests/s and lets quality go above `full`; the generator may be late."""

    def offer(made: Plan) -> Result:
        arrivals = schedule(made)
        recorder = Recorder(arrivals)
        rng = np.random.default_rng(made.seed)
        for request, phase in enumerate(arrivals.phase.tolist()):
            rate = made.phases[phase].rate
            recorder.latency[request] = 0.02
            recorder.late[request] = 1.0 if late(rate) else 0.0
            recorder.outcome[request] = 503 if rng.random() > capacity / rate else 200
            recorder.read(request, LOWER if rate > full else FULL)
        ends = np.cumsum([0.0, *(phase.seconds for phase in made.phases)]).tolist()
        phases = {phase.name: (ends[at], ends[at + 1]) for at, phase in enumerate(made.phases)}
        classes = {one.name: one.budget for one in made.classes}
        return Result(0.0, made.seconds, 0.0, classes, phases, recorder.samples(), (), (), Connections(1, 0, 0, 0))

    return offer


@pytest.mark.parametrize("capacity", [30, 110, 333, 1_000])
def test_capacity_is_found_from_below(capacity: float) -> None:
    said: list[str] = []
    found = find_capacity(PLAN, service(capacity), say=said.append)
    assert capacity / 2 ** (1 / 8) * 0.98 < found.rate <= capacity * 1.02
    assert len(said) == len(found.steps) == len(found.as_json()["steps"])
    assert found.why.endswith("did not hold")


def test_a_rate_that_costs_quality_is_not_capacity() -> None:
    assert find_capacity(PLAN, service(1_000, full=120)).rate <= 120


def test_a_service_that_does_not_hold_the_first_rate_has_none() -> None:
    found = find_capacity(PLAN, service(5))
    assert (found.rate, len(found.steps)) == (0.0, 1)
    assert "25/s, where the search starts, did not hold" in found.why


def test_the_most_that_may_be_tried_ends_the_search() -> None:
    found = find_capacity(PLAN, service(1e9), search=Search(most=200.0))
    assert found.rate == 200
    assert "held" in found.why


def test_a_late_generator_is_given_a_second_chance_and_then_ends_the_search() -> None:
    said: list[str] = []
    found = find_capacity(PLAN, service(1e9, late=lambda rate: rate > 90), say=said.append)
    assert found.rate == 50
    assert found.why == "the generator was late at 100/s"
    assert found.steps[-1].summary.late
    assert "once more" in said[-1]


def test_overload_reports_goodput_against_the_peak() -> None:
    runs = overload(PLAN, service(300), 280, (0.5, 1, 3), seconds=2.0)
    assert list(runs.runs) == [0.5, 1, 3]
    assert runs.runs[0.5].goodput == pytest.approx(140, rel=0.2)
    assert runs.kept == pytest.approx(1.0, abs=0.15)
    assert not runs.late
    found = runs.as_json()
    assert [run["offered"] for run in found["runs"]] == [140, 280, 840]
    assert found["runs"][2]["shed"] > 0


@pytest.mark.parametrize(("capacity", "multiples"), [(0.0, (1,)), (10.0, ()), (10.0, (-1,)), (1e6, (3,))])
def test_what_cannot_be_offered_is_refused(capacity: float, multiples: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="can't offer"):
        overload(PLAN, service(1), capacity, multiples, seconds=10)


def test_a_search_says_how_long_it_takes_at_most() -> None:
    search = Search(start=25, most=100, halvings=2, seconds=3, settle=1, rest=1)
    assert search.longest == 5 * 5
    steps = find_capacity(PLAN, service(60), search=search).steps
    assert len(steps) * 5 <= search.longest
