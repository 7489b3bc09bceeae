"""The breaker alone: what opens it, what closes it, and what can't happen whatever the calls do."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from features.breaker import ANSWERED, CLOSED, FAILED, HALF_OPEN, LATE, OPEN, UNKNOWN, Breaker, Verdict

FIRST, LONGEST = 0.25, 0.5


def told(breaker: Breaker, *verdicts: Verdict, start: float = 0.0, apart: float = 0.0) -> Breaker:
    """Calls one after the other; those that aren't admitted aren't made."""
    for i, verdict in enumerate(verdicts):
        now = start + i * apart
        if ticket := breaker.admit(now):
            breaker.settle(ticket, verdict, now)
    return breaker


def open_at(now: float) -> Breaker:
    return told(Breaker(), *[LATE] * 5, start=now)


def test_half_of_ten_calls_open_it_and_fewer_do_not() -> None:
    assert told(Breaker(), *[ANSWERED] * 5, *[FAILED] * 4).state is CLOSED
    assert told(Breaker(), *[FAILED] * 9).state is CLOSED
    assert told(Breaker(), *[ANSWERED] * 6, *[FAILED] * 5).state is CLOSED
    assert told(Breaker(), *[ANSWERED] * 5, *[FAILED] * 5).state is OPEN


def test_failures_older_than_the_window_do_not_count() -> None:
    assert told(Breaker(), *[FAILED] * 40, apart=0.12).state is CLOSED
    assert told(Breaker(), *[FAILED] * 40, apart=0.05).state is OPEN
    breaker = told(Breaker(), *[FAILED] * 9)
    assert told(breaker, FAILED, start=1.0).state is CLOSED


def test_five_late_calls_in_a_row_open_it_however_rare_they_are() -> None:
    assert told(Breaker(), *[LATE] * 4, ANSWERED, *[LATE] * 4, apart=60.0).state is CLOSED
    assert told(Breaker(), *[LATE] * 5, apart=60.0).state is OPEN


def test_calls_that_say_nothing_never_open_it() -> None:
    assert told(Breaker(), *[LATE] * 4, *[UNKNOWN] * 100).state is CLOSED


def test_open_lets_nothing_through_until_one_probe_may_go() -> None:
    breaker = open_at(100.0)
    assert breaker.opened == 1
    assert not breaker.admit(100.0 + FIRST - 0.001)
    assert breaker.admit(100.0 + FIRST)
    assert breaker.state is HALF_OPEN
    assert not breaker.admit(1e9)


def test_pauses_between_failed_probes_grow_to_the_longest_and_start_anew_next_time() -> None:
    breaker, now, waits = open_at(0.0), 0.0, []
    for _ in range(4):
        begun = now
        while not (ticket := breaker.admit(now)):
            now += 0.125
        waits.append(now - begun)
        breaker.settle(ticket, FAILED, now)
    assert waits == [FIRST, LONGEST, LONGEST, LONGEST]
    breaker.close()
    told(breaker, *[LATE] * 5, start=now)
    assert breaker.admit(now + FIRST)


def test_an_answered_probe_closes_with_a_clean_slate() -> None:
    breaker = told(Breaker(), *[FAILED] * 10)
    breaker.settle(breaker.admit(FIRST), ANSWERED, FIRST)
    assert told(breaker, *[LATE] * 4, *[FAILED] * 5, start=FIRST).state is CLOSED
    assert breaker.opened == 1


def test_a_probe_that_was_given_up_is_followed_by_another() -> None:
    breaker = open_at(0.0)
    breaker.settle(breaker.admit(FIRST), UNKNOWN, FIRST + 0.01)
    assert not breaker.admit(2 * FIRST - 0.01)
    assert breaker.admit(2 * FIRST)


@pytest.mark.parametrize("verdict", Verdict)
def test_what_was_asked_before_it_opened_has_no_say_afterwards(verdict: Verdict) -> None:
    breaker = Breaker()
    early = breaker.admit(0.0)
    told(breaker, *[LATE] * 5)
    breaker.settle(early, verdict, 0.1)
    assert breaker.state is OPEN
    probe = breaker.admit(FIRST)
    breaker.settle(early, verdict, FIRST)
    assert breaker.state is HALF_OPEN
    breaker.settle(probe, ANSWERED, FIRST)
    told(breaker, *[FAILED] * 9)
    breaker.settle(early, verdict, FIRST)
    assert breaker.state is CLOSED


def test_an_answer_from_elsewhere_closes_it_and_overrides_the_probe_on_its_way() -> None:
    breaker = open_at(0.0)
    probe = breaker.admit(FIRST)
    breaker.close()
    breaker.settle(probe, LATE, 1.0)
    assert breaker.state is CLOSED


MOVES = st.one_of(
    st.tuples(st.just("wait"), st.floats(0.0, 0.4)),
    st.tuples(st.just("ask"), st.none()),
    st.tuples(st.just("settle"), st.tuples(st.integers(0, 1000), st.sampled_from(Verdict))),
    st.tuples(st.just("burst"), st.sampled_from(Verdict)),
)


@given(st.lists(MOVES, max_size=60))
def test_whatever_calls_do_there_is_one_probe_at_a_time_and_a_way_back(moves: list[tuple[str, object]]) -> None:
    """Calls overlap, and end in any order: that is all that a loop with many requests can do to it."""
    breaker, now = Breaker(), 0.0
    flying: list[tuple[int, bool]] = []
    probed: list[float] = []

    def ask() -> None:
        closed = breaker.state is CLOSED
        ticket = breaker.admit(now)
        assert not closed or ticket
        if ticket:
            flying.append((ticket, not closed))
            if not closed:
                probed.append(now)

    for word, value in moves:
        if word == "wait":
            assert isinstance(value, float)
            now += value
        elif word == "ask":
            ask()
        elif word == "burst":
            assert isinstance(value, Verdict)
            if breaker.state is CLOSED:
                told(breaker, *[value] * 10, start=now)
        elif flying:
            assert isinstance(value, tuple)
            ticket, _ = flying.pop(value[0] % len(flying))
            breaker.settle(ticket, value[1], now)
        assert sum(probe for _, probe in flying) <= 1
        assert (breaker.state is HALF_OPEN) == any(probe for _, probe in flying)
        if breaker.state is CLOSED:
            probed.clear()
    # Within one opening, probes are a pause apart.
    assert all(later - earlier >= FIRST - 1e-9 for earlier, later in pairwise(probed))
    # The dependency is back: what is on its way ends, and one pause later a call closes the breaker.
    for ticket, _ in flying:
        breaker.settle(ticket, UNKNOWN, now)
    now += LONGEST
    told(breaker, ANSWERED, start=now)
    assert breaker.state is CLOSED


@given(st.lists(st.tuples(st.floats(0.0, 0.3), st.sampled_from([ANSWERED, FAILED, LATE])), max_size=80))
def test_it_opens_only_for_a_reason(calls: list[tuple[float, Verdict]]) -> None:
    breaker, now, log = Breaker(), 0.0, list[tuple[float, Verdict]]()
    for wait, verdict in calls:
        now += wait
        log.append((now, verdict))
        told(breaker, verdict, start=now)
        if breaker.state is OPEN:
            break
    if breaker.state is CLOSED:
        return
    answered = [i for i, (_, verdict) in enumerate(log) if verdict is ANSWERED]
    in_a_row = [verdict for _, verdict in log[answered[-1] + 1 if answered else 0 :]]
    recent = [[verdict for _, verdict in log[i:]] for i, (then, _) in enumerate(log) if now - then <= 1.0]
    often = [some for some in recent if len(some) >= 10 and sum(v is not ANSWERED for v in some) >= len(some) / 2]
    assert often or in_a_row.count(LATE) >= 5
