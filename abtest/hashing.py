"""From a salt and a unit to one of 10,000 slots.

`slot = (murmur3_32(utf8(salt + ":" + unit), seed 0, unsigned) * 10000) >> 32`. The multiplication keeps
the split even (a modulo would favour low slots) and stays exact in 64 bits, so that every language that
has murmur3 reproduces the slots. Both the hash and the rule are part of the public contract: a change
would move every enrolled user.
"""

from collections.abc import Callable
from numbers import Integral
from typing import Final

from abtest import murmur3

try:
    from mmh3 import mmh3_32_uintdigest as _digest
except ImportError:
    _digest = murmur3.murmur3_32

murmur3_32: Final[Callable[[bytes, int], int]] = _digest
"""MurmurHash3_x86_32 of bytes under a seed, unsigned."""

SLOTS: Final = 10_000
"""How finely traffic is cut: one slot is 0.01% of the units."""

MAX_UNIT_BYTES: Final = 256
"""A longer unit counts as no unit: ids of that size are payloads or attacks."""

_MAX_UNIT_BITS: Final = 4 * MAX_UNIT_BYTES  # below the digits at which str(int) itself refuses


def salt_prefix(salt: str) -> bytes:
    """Return the constant first part of what is hashed, for `slot_of`."""
    return (salt + ":").encode()


def slot_of(prefix: bytes, unit: bytes) -> int:
    """Return the slot in [0, 10000) of an encoded unit (see `encode_unit`) under `salt_prefix(salt)`."""
    return (murmur3_32(prefix + unit, 0) * SLOTS) >> 32


def slot(salt: str, unit: object) -> int | None:
    """Return the slot in [0, 10000) of `unit` under `salt`, or None where it is no unit.

    >>> slot("home/rank/1", "user_1"), slot("home/rank/1", 123), slot("home/rank/1", "123")
    (8891, 6378, 6378)
    """
    encoded = encode_unit(unit)
    return None if encoded is None else slot_of(salt_prefix(salt), encoded)


def encode_unit(unit: object) -> bytes | None:
    """Return the bytes that identify a unit, or None for "no unit".

    A string is itself, byte for byte, without normalisation or trimming; an integer is its decimal form,
    so that 123 and "123" are one unit. Booleans, floats, None, the empty string, text that isn't Unicode
    (lone surrogates) and anything over 256 bytes are no unit.
    """
    if isinstance(unit, str):
        try:
            encoded = unit.encode()
        except UnicodeEncodeError:
            return None
    elif isinstance(unit, int | Integral) and not isinstance(unit, bool):
        number = int(unit)
        if number.bit_length() > _MAX_UNIT_BITS:
            return None
        encoded = b"%d" % number
    else:
        return None
    return encoded if 0 < len(encoded) <= MAX_UNIT_BYTES else None
