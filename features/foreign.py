"""Keys of ours that hold something else: found by the reply to an APPEND, moved aside, begun anew."""

import asyncio
from collections.abc import Callable, Sequence

from features.commands import Command, Commands, Reply
from features.errors import CommandError, StoreUnavailable
from features.event_codec import CHUNK_BYTES, MalformedHistoryError, decode_events

_RACES = 5  # so many writers in a row may get in between before giving up


def is_foreign(reply: Reply) -> bool:
    """Whether the reply to an APPEND of events says that the key held something else: no string, or odd bytes."""
    if isinstance(reply, CommandError):
        return str(reply).startswith("WRONGTYPE")
    return isinstance(reply, int) and reply % CHUNK_BYTES != 0


async def append_anew(
    commands: Commands, key: bytes, value: bytes, *, aside: bytes, ttl: int, most: int, deadline: float
) -> bool:
    """Append `value` to `key`, which `is_foreign`; whether that took moving what is there to `aside` first.

    It doesn't when readers can make something of it all the same (a valid encoding of another writer) and it
    is no longer than `most` bytes. Nobody's append is lost meanwhile: the move happens only if the key is as it
    was read. Both keys get `ttl` seconds to live; `deadline` is the loop's time. Raises StoreError.
    """
    moved = False

    def change(found: Reply) -> Sequence[Command]:
        nonlocal moved
        moved = not _readable(found)
        if not moved and isinstance(found, bytes) and found.endswith(value):
            return []
        away: list[Command] = [("RENAME", key, aside), ("EXPIRE", aside, ttl)] if moved else []
        return [*away, ("APPEND", key, value), ("EXPIRE", key, ttl)]

    now: Callable[[], float] = asyncio.get_running_loop().time
    for _ in range(_RACES):
        replies = await commands.update(key, ("GETRANGE", key, 0, most), change, timeout=deadline - now())
        if replies is not None:
            refused = next((reply for reply in replies if isinstance(reply, CommandError)), None)
            if refused is not None:
                raise refused
            return moved
    raise StoreUnavailable(f"{key!r} holds something foreign, and others kept writing to it")


def _readable(reply: Reply) -> bool:
    if isinstance(reply, CommandError):
        if not is_foreign(reply):
            raise reply
        return False
    try:
        decode_events(reply if isinstance(reply, bytes) else b"")
    except MalformedHistoryError:
        return False
    return True
