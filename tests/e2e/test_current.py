"""What serves and what served before: swapped, restored, settled; a refused push changes nothing."""

from __future__ import annotations

import asyncio
import shutil
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from app.build import Surroundings
from app.config.problems import ConfigError
from app.current import Current, Source
from features.memory_store import MemoryStore
from stages.errors import ReleaseError
from tests.service import Place
from tests.waiting import comes


@pytest.fixture(scope="module")
def around() -> Iterator[Surroundings]:
    with ThreadPoolExecutor(1) as pool:
        yield Surroundings(MemoryStore(), pool, time.time)


@pytest.fixture
def own(fresh: Callable[[], Place]) -> Place:
    return fresh()


def source(place: Place) -> Source:
    return Source(place.configs, {}, place.var)


def pinned(place: Place, name: str, old: str, new: str, folder: Path) -> Path:
    """A copy of the configuration with one edit."""
    other = Place(shutil.copytree(place.configs, folder), place.var)
    other.replace(name, old, new)
    return other.configs


def test_a_reload_swaps_and_the_one_before_can_be_restored_until_it_is_settled(
    own: Place, around: Surroundings, tmp_path: Path
) -> None:
    async def run() -> None:
        current = Current(source(own), around)
        assert not current.ready
        await current.start()
        first = current.serving
        assert await current.reload(pinned(own, "scenes/home.yaml", "120ms", "130ms", tmp_path / "a")) == []
        second = current.serving
        assert second.snapshot.config_id != first.snapshot.config_id
        assert second.snapshot.plans["home"].budget == pytest.approx(0.13)
        second.tally.requests = 5
        assert await current.restore()
        assert current.serving.snapshot is first.snapshot
        assert not await current.restore()
        assert await current.reload(tmp_path / "a") == []
        assert current.serving.tally.requests == 0
        await current.commit()
        assert not await current.restore()

    asyncio.run(run())


def test_a_settled_snapshot_is_let_go(own: Place, around: Surroundings) -> None:
    async def run() -> None:
        current = Current(source(own), around)
        await current.start()
        before = weakref.ref(current.serving.snapshot.loaded.models["home_ranker"])
        assert await current.reload() == []
        assert before() is not None
        await current.commit()
        await comes(lambda: before() is None, "its end")  # the thread that built the next one may hold it a moment

    asyncio.run(run())


def test_a_refused_push_changes_nothing(own: Place, around: Surroundings, tmp_path: Path) -> None:
    async def run() -> None:
        current = Current(source(own), around)
        await current.start()
        first = current.serving
        for name, old, new, said in (
            ("scenes/home.yaml", "budget: 120ms", "budget: soon", "budget"),
            ("service.yaml", "workers: 1", "workers: 3", "Read at start only"),
        ):
            [error] = await current.reload(pinned(own, name, old, new, tmp_path / said))
            assert said in error
            assert current.serving is first
            assert not await current.restore()

    asyncio.run(run())


def test_a_named_release_is_served_whatever_is_active(own: Place, around: Surroundings) -> None:
    releases = own.var / "releases"
    active = (releases / "active").read_text().strip()

    async def run() -> None:
        current = Current(source(own), around)
        await current.start()
        (releases / "active").write_text("another")
        assert await current.reload(release=active) == []
        assert current.serving.snapshot.release == active
        [error] = await current.reload()
        assert "another" in error
        missing = Current(replace(source(own), release="nothing"), around)
        with pytest.raises(ReleaseError, match="nothing"):
            await missing.start()

    asyncio.run(run())


def test_a_release_older_than_its_closed_filters_allow_is_refused(
    own: Place, around: Surroundings, tmp_path: Path
) -> None:
    folder = pinned(
        own, "features.yaml", "release: item_popularity", "release: item_popularity\n    max_age: 30d", tmp_path / "a"
    )

    async def run() -> None:
        with pytest.raises(ConfigError, match="max_age"):
            await Current(Source(folder, {}, own.var), around).start()
        then = replace(around, clock=lambda: 1_720_000_000 + 250 * 86_400.0)
        await Current(Source(folder, {}, own.var), then).start()

    asyncio.run(run())


def test_what_was_counted_stays_counted_when_a_snapshot_is_replaced_or_restored(
    own: Place, around: Surroundings
) -> None:
    async def run() -> None:
        current = Current(source(own), around)
        await current.start()

        def counted() -> list[float]:
            assert current.snapshot is not None
            counts, views = current.snapshot.behaviour.counts, current.snapshot.store.undecoded
            return [counts.undecoded, counts.displaced, counts.untrimmed, sum(views.values())]

        first = current.serving.snapshot
        first.behaviour.counts.undecoded, first.behaviour.counts.displaced = 3, 2
        first.behaviour.counts.untrimmed = 1
        first.store.undecoded["profile"] = 4
        assert await current.reload() == []
        assert counted() == [3, 2, 1, 4]
        current.serving.snapshot.behaviour.counts.undecoded += 1
        current.serving.snapshot.store.undecoded["stock"] = 1
        assert await current.restore()
        assert counted() == [4, 2, 1, 5]

    asyncio.run(run())
