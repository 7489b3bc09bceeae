"""What the funnel asks of a store: batches of commands in one round trip.

Two implementations: `features.redis_tier.RedisTier` over the network, and
`features.memory_store.MemoryStore` in memory, for tests and demos. One conformance
suite holds both to the same behaviour.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from features.errors import CommandError

Argument: TypeAlias = bytes | str | int | float
Command: TypeAlias = tuple[Argument, ...]
Reply: TypeAlias = "bytes | int | CommandError | list[Reply] | None"


class Commands(Protocol):
    """A store that takes Redis commands (the ones that `MemoryStore` lists)."""

    async def execute(self, commands: Sequence[Command], *, timeout: float, atomic: bool = False) -> list[Reply]:
        """Send all commands at once and return their replies in order: one round trip.

        A command that the server refuses has a CommandError in its place. `timeout` is
        in seconds from now and covers everything: waiting for a connection, connecting,
        sending, reading. Nothing is tried twice.

        `atomic` wraps the commands in MULTI and EXEC: others see all effects or none,
        and a command that can't be queued refuses the batch (CommandError raised).
        Redis doesn't roll back: one that fails while it runs (a key of another type)
        stands in the replies as a CommandError, with the others applied.

        Raises StoreTimeout and StoreUnavailable; a write may have taken effect all the same.
        """
        ...

    async def trim(self, key: bytes, keep: int, *, timeout: float) -> bool:
        """Cut a string value to its last `keep` bytes (at least 1); its time to live stays.

        Returns False, changing nothing, when somebody else wrote to the key meanwhile.
        Raises like `execute`, and CommandError when the key holds no string.
        """
        ...

    async def update(
        self, key: bytes, read: Command, change: Callable[[Reply], Sequence[Command]], *, timeout: float
    ) -> list[Reply] | None:
        """Send `read`, then what `change` makes of its reply, as an atomic batch: the replies to that.

        None, with nothing changed, when somebody else wrote to `key` in between, and an
        empty list when `change` wants nothing. Raises like `execute`.
        """
        ...

    async def close(self) -> None:
        """Close all connections; calls afterwards raise StoreUnavailable."""
        ...
