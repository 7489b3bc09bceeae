"""Identity of ids outside a release: a 64-bit hash of the id's UTF-8 bytes.

Row numbers die with their release, so whatever outlives one (behaviour in the
store, the id table's index) names an item by this hash. Ids are compared byte by
byte, without Unicode normalisation.

The hash is the first half of MurmurHash3_x64_128 with seed 0 (Appleby, 2011).
"""

from collections.abc import Iterable, Sequence

import mmh3
import numpy as np
from numpy.typing import NDArray


def key_hash(identity: bytes) -> int:
    """Return the 64-bit hash (0 to 2**64 - 1) of an id's bytes."""
    return int(mmh3.hash64(identity, seed=0, signed=False)[0])


def key_hashes(ids: Sequence[str]) -> NDArray[np.uint64]:
    """Return u64[n], the hash of each id's UTF-8 bytes, in the order given.

    Raises UnicodeEncodeError for an id with a lone surrogate: no bytes exist for it.
    """
    return byte_key_hashes([text.encode() for text in ids])


def byte_key_hashes(ids: Iterable[bytes]) -> NDArray[np.uint64]:
    """Return u64[n], the hash of each id given as bytes, in the order given."""
    digest = mmh3.mmh3_x64_128_digest
    # A digest is 16 bytes, its first half the hash: one view instead of n Python integers.
    joined = b"".join([digest(identity) for identity in ids])
    return np.ascontiguousarray(np.frombuffer(joined, dtype="<u8")[::2])
