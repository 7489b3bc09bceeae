"""The store's URL: the configured server, or a private one that lives as long as this process."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path

from features.embedded import EmbeddedStore

logger = logging.getLogger("recserve.store")


@contextlib.contextmanager
def store_url(configured: str, var: Path) -> Iterator[str]:
    """Yield `configured`, or the URL of a private Valkey whose data survive under `var/store`."""
    if configured:
        yield configured
        return
    private = EmbeddedStore(var / "store", report=lambda message: logger.warning("private store: %s", message))
    private.start()
    try:
        yield private.url
    finally:
        private.stop()
