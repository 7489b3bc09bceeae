from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.load.plan import Phase, Plan, RequestClass, schedule
from app.load.requests import recommend_requests, request_bytes

ADDRESS = ("127.0.0.1", 1)
HOME, PREFETCH = RequestClass("home", (b"h",), weight=3), RequestClass("prefetch", (b"p",), weight=1)
rates = st.lists(st.tuples(st.floats(0, 300), st.floats(0.01, 5)), min_size=1, max_size=4)


@settings(max_examples=50, deadline=None)
@given(rates, st.integers(0, 2**32))
def test_arrivals_are_in_order_and_inside_their_phase(chosen: list[tuple[float, float]], seed: int) -> None:
    phases = tuple(Phase(str(at), rate, seconds) for at, (rate, seconds) in enumerate(chosen))
    plan = Plan(ADDRESS, (HOME, PREFETCH), phases, seed=seed)
    made = schedule(plan)
    ends = np.cumsum([phase.seconds for phase in phases])
    assert (np.diff(made.due) >= 0).all()
    assert (made.due <= ends[made.phase]).all()
    assert (made.due >= (ends - [phase.seconds for phase in phases])[made.phase]).all()
    assert (schedule(plan).due == made.due).all()


def test_arrivals_are_poisson_at_each_phases_rate() -> None:
    made = schedule(Plan(ADDRESS, (HOME,), (Phase("slow", 100, 50), Phase("fast", 1_000, 50)), seed=3))
    for phase, rate in enumerate((100, 1_000)):
        due = made.due[made.phase == phase]
        gaps = np.diff(due)
        assert len(due) == pytest.approx(rate * 50, abs=5 * np.sqrt(rate * 50))
        assert gaps.std() == pytest.approx(gaps.mean(), rel=0.1)  # exponential: neither regular nor in bursts
        assert (gaps > 2 / rate).mean() == pytest.approx(np.exp(-2), abs=0.03)


def test_classes_come_by_weight_and_a_phase_may_change_the_weights() -> None:
    phases = (Phase("usual", 2_000, 5), Phase("spike", 2_000, 5, {"prefetch": 57}), Phase("alone", 100, 5, {"home": 0}))
    made = schedule(Plan(ADDRESS, (HOME, PREFETCH), phases))
    share = [float((made.kind[made.phase == phase] == 1).mean()) for phase in range(3)]
    assert share == pytest.approx([0.25, 0.95, 1.0], abs=0.02)


@pytest.mark.parametrize(
    ("phases", "more", "wrong"),
    [
        ((), {}, "1 to 255"),
        ((Phase("a", 1, 1), Phase("a", 1, 1)), {}, "its own name"),
        ((Phase("a", -1, 1),), {}, "rates"),
        ((Phase("a", float("nan"), 1),), {}, "rates"),
        ((Phase("a", 1, 0),), {}, "positive"),
        ((Phase("a", 1e6, 3600),), {}, "requests"),
        ((Phase("a", 1, 1, {"hom": 1}),), {}, r"no class \['hom'\]"),
        ((Phase("a", 1, 1, {"home": 0}),), {}, "not all 0"),
        ((Phase("a", 1, 1),), {"connections": 0}, "connections"),
        ((Phase("a", 1, 1),), {"timeout": 0.0}, "positive"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(phases: tuple[Phase, ...], more: dict[str, float], wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        Plan(ADDRESS, (HOME,), phases, **more)  # type: ignore[arg-type]  # mixed on purpose


def test_requests_are_whole_http() -> None:
    first, second = recommend_requests(
        "home", ("ä", None), size=5, host="h:1", headers={"x-key": "k"}, priority="batch"
    )
    head, _, body = first.partition(b"\r\n\r\n")
    assert head.split(b"\r\n")[0] == b"POST /recommend HTTP/1.1"
    assert {b"host: h:1", b"x-key: k", b"content-length: %d" % len(body)} < set(head.split(b"\r\n"))
    assert body == b'{"scene": "home", "user_id": "\\u00e4", "size": 5, "priority": "batch"}'
    assert b'"user_id": null' in second
    assert request_bytes(b"[]", "/events").startswith(b"POST /events HTTP/1.1\r\nhost: 127.0.0.1\r\n")
