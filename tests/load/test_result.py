from __future__ import annotations

import json

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram
from hypothesis import given, settings
from hypothesis import strategies as st

from app.load.plan import Phase, schedule
from app.load.result import Connections, Result
from app.load.samples import TIMEOUT, Names, Recorder
from app.load.summary import LATE_AFTER, Latency
from tests.load.server import document, plan


def finished(*, late: float = 0.0, rate: float = 100.0) -> Result:
    """A run of 2.5 s that never was: 10 ms each, the last request unanswered."""
    made = plan(("127.0.0.1", 1), Phase("one", rate, 2.5))
    recorder = Recorder(schedule(made))
    n = len(recorder.outcome)
    for request in range(n):
        recorder.late[request], recorder.latency[request], recorder.outcome[request] = late, 0.01, 200
        recorder.read(request, document(degraded=[{"step": "a", "reason": "b"}]))
    if n:
        recorder.outcome[n - 1], recorder.latency[n - 1] = TIMEOUT, 2.0
    samples, versions, reasons = recorder.samples(), recorder.versions.texts(), recorder.reasons.texts()
    phases = {"one": (0.0, 2.5)}
    return Result(7.0, 2.6, 0.1, {"home": 0.12}, phases, samples, versions, reasons, Connections(1, 0, 0, 0))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(1e-6, 100), min_size=1, max_size=200))
def test_percentiles_are_those_of_the_latencies_to_three_digits(seconds: list[float]) -> None:
    latency = Latency.of(np.array(seconds))
    for share, found in ((50, latency.p50), (99, latency.p99), (99.9, latency.p999)):
        rank = max(int(share * len(seconds) / 100 + 0.5), 1)
        assert found == pytest.approx(sorted(seconds)[rank - 1], rel=2e-3, abs=1.5e-6)
    assert latency.most == pytest.approx(max(seconds), abs=1e-6)
    assert HdrHistogram.decode(latency.encoded).get_total_count() == len(seconds)


def test_the_generators_own_lateness_is_reported() -> None:
    on_time, late = finished(late=LATE_AFTER * 0.9).summary(), finished(late=LATE_AFTER * 1.1).summary()
    assert (on_time.late, late.late) == (False, True)
    assert late.late_most == pytest.approx(LATE_AFTER * 1.1)
    assert late.as_json()["generator"] == {"late": True, "p99_ms": 11.0, "max_ms": 11.0}


def test_a_result_survives_the_pipe() -> None:
    result = finished()
    back = Result.unpack(result.pack())
    assert back.as_json() == result.as_json()
    assert back.started == 7.0
    for name, column in vars(result.samples).items():
        assert getattr(back.samples, name).dtype == column.dtype
        assert np.array_equal(getattr(back.samples, name), column)


def test_the_json_has_counts_percentiles_a_series_and_who_answered() -> None:
    result = finished()
    n = len(result.samples)
    found = json.loads(json.dumps(result.as_json()))
    assert set(found) == {
        "wall_seconds", "generator_cpu_seconds", "seconds", "sent", "answered", "served", "good", "full", "empty",
        "shed", "failed", "rate", "goodput", "availability", "full_share", "outcomes", "levels", "latency_ms",
        "generator", "phases", "classes", "series", "served_by", "degraded", "connections",
    }  # fmt: skip
    assert found["outcomes"] == {"timeout": 1, "200": n - 1}
    assert (found["full"], found["good"], found["failed"]) == (0, n - 1, 1)
    assert found["latency_ms"]["p99"] == pytest.approx(10, rel=2e-3)
    assert found["degraded"] == {"a: b": n}
    assert found["served_by"] == [{"config": "9f2c01ab34de", "release": "r1", "answers": n}]
    assert [second["at"] for second in found["series"]] == [0, 1, 2]
    assert sum(second["sent"] for second in found["series"]) == n
    assert found["phases"]["one"]["sent"] == found["classes"]["home"]["sent"] == n


def test_a_stretch_counts_by_intended_time() -> None:
    result = finished()
    inside = (result.samples.due >= 0.5) & (result.samples.due < 1.0)
    assert result.between(0.5, 1.0).sent == inside.sum()
    assert result.between(0.5, 1.0).seconds == 0.5
    assert sum(result.pairs(0.5, 1.0).values()) == inside.sum()


def test_nothing_sent_sums_up_to_nothing() -> None:
    empty = finished(rate=0.0).summary()
    assert (empty.sent, empty.availability, empty.goodput, empty.late) == (0, 1.0, 0.0, False)
    assert empty.latency.p99 == 0.0


def test_names_past_the_limit_count_as_one() -> None:
    names = Names()
    numbers = [names.number(b"%d" % at) for at in range(3_000)]
    assert numbers[:1_023] == list(range(1, 1_024))
    assert set(numbers[1_023:]) == {1_024}
    assert names.texts()[1_023] == b""
