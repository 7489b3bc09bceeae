import pytest

from stages.runtime.release import LoadedRelease
from tests.stages.small import Engine, load, write_release


@pytest.fixture(scope="session")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> LoadedRelease:
    return load(write_release(tmp_path_factory.mktemp("releases")))


@pytest.fixture
def engine(loaded: LoadedRelease) -> Engine:
    return Engine(loaded)
