"""Metrics and logs."""

import io
import json
import logging
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.logs import ACCESS, AccessLog, BoundedQueueHandler, LogPipeline
from app.observe import STEP_BOUNDS, Histogram, Metrics


@given(st.lists(st.floats(0, 10)))
def test_buckets_are_cumulative_and_hold_everything(values: list[float]) -> None:
    histogram = Histogram(STEP_BOUNDS)
    for value in values:
        histogram.observe(value)
    for bound, count in histogram.buckets():
        assert count == sum(value <= float(bound) for value in values)
    assert histogram.total == pytest.approx(sum(values))


def test_steps_are_exposed_by_name_and_outcome() -> None:
    metrics = Metrics()
    metrics.observe_step("recall.vector", 0.0006, "ok")
    metrics.observe_step("recall.vector", 0.03, "timeout")
    metrics.counter("exposures_dropped", "Dropped.", lambda: 4)
    metrics.gauge("queue_depth", "Queued.", lambda: 7)
    text = metrics.exposition().decode()
    for line in (
        'recserve_step_seconds_bucket{le="0.001",step="recall.vector"} 1.0',
        'recserve_step_seconds_count{step="recall.vector"} 2.0',
        'recserve_steps_total{outcome="timeout",step="recall.vector"} 1.0',
        "recserve_exposures_dropped_total 4.0",
        "recserve_queue_depth 7.0",
    ):
        assert line in text


def test_two_sets_of_metrics_share_nothing() -> None:
    one, other = Metrics(), Metrics()
    one.observe_request("/recommend", 200, 0.01)
    assert "recserve_requests_total{" not in other.exposition().decode()


def test_logs_are_json_lines_with_fields_and_traceback() -> None:
    stream = io.StringIO()
    logger = logging.getLogger("recserve.test")
    before = logging.getLogger().handlers[:]
    with LogPipeline(stream):
        logger.info("started %d", 3, extra={"fields": {"port": 8000}})
        try:
            raise KeyError("x")
        except KeyError:
            logger.exception("bad \udcff name")
        AccessLog(every=2).write("/recommend", 200, 0.0123, "r-1")
        log = AccessLog(every=2)
        for _ in range(4):
            log.write("/recommend", 200, 0.0123, "r-1")
    assert logging.getLogger().handlers == before
    started, failed, *access = map(json.loads, stream.getvalue().splitlines())
    assert (started["message"], started["port"], started["level"]) == ("started 3", 8000, "info")
    assert "KeyError" in failed["traceback"]
    assert [line["ms"] for line in access] == [12.3, 12.3]


def test_a_stalled_sink_drops_and_counts_and_keeps_room_for_errors() -> None:
    handler = BoundedQueueHandler(8)  # nobody reads the queue
    access, error = (
        logging.LogRecord(name, logging.INFO, __file__, 1, "x", None, None) for name in (ACCESS, "recserve.http")
    )
    for _ in range(10):
        handler.emit(access)
    assert (handler.queue.qsize(), handler.dropped) == (4, 6)
    for _ in range(5):
        handler.emit(error)
    assert (handler.queue.qsize(), handler.dropped) == (8, 7)


def test_logging_never_waits_for_the_sink() -> None:
    class Stalled(io.StringIO):
        go = threading.Event()

        def write(self, text: str) -> int:
            self.go.wait(10)
            return super().write(text)

    stream = Stalled()
    with LogPipeline(stream, size=4) as pipeline:
        for _ in range(100):
            logging.getLogger("recserve.test").warning("x")
        assert pipeline.dropped >= 95
        stream.go.set()


def test_lines_that_a_full_disk_does_not_take_are_counted() -> None:
    class Full(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(28, "No space left on device")

    with LogPipeline(Full()) as pipeline:
        for _ in range(3):
            logging.getLogger("recserve.test").warning("x")
    assert pipeline.dropped == 3
