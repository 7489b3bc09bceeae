"""One small shop, bootstrapped once; services over it or over copies of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from app.config.write import write_files
from tests.e2e.shop import Shop, make_shop
from tests.service import Place, Service, recserve, serving

# One worker, unless a test is about several; and what a busy machine makes wait gives up no quality.
CALM = {"workers": 1, "admission": {"wait": "1s"}}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.e2e)


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    return make_shop(tmp_path_factory.mktemp("shop"))


@pytest.fixture(scope="session")
def built(shop: Shop, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """What bootstrap made of the shop; copy it before changing or serving it."""
    place = Place.under(tmp_path_factory.mktemp("built"))
    files = ("--interactions", shop.interactions, "--items", shop.items, "--users", shop.users)
    done = recserve("bootstrap", *files, *place.words)
    assert done.returncode == 0, done.stderr
    settings = yaml.safe_load(place.read("service.yaml")) | CALM
    write_files(place.configs, {"service.yaml": settings})  # as unedited as bootstrap's
    return place


@pytest.fixture(scope="session")
def fresh(built: Place, tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Place]:
    """Copies of what was built, each with a store of its own."""
    return lambda: built.copy(tmp_path_factory.mktemp("copy"))


@pytest.fixture(scope="session")
def service(fresh: Callable[[], Place]) -> Iterator[Service]:
    """A service that nobody writes to or reloads."""
    with serving(fresh()) as running:
        yield running


@pytest.fixture(scope="module")
def place(fresh: Callable[[], Place]) -> Place:
    """A copy for one module."""
    return fresh()
