"""Admission against a simulated queue: it keeps the server busy, waits short, and sheds in the right order."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.admission import SHARES, Admission
from app.limits import AdaptiveLimit, CoDel, WorkAhead
from app.problems import Problem
from tests.http.queueing import Queue

SEEDS = pytest.mark.parametrize("seed", range(4))


@SEEDS
@pytest.mark.parametrize("service", [0.001, 0.003, 0.005])
def test_at_three_times_capacity_the_server_is_busy_and_waits_are_bounded(seed: int, service: float) -> None:
    result = Queue(seed=seed, service=service).run({"interactive": 3.0}, 8.0)
    assert result.utilisation >= 0.95
    assert result.waited(0.5) <= 0.02
    assert result.waited(0.99) <= 0.06


@SEEDS
def test_at_capacity_waits_are_bounded(seed: int) -> None:
    result = Queue(seed=seed).run({"interactive": 1.0}, 8.0)
    assert result.utilisation >= 0.8
    assert result.waited(0.99) <= 0.1


@SEEDS
def test_at_half_the_capacity_next_to_nothing_is_shed(seed: int) -> None:
    result = Queue(seed=seed, service=0.002).run({"interactive": 0.5}, 8.0)
    assert result.admitted_share("interactive") >= 0.995


@SEEDS
@pytest.mark.parametrize("share", [0.2, 0.25, 0.4])
def test_a_twelvefold_prefetch_spike_is_shed_before_interactive_requests(seed: int, share: float) -> None:
    queue = Queue(seed=seed)
    queue.run(lambda now: {"interactive": share, "prefetch": 0.25 if now < 1.0 else 3.0}, 8.0)
    assert queue.result.admitted_share("interactive") >= 0.99
    assert queue.result.utilisation >= 0.8
    assert queue.result.admitted_share("prefetch") < 0.6


@SEEDS
def test_batch_is_shed_before_prefetching(seed: int) -> None:
    result = Queue(seed=seed).run({"interactive": 0.2, "prefetch": 0.2, "batch": 3.0}, 8.0)
    assert result.admitted_share("interactive") >= 0.99
    assert result.admitted_share("prefetch") >= 0.9
    assert result.admitted_share("batch") < 0.4


@SEEDS
def test_a_slow_store_at_low_load_sheds_nothing(seed: int) -> None:
    result = Queue(seed=seed, service=0.001, away=0.5).run({"interactive": 0.04}, 8.0)
    assert sum(result.admission.shed.values()) == 0


@SEEDS
def test_after_an_overload_everybody_is_let_in_again(seed: int) -> None:
    queue = Queue(seed=seed, service=0.002)
    queue.run(lambda now: {"interactive": 3.0 if now < 3.0 else 0.3}, 5.0)
    before = sum(queue.admission.shed.values()), queue.result.offered["interactive"]
    queue.run(lambda now: {"interactive": 0.3}, 5.0)
    shed, offered = sum(queue.admission.shed.values()) - before[0], queue.result.offered["interactive"] - before[1]
    assert shed <= 0.005 * offered
    assert queue.admission.limit >= 48


def test_a_long_wait_alone_does_not_let_the_queue_run_dry() -> None:
    now = [0.0]
    admission = Admission(64, clock=lambda: now[0], wait=lambda: 1.0)
    for _ in range(1000):
        now[0] += 0.01
        assert admission.try_enter()
        admission.leave()


@given(
    limit=st.integers(1, 100),
    steps=st.lists(st.tuples(st.sampled_from([*SHARES, "leave"]), st.floats(0, 0.2), st.floats(0, 0.05))),
)
def test_no_more_than_the_limit_is_ever_in_flight(limit: int, steps: list[tuple[str, float, float]]) -> None:
    now, wait = [0.0], [0.0]
    admission = Admission(limit, clock=lambda: now[0], wait=lambda: wait[0])
    held = refused = 0
    for what, seconds, waited in steps:
        now[0], wait[0] = now[0] + seconds, waited
        if what == "leave":
            if held:
                held -= 1
                admission.leave()
        elif admission.try_enter(what):  # type: ignore[arg-type] # a class
            held += 1
        else:
            refused += 1
        assert admission.in_flight == held <= limit
    assert sum(admission.shed.values()) == refused


def test_no_more_are_let_in_than_can_be_answered_within_the_horizon() -> None:
    """Before any wait was seen: what a request costs is known, and an overload's first burst comes at once."""
    now, cpu = [0.0], [0.0]
    admission = Admission(64, clock=lambda: now[0], ahead=WorkAhead(lambda: cpu[0], 0.0601))
    assert admission.limit == 64
    for _ in range(40):
        assert admission.try_enter()
        cpu[0] += 0.005
        now[0] += 0.03
        admission.leave()
    assert admission.limit == 12
    assert sum(admission.try_enter() for _ in range(64)) == 12
    for _ in range(12):
        admission.leave()
    for _ in range(200):  # the ladder has made requests cheaper
        assert admission.try_enter()
        cpu[0] += 0.001
        now[0] += 0.03
        admission.leave()
    assert 50 <= admission.limit <= 64


