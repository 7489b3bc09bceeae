from collections.abc import Iterator

import pytest

from tests.http.service import Service


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with Service() as running:
        yield running
