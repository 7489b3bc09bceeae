"""A package outside the tree brings a channel, by one file and one line: found, composed, run."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from stages.registry import DuplicateComponentError, Registry, discover, settings_of
from stages.scene import StepConfig
from tests.stages.small import Engine, home, item

FRESH = '''
"""What is new in the shop."""

from __future__ import annotations

import numpy as np

from recserve.sdk import NO_HITS, ColumnName, Duration, Filter, Hits, Recaller, Ref, Reranker, Scorer, Table, component


@component("fresh")
class Fresh(Recaller):
    """The head of the list `group`, last first."""

    table: Ref[Table]
    by: ColumnName | None = None
    group: str = "all"
    k: int = 3
    age: Duration = Duration(60)

    def recall(self, view):
        at = self.table.group(self.group)
        if at < 0:
            return NO_HITS
        rows, scores = self.table.slice(at)
        return Hits(rows[: self.k][::-1], scores[: self.k])
'''
OTHERS = """
from recserve.sdk import Filter, Reranker, Scorer, component


@component("odd")
class Odd(Filter):
    def keep(self, view, batch):
        return batch.rows % 2 == 1


@component("by_row")
class ByRow(Scorer):
    def score(self, view, batch):
        return batch.rows.astype("float32")


@component("reversed")
class Reversed(Reranker):
    def order(self, view, batch, size):
        import numpy as np

        return np.arange(len(batch))[::-1]
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    room = tmp_path / "shop_parts" / "deep"
    room.mkdir(parents=True)
    (tmp_path / "shop_parts" / "__init__.py").write_text("")
    (room / "__init__.py").write_text("")
    (tmp_path / "shop_parts" / "fresh.py").write_text(FRESH)
    (room / "others.py").write_text(OTHERS)
    monkeypatch.syspath_prepend(tmp_path)
    yield "shop_parts"
    for name in [name for name in sys.modules if name.split(".")[0] == "shop_parts"]:
        del sys.modules[name]


def part(registry: Registry, role: str, name: str, **settings: object) -> StepConfig:
    prefix = "filters" if role == "filter" else role
    return StepConfig(role, f"{prefix}.{name}", registry.of(role)[name], settings)  # type: ignore[arg-type]


def test_a_channel_of_another_package_is_found_composed_and_run(engine: Engine, package: str) -> None:
    registry = discover([package])
    fresh = part(registry, "recall", "fresh", table="popular", group="north")
    answer, outcome = engine.run(home(recall=(fresh,), filters=(), pre_rank=None, re_rank=(), fallback=None))
    assert answer.ids == [item(397), item(398), item(399)]
    assert answer.channels == [["fresh"]] * 3
    assert answer.degraded == []
    assert "recall.fresh" in [r.name for r in outcome.records]


def test_every_role_can_be_extended_at_any_depth_of_the_package(engine: Engine, package: str) -> None:
    registry = discover([package])
    scene = home(
        filters=(part(registry, "filter", "odd"),),
        pre_rank=None,
        rank=part(registry, "rank", "by_row"),
        re_rank=(part(registry, "re_rank", "reversed"),),
        fallback=None,
    )
    answer, _ = engine.run(scene, size=300)
    rows = [int(name[-3:]) for name in answer.ids]
    assert rows == sorted(rows)
    assert np.all(np.array(rows) % 2 == 1)
    assert answer.degraded == []


def test_its_settings_are_its_fields(package: str) -> None:
    settings = {s.name: s for s in settings_of(discover([package]).of("recall")["fresh"])}
    assert list(settings) == ["table", "by", "group", "k", "age"]
    assert [s.name for s in settings.values() if s.required] == ["table"]
    assert settings["k"].default == 3


def test_the_built_in_components_stay_and_nothing_leaks_into_the_next_registry(package: str) -> None:
    assert set(discover().of("recall")) <= set(discover([package]).of("recall"))
    assert "fresh" not in discover().of("recall")
    assert {"vector", "item_to_item", "popular", "repeat"} <= set(discover().of("recall"))
    assert discover().of("nonsense") == {}


def test_two_components_of_one_name_are_refused_and_both_are_named(package: str, tmp_path: Path) -> None:
    clash = OTHERS.replace('"odd"', '"seen"')
    (tmp_path / "shop_parts" / "clash.py").write_text(clash)
    with pytest.raises(DuplicateComponentError) as refused:
        discover([package])
    assert "'seen'" in str(refused.value)
    assert "stages.filters.seen.Seen" in str(refused.value)
    assert "shop_parts.clash.Odd" in str(refused.value)


def test_importing_a_built_in_component_does_not_repeat_it(package: str, tmp_path: Path) -> None:
    (tmp_path / "shop_parts" / "again.py").write_text("from stages.recall.popular import Popular\n")
    assert "popular" in discover([package]).of("recall")


def test_an_extension_that_cannot_be_imported_says_so() -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_parts"):
        discover(["no_such_parts"])
