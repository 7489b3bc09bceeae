"""Dictionary-coded string columns: an i32 code per row and one sorted vocabulary, perhaps memory-mapped."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_MEMO_TEXT = 64
_MEMO_SIZE = 4096


class Vocabulary:
    """Distinct texts sorted by their UTF-8 bytes; a text's place is its code.

    `offsets` is i64[m + 1] and `blob` u8[offsets[m]]; text `c` lies in `blob[offsets[c]:offsets[c + 1]]`.
    Both may be memory-mapped: nothing is read or decoded before it is asked for. Raises ValueError when the
    two arrays cannot belong together.
    """

    __slots__ = ("_bytes", "_memo", "_starts", "blob", "offsets")

    def __init__(self, offsets: NDArray[np.int64], blob: NDArray[np.uint8]) -> None:
        self.offsets: NDArray[np.int64] = np.ascontiguousarray(offsets, dtype=np.int64)
        self.blob: NDArray[np.uint8] = np.ascontiguousarray(blob, dtype=np.uint8)
        if not len(self.offsets) or self.offsets[0] != 0 or self.offsets[-1] != len(self.blob):
            raise ValueError("vocabulary offsets must run from 0 to the length of the blob")
        # Indexing a memoryview yields plain ints and costs a third of indexing the array.
        self._starts = self.offsets.data
        self._bytes = self.blob.data
        # Expressions look the same few literals up on every request; the memo dies with its release.
        self._memo: dict[str, int] = {}

    @classmethod
    def of(cls, texts: Iterable[str]) -> Vocabulary:
        """Return the vocabulary of the distinct `texts`; raises ValueError for a lone surrogate."""
        distinct = sorted({text.encode() for text in texts})
        offsets = np.zeros(len(distinct) + 1, dtype=np.int64)
        np.cumsum([len(text) for text in distinct], out=offsets[1:])
        return cls(offsets, np.frombuffer(b"".join(distinct), dtype=np.uint8))

    def __reduce__(self) -> tuple[type[Vocabulary], tuple[NDArray[np.int64], NDArray[np.uint8]]]:
        return Vocabulary, (self.offsets, self.blob)

    def __len__(self) -> int:
        return len(self._starts) - 1

    def code(self, text: str) -> int:
        """Return the code of `text`, -1 when it is absent. O(log m), O(1) for a recently asked short text."""
        known = self._memo.get(text)
        if known is not None:
            return known
        found = self._search(text)
        if len(text) <= _MEMO_TEXT:
            if len(self._memo) >= _MEMO_SIZE:
                self._memo.clear()
            self._memo[text] = found
        return found

    def text(self, code: int) -> str:
        """Return the text of `code`; raises IndexError outside 0..m-1."""
        if not 0 <= code < len(self):
            raise IndexError(f"code {code} is outside a vocabulary of {len(self)}")
        return self._raw(code).decode()

    def _raw(self, code: int) -> bytes:
        return bytes(self._bytes[self._starts[code] : self._starts[code + 1]])

    def _search(self, text: str) -> int:
        try:
            wanted = text.encode()
        except UnicodeEncodeError:
            return -1
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if self._raw(middle) < wanted:
                low = middle + 1
            else:
                high = middle
        return low if low < len(self) and self._raw(low) == wanted else -1


class Strings:
    """A string column of n rows: `codes` i32[n] into `vocab`, -1 where the value is missing. Immutable."""

    __slots__ = ("codes", "vocab")

    def __init__(self, codes: NDArray[np.int32], vocab: Vocabulary) -> None:
        # asarray also sheds np.memmap, whose Python-level hooks would slow every later operation.
        self.codes: NDArray[np.int32] = np.asarray(codes, dtype=np.int32)
        self.vocab = vocab

    @classmethod
    def encode(cls, values: Sequence[str | None]) -> Strings:
        """Build a column with its own vocabulary. O(n log n); raises ValueError for a lone surrogate."""
        vocab = Vocabulary.of(value for value in values if value is not None)
        code_of: dict[str | None, int] = {vocab.text(code): code for code in range(len(vocab))}
        code_of[None] = -1
        codes = np.fromiter((code_of[value] for value in values), dtype=np.int32, count=len(values))
        return cls(codes, vocab)

    def __len__(self) -> int:
        return len(self.codes)

    def __repr__(self) -> str:
        return f"Strings({len(self)} rows, {len(self.vocab)} texts)"

    def take(self, rows: NDArray[np.integer[Any]]) -> Strings:
        """Gather `rows` (integers); row -1, an unknown item, is missing. Raises IndexError past the end."""
        rows = np.asarray(rows, dtype=np.intp)
        if not len(self.codes):
            if (rows >= 0).any():
                raise IndexError("cannot take a row of an empty column")
            return Strings(np.full(len(rows), -1, dtype=np.int32), self.vocab)
        codes = self.codes.take(rows)
        codes[rows < 0] = -1
        return Strings(codes, self.vocab)

    def equals(self, text: str | None) -> NDArray[np.bool_]:
        """Return bool[n]: the value is `text`. A missing value equals nothing, and None matches nothing."""
        code = -1 if text is None else self.vocab.code(text)
        if code < 0:
            return np.zeros(len(self.codes), dtype=np.bool_)
        matches: NDArray[np.bool_] = self.codes == code
        return matches

    def isin(self, texts: Collection[str]) -> NDArray[np.bool_]:
        """Return bool[n]: the value is one of `texts`; False where it is missing."""
        codes = [code for text in texts if (code := self.vocab.code(text)) >= 0]
        if len(codes) > 8:
            return np.isin(self.codes, np.array(codes, dtype=np.int32))
        found: NDArray[np.bool_] = np.zeros(len(self.codes), dtype=np.bool_)
        for code in codes:
            found |= self.codes == code
        return found

    def missing(self) -> NDArray[np.bool_]:
        """Return bool[n]: there is no value."""
        return self.codes < 0

    def recode(self, vocab: Vocabulary) -> NDArray[np.int32]:
        """Return codes i32[n] in another vocabulary, -1 where the text is absent there. O(distinct texts)."""
        if vocab is self.vocab:
            return self.codes
        distinct, inverse = np.unique(self.codes, return_inverse=True)
        mapped = [-1 if code < 0 else vocab.code(self.vocab.text(code)) for code in distinct.tolist()]
        return np.array(mapped, dtype=np.int32)[inverse]

    def filled(self, text: str) -> Strings:
        """Return the column with `text` where values are missing; O(distinct texts) when `text` is new."""
        code = self.vocab.code(text)
        if code >= 0:
            return Strings(np.where(self.codes < 0, np.int32(code), self.codes), self.vocab)
        used = np.unique(self.codes)
        vocab = Vocabulary.of([*map(self.vocab.text, used[used >= 0].tolist()), text])
        return Strings(np.where(self.codes < 0, np.int32(vocab.code(text)), self.recode(vocab)), vocab)

    def decode(self) -> list[str | None]:
        """Return the n values; each distinct code is decoded once, and no other text of the vocabulary is."""
        codes = self.codes.tolist()
        text_of = {code: self.vocab.text(code) if code >= 0 else None for code in set(codes)}
        return [text_of[code] for code in codes]