def test_what_the_process_does_at_its_start_and_between_requests_is_not_their_cost() -> None:
    now, cpu = [0.0], [0.0]
    admission = Admission(64, clock=lambda: now[0], ahead=WorkAhead(lambda: cpu[0], 0.0601))

    def answer(count: int) -> None:
        for _ in range(count):
            assert admission.try_enter()
            cpu[0] += 0.005
            now[0] += 0.03
            admission.leave()

    cpu[0], now[0] = 2.0, 5.0  # models were loaded
    answer(40)
    assert admission.limit == 12
    for _ in range(5):  # a night each
        cpu[0] += 60.0
        now[0] += 36_000.0
        answer(4)
        assert admission.limit == 12


def test_a_request_that_costs_the_whole_horizon_leaves_the_floor() -> None:
    cpu = [0.0]
    ahead = WorkAhead(lambda: cpu[0], 0.06)
    admission = Admission(64, clock=lambda: cpu[0], ahead=ahead)
    for _ in range(20):
        assert admission.try_enter()
        cpu[0] += 1.0
        admission.leave()
    assert admission.limit == 4


def test_work_that_outlived_its_request_takes_places() -> None:
    abandoned = [0]
    admission = Admission(4, abandoned=lambda: abandoned[0])
    assert admission.try_enter()
    abandoned[0] = 3
    assert admission.full
    assert not admission.try_enter()
    abandoned[0] = 2
    assert admission.try_enter()


def test_without_a_wait_the_limit_stands_still() -> None:
    admission = Admission(2)
    assert [admission.try_enter() for _ in range(3)] == [True, True, False]
    admission.leave()
    assert admission.try_enter()
    assert (admission.in_flight, admission.shed["interactive"]) == (2, 1)
    with pytest.raises(ValueError, match="at least 1"):
        Admission(0)


def test_a_refusal_names_the_class_and_the_place_comes_back_after_an_error() -> None:
    admission = Admission(10)
    places = [admission.place("interactive") for _ in range(6)]
    for place in places:
        place.__enter__()
    with pytest.raises(Problem) as refused, admission.place("prefetch"):
        pass
    assert (refused.value.kind, refused.value.status) == ("overloaded", 503)
    assert refused.value.detail.startswith("prefetch requests are refused")
    assert refused.value.headers == {"retry-after": "1"}
    with pytest.raises(KeyError), admission.place("interactive"):
        raise KeyError
    assert admission.in_flight == 6


def test_codel_refuses_ever_faster_while_the_wait_stands() -> None:
    codel = CoDel(0.01)
    refusals = []
    for at in range(3000):
        now = at / 1000
        if codel.due(now, 0.02):
            codel.refused(now)
            refusals.append(now)
    assert refusals[0] == pytest.approx(0.1)
    gaps = [round(b - a, 6) for a, b in itertools.pairwise(refusals)]
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[-1] < gaps[0] / 2
    assert not codel.due(3.0, 0.009)
    assert not codel.due(3.001, 0.02)


@given(st.lists(st.floats(0, 10), max_size=50), st.integers(1, 10), st.integers(0, 500))
def test_a_limit_stays_between_floor_and_ceiling(waits: list[float], floor: int, above: int) -> None:
    limit = AdaptiveLimit(floor, floor + above)
    for wait in waits:
        limit.follow(wait, 0.01)
        assert floor <= limit.value <= floor + above
