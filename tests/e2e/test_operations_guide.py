"""docs/operations.md names what a running service shows."""

from __future__ import annotations

import re
from pathlib import Path

from app.faults.scenarios import scenarios
from tests.service import Service

GUIDE = (Path(__file__).parents[2] / "docs" / "operations.md").read_text(encoding="utf-8")


def test_every_metric_is_in_the_guide_and_the_guide_names_no_other(service: Service) -> None:
    service.ask()
    _, _, content = service.request("GET", "/metrics", operator=True)
    families = re.findall(r"^# TYPE (recserve_\w+) (\w+)$", content.decode(), re.MULTILINE)
    exported = {name if kind != "counter" or name.endswith("_total") else f"{name}_total" for name, kind in families}
    table = GUIDE.partition("## Metrics")[2].partition("\n## ")[0]
    named = set(re.findall(r"`(recserve_\w+)", table))
    with_clients = {"recserve_unauthorized_total", "recserve_rate_limited_total"}
    assert named == exported | with_clients


def test_every_scenario_of_the_fault_kit_is_in_the_run_book() -> None:
    book = GUIDE.partition("## Run-book")[2].partition("\n## ")[0]
    assert set(re.findall(r"`(\w+)`", book)) >= scenarios().keys()
