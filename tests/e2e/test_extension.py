"""A channel of one's own: a package outside the tree, one file and one line of YAML."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.shop import Shop
from tests.service import Place, ids, recserve, serving

FRESH = '''"""Channels of our shop."""

from recserve.sdk import Hits, Recaller, Ref, Table, View, component


@component("fresh")
class Fresh(Recaller):
    """The head of a prepared list."""

    table: Ref[Table]
    k: int = 50

    def recall(self, view: View) -> Hits:
        rows, scores = self.table.slice(0)
        return Hits(rows[: self.k], scores[: self.k])
'''
SLOW = '''"""Channels that misbehave."""

import asyncio

import numpy as np

from recserve.sdk import NO_HITS, Hits, Recaller, View, component


@component("late")
class Late(Recaller):
    async def recall(self, view: View) -> Hits:
        await asyncio.sleep(30)
        return Hits(np.array([0], np.int32), np.array([1.0], np.float32))


@component("broken")
class Broken(Recaller):
    def recall(self, view: View) -> Hits:
        if view.get("context.region") == "trouble":
            raise KeyError("a bug of the extension")
        return NO_HITS


@component("wild")
class Wild(Recaller):
    def recall(self, view: View) -> Hits:
        if view.get("context.region") == "trouble":
            return Hits(np.array([0, 10**6], np.int32), np.array([1.0, 2.0], np.float32))
        return NO_HITS
'''


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A folder for PYTHONPATH with the package shop_channels in it."""
    room = tmp_path / "elsewhere" / "shop_channels"
    room.mkdir(parents=True)
    (room / "__init__.py").write_text(FRESH)
    return room.parent


def extended(place: Place, line: str) -> None:
    place.replace("service.yaml", "extensions: []", "extensions: [shop_channels]")
    place.replace("scenes/home.yaml", "recall:\n", f"recall:\n  {line}\n")


def test_one_file_and_one_line_bring_a_channel(fresh: Callable[[], Place], package: Path, shop: Shop) -> None:
    place = fresh()
    env = {"PYTHONPATH": str(package)}
    with serving(place, env=env) as service:
        before = service.ask("home", shop.user_ids[0], size=50)
        extended(place, "fresh: {table: popular, k: 30}")
        assert service.reload() == []
        after = service.ask("home", shop.user_ids[0], size=50)
        assert after["config"] != before["config"]
        assert len(ids(after)) == 50
        assert after["degraded"] == []
        assert [item for item in after["items"] if "fresh" in item["channels"]]
        assert b'step="recall.fresh"' in service.request("GET", "/metrics", operator=True)[2]
        trace = service.ask("home", shop.user_ids[0], debug=True)["trace"]
        assert next(step["out"] for step in trace["steps"] if step["name"] == "recall.fresh") == 30
    checked = recserve("check", "--config", place.configs, env=env)
    assert checked.returncode == 0, checked.stderr


def test_a_package_that_cannot_be_imported_is_named_with_file_and_line(fresh: Callable[[], Place]) -> None:
    place = fresh()
    extended(place, "fresh: {table: popular, k: 30}")
    checked = recserve("check", "--config", place.configs)
    assert checked.returncode == 1
    assert "service.yaml:" in checked.stderr
    assert "shop_channels" in checked.stderr
    assert "Traceback" not in checked.stderr


def test_channels_that_misbehave_are_named_and_cost_nothing_else(
    fresh: Callable[[], Place], package: Path, shop: Shop
) -> None:
    (package / "shop_channels" / "__init__.py").write_text(SLOW)
    place = fresh()
    extended(place, "late: {cap: 20ms}\n  broken: {}\n  wild: {}")
    with serving(place, env={"PYTHONPATH": str(package)}) as service:
        answer = service.ask("home", shop.user_ids[0], size=20, context={"region": "trouble"})
        assert len(ids(answer)) == 20
        degraded = {one["step"]: one["reason"] for one in answer["degraded"]}
        expected = {"recall.late": "timeout", "recall.broken": "error", "recall.wild": "invalid_output"}
        assert degraded == expected
        assert b'recserve_internal_errors_total{where="step"}' in service.request("GET", "/metrics", operator=True)[2]
        assert "a bug of the extension" in service.text() or service.stop() == 0
    assert "a bug of the extension" in service.text()


def test_a_channel_that_fails_in_the_rehearsal_is_refused_and_the_old_configuration_serves(
    fresh: Callable[[], Place], package: Path, shop: Shop
) -> None:
    (package / "shop_channels" / "__init__.py").write_text(SLOW.replace('== "trouble"', '!= "trouble"'))
    place = fresh()
    env = {"PYTHONPATH": str(package)}
    with serving(place, env=env) as service:
        before = service.ask("home", shop.user_ids[0])
        extended(place, "broken: {}")
        said = service.reload()
        what = "KeyError: 'a bug of the extension' at shop_channels/__init__.py:21"
        fails = f"scenes/home.yaml:7 recall.broken: recall.broken fails in the rehearsal with {what}. "
        assert said[0] == f"{place.configs}/{fails}Mend it, or its settings."
        assert service.ask("home", shop.user_ids[0])["config"] == before["config"]
    checked = recserve("check", "--config", place.configs, "--var", place.var, env=env)
    assert checked.returncode == 1
    assert fails in checked.stderr
