"""Real Valkey servers for tests, from the bundled binary, in a temporary directory of their own."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from features.embedded import EmbeddedStore

EXTERNAL_URL = os.environ.get("RECSERVE_TEST_REDIS_URL", "")
"""A server that the environment provides, Debian's redis-server 7.0 in CI; its data are flushed."""


@contextmanager
def running_valkey() -> Iterator[EmbeddedStore]:
    """Yield a started store; `.url` is its URL."""
    with TemporaryDirectory(prefix="recserve-test-") as directory:
        store = EmbeddedStore(Path(directory) / "store", grace=2.0)
        store.start()
        try:
            yield store
        finally:
            store.stop()
