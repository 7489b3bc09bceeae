from collections.abc import Iterator

import pytest

from tests.valkey import running_valkey


@pytest.fixture(scope="session")
def valkey_url() -> Iterator[str]:
    with running_valkey() as store:
        yield store.url
