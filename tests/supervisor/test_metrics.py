"""Many processes' figures as one service's."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from app.observe import Metrics
from app.supervisor.messages import Family, Sample
from app.supervisor.metrics import Sums, exposition, merged


def worker(answers: int, seconds: float = 0.004) -> Metrics:
    metrics = Metrics()
    for _ in range(answers):
        metrics.observe_request("/recommend", 200, seconds)
    metrics.gauge("bodies", "Bodies.", lambda: 3.0)
    return metrics


def samples(text: bytes) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def test_counters_and_histograms_add_up_and_gauges_are_told_apart() -> None:
    one, other = worker(3).families(), worker(4, seconds=0.04).families()
    found = samples(exposition(merged([], [("0", one), ("1", other)])))
    route = ("route", "/recommend")
    assert found["recserve_requests_total", (route, ("status", "200"))] == 7
    assert found["recserve_request_seconds_bucket", (("le", "0.005"), route)] == 3
    assert found["recserve_request_seconds_bucket", (("le", "0.05"), route)] == 7
    assert found["recserve_request_seconds_bucket", (("le", "+Inf"), route)] == 7
    assert found["recserve_request_seconds_count", (route,)] == 7
    assert abs(found["recserve_request_seconds_sum", (route,)] - 0.172) < 1e-9
    assert [found["recserve_bodies", (("worker", slot),)] for slot in "01"] == [3, 3]
    assert ("process_resident_memory_bytes", (("worker", "0"),)) in found


def test_one_workers_text_is_its_own_but_for_the_label() -> None:
    metrics = worker(2)
    alone = {name: value for name, value in samples(metrics.exposition()).items() if name[0].startswith("recserve_")}
    through = samples(exposition(merged([], [("0", metrics.families())])))
    for (name, labels), value in alone.items():
        assert through.get((name, labels), through.get((name, (*labels, ("worker", "0"))))) == value


def test_what_ended_workers_counted_stays() -> None:
    gone = Sums()
    gone.add(worker(5).families())
    found = samples(exposition(merged(gone.families(), [("0", worker(1).families())])))
    assert found["recserve_requests_total", (("route", "/recommend"), ("status", "200"))] == 6
    assert not any(labels == (("worker", "gone"),) for _, labels in found)


def test_a_gauge_that_is_no_number_travels() -> None:
    family = Family("broken", "Broken.", "gauge", [Sample("broken", {}, None)])
    assert b'broken{worker="0"} NaN' in exposition(merged([], [("0", [family])]))


counts = st.dictionaries(st.sampled_from(["a", "b", "c"]), st.integers(0, 1000))


@given(st.lists(counts, max_size=5), st.lists(counts, max_size=5))
def test_the_sum_does_not_depend_on_who_has_ended(gone: list[dict[str, int]], living: list[dict[str, int]]) -> None:
    def families(cells: dict[str, int]) -> list[Family]:
        return [Family("x", "X.", "counter", [Sample("x_total", {"k": k}, v) for k, v in cells.items()])]

    ended = Sums()
    for cells in gone:
        ended.add(families(cells))
    [all_living] = merged([], [(str(at), families(c)) for at, c in enumerate([*gone, *living])]) or [None]
    [some_ended] = merged(ended.families(), [(str(at), families(c)) for at, c in enumerate(living)]) or [None]

    def cells(family: Family | None) -> dict[str, float]:
        return {} if family is None else {s.labels["k"]: s.value or 0.0 for s in family.samples}

    assert cells(all_living) == cells(some_ended)
