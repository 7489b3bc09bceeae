import tempfile
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abtest import Experiments
from abtest.exposure_record import Entry, LineEncoder, json_line
from abtest.exposure_record import rows as fields
from tests.abtest.documents import KNOB, NOW
from tests.abtest_edge.logs import FORMATS, Clock, Format, assigned, log_at, record, requests, rows, sliced

FOUND = (
    *(assigned(unit).found[1] for unit in ("u1", "u2", '用户💰\0"%s', 7)),
    assigned(None).found[1],
    *(assigned(7, {"re_rank": label}).found[1] for label in ("exp_mmr@1/control", "exp_mmr@1/diverse")),
    assigned(None, {"re_rank": "exp_mmr@1/control"}).found[1],
    *(sliced(NOW + hours * 3600).found[1] for hours in range(4)),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("record"), st.integers(1, 6)),
        st.tuples(st.just("flush"), st.just(0)),
        st.tuples(st.just("wait"), st.integers(-100, 100)),
    ),
    max_size=30,
)


@pytest.mark.parametrize("format", FORMATS)
@settings(max_examples=40, deadline=None)
@given(steps=STEPS, capacity=st.integers(1, 8), rotate=st.integers(1, 7))
def test_every_record_is_written_waits_or_is_counted(
    format: Format, steps: list[tuple[str, int]], capacity: int, rotate: int
) -> None:
    with tempfile.TemporaryDirectory() as made:
        folder, clock = Path(made), Clock()
        log = log_at(
            folder, format, clock, capacity=capacity, rotate_rows=rotate, rotate_bytes=300 * rotate, keep=10_000
        )
        recorded, queued, expected = 0, 0, []
        for step, count in steps:
            if step == "record":
                for _ in range(count):
                    record(log, str(recorded))
                    if queued < capacity:
                        queued += 1
                        expected.append(str(recorded))
                    recorded += 1
            elif step == "flush":
                log.flush()
                queued = 0
            else:
                clock.now += count
            assert log.written + log.dropped + len(log) == recorded
        log.close()
        record(log, "late")
        log.flush()
        log.close()
        assert (log.written, len(log)) == (len(expected), 0)
        assert log.written + log.dropped == recorded + 1
        assert requests(folder, format) == expected


@pytest.mark.parametrize("format", FORMATS)
@settings(max_examples=30, deadline=None)
@given(unit=st.text(min_size=1, max_size=40), request_id=st.text(max_size=20), now=st.floats(0, 1e11))
def test_any_text_and_time_survive(format: Format, unit: str, request_id: str, now: float) -> None:
    with tempfile.TemporaryDirectory() as made:
        log = log_at(Path(made), format)
        record(log, request_id, assigned(unit), now=now)
        log.close()
        (row,) = rows(Path(made), format)
        assert (row["unit"], row["request_id"], row["time"]) == (unit, request_id, now)


@settings(max_examples=60, deadline=None)
@given(
    entries=st.lists(
        st.tuples(
            st.floats(0, 1e11),
            st.text(st.characters(), max_size=20),  # lone surrogates too
            st.sampled_from(("home", "dis%(cover")),
            st.sampled_from(("c1", "c2")),
            st.sampled_from((frozenset({KNOB}), frozenset({KNOB, "other"}), frozenset({"other"}))),
            st.lists(st.sampled_from(FOUND), min_size=1, max_size=3),
        ),
        max_size=8,
    )
)
def test_the_quick_encoder_makes_the_lines_of_the_plain_one(entries: list[Entry]) -> None:
    assert LineEncoder().lines(entries) == [json_line(row) for entry in entries for row in fields(entry)]


def test_what_the_encoder_keeps_of_old_configurations_is_bounded() -> None:
    encoder = LineEncoder()
    for number in range(500):
        entry = (NOW, "r", "home", str(number), frozenset({KNOB}), (FOUND[0],))
        assert encoder.lines([entry]) == [json_line(row) for row in fields(entry)]
    assert len(encoder._around) <= 64


@pytest.mark.parametrize("format", FORMATS)
def test_threads_lose_nothing_uncounted_and_each_keeps_its_order(tmp_path: Path, format: Format) -> None:
    threads, each = 4, 1500
    log = log_at(tmp_path, format, capacity=400, rotate_rows=700, rotate_bytes=200_000, keep=99, interval=0.001)
    log.start()
    begin = threading.Barrier(threads)

    def work(number: int) -> None:
        begin.wait()
        for at in range(each):
            record(log, f"{number}:{at}")

    started = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    log.close()
    found = requests(tmp_path, format)
    assert log.written == len(found) == len(set(found)) > 0
    assert log.written + log.dropped == threads * each
    for number in range(threads):
        places = [int(at) for by, at in (request_id.split(":") for request_id in found) if int(by) == number]
        assert places == sorted(places)


@pytest.mark.parametrize("format", FORMATS)
def test_recording_while_the_log_closes_is_written_or_counted(tmp_path: Path, format: Format) -> None:
    log = log_at(tmp_path, format, capacity=100_000)
    log.start()
    counted: Counter[str] = Counter()
    going, done = threading.Event(), threading.Event()

    def work() -> None:
        while not done.is_set():
            record(log, str(counted["recorded"]))
            counted["recorded"] += 1
            going.set()

    thread = threading.Thread(target=work)
    thread.start()
    going.wait()
    log.close()
    done.set()
    thread.join()
    assert log.written + log.dropped == counted["recorded"]
    assert requests(tmp_path, format) == [str(number) for number in range(log.written)]


def test_the_records_of_a_request_are_queued_or_dropped_together(tmp_path: Path) -> None:
    layers: dict[str, Any] = {}
    params: dict[str, Any] = {}
    for number in range(5):
        params[f"p{number}"] = {"int": [0, 1], "default": 0, "layer": f"home/l{number}"}
        buckets = {"control": {"weight": 10000, "control": True, "set": {f"p{number}": 0}}}
        entry = {"owner": "a", "status": "running", "slots": [[0, 10000]], "buckets": buckets}
        layers[f"l{number}"] = {"unit": "user_id", "experiments": {f"e{number}@1": entry}}
    source = {"params": params, "scenes": {"home": {"layers": layers}}}
    experiments, problems = Experiments.compile(source, {}, ["home"])
    assert experiments is not None, problems
    log = log_at(tmp_path, capacity=2, rotate_rows=7)
    for request_id, read in (("a", params.keys()), ("b", {"p3", "p1", "q"}), ("c", params.keys())):
        log.record(experiments.assign("home", {"user_id": 1}, {}, 0.0), read, request_id, "home", 0.0, "c")
    assert (len(log), log.dropped) == (7, 5)
    log.close()
    assert [(row["request_id"], row["layer"]) for row in rows(tmp_path)] == [
        *(("a", f"l{number}") for number in range(5)),
        ("b", "l1"),
        ("b", "l3"),
    ]
