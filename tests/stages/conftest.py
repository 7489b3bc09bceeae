import pytest
from hypothesis import HealthCheck, settings

from stages.runtime.release import LoadedRelease
from tests.stages.small import Engine, load, write_release

# A busy machine makes an example slow, not wrong.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")


@pytest.fixture(scope="session")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> LoadedRelease:
    return load(write_release(tmp_path_factory.mktemp("releases")))


@pytest.fixture
def engine(loaded: LoadedRelease) -> Engine:
    return Engine(loaded)
