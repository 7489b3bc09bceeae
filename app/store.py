"""The store's URL: the configured server, or a private one that lives as long as this process."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from pathlib import Path

from features.embedded import EmbeddedStore
from features.errors import StoreError, StoreUnavailable
from features.redis_tier import RedisTier
from features.resilient import Resilient

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


def connect(
    url: str,
    *,
    timeout: float,
    connect_timeout: float = 0.05,
    connections: int = 16,
    observe: Callable[[StoreError | None], None] = lambda _: None,
) -> Resilient:
    """The store's client, with its breaker and retries; no I/O yet. StoreUnavailable for a URL that can't be used.

    `observe` sees what the server did, not what was kept from it.
    """
    try:
        tier = RedisTier(
            url, timeout=timeout, connect_timeout=connect_timeout, connections=connections, observe=observe
        )
    except ValueError as error:
        raise StoreUnavailable(f"The store's URL can't be used: {error}") from error
    return Resilient(tier, fair=timeout / 2)
