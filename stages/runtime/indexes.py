"""Nearest neighbours with FAISS: build, measure, load, search.

Inner product only: a cosine space is stored normalised. Search parameters are given per call, because
parameters kept on a faiss index are shared by every thread that searches it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import faiss
import numpy as np

from stages.types import F32, Rows

FLAT_BELOW = 50_000
PROBES = (8, 16, 32, 64, 128, 256, 512)


@dataclass(frozen=True, slots=True)
class FaissIndex:
    """A faiss index over the release's item rows. `effort` is the nprobe measured at build (None: exhaustive)."""

    index: Any
    space: str
    dim: int
    effort: int | None
    _usual: Any = field(init=False, repr=False, compare=False)  # the parameters for `effort`, never written to

    def __post_init__(self) -> None:
        usual = None if self.effort is None else faiss.SearchParametersIVF(nprobe=self.effort)
        object.__setattr__(self, "_usual", usual)

    @classmethod
    def load(cls, path: Path, *, space: str, effort: int | None) -> FaissIndex:
        """Read an index file, memory-mapped where faiss can."""
        # Plain IO_FLAG_MMAP makes an IVF's lists "on disk", which starts threads to prefetch them in every search.
        index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
        loaded = cls(index, space, index.d, effort)
        # An exhaustive search reads, and so maps, every page before a request has to.
        loaded.search(np.zeros(index.d, np.float32), 1, effort=None if effort is None else index.nlist)
        return loaded

    def search(self, query: F32, k: int, *, effort: int | None = None) -> tuple[Rows, F32]:
        """Rows i32[<=k] and inner products f32[<=k], best first. Fewer when the probed lists hold fewer."""
        parameters = self._usual
        if effort is not None and self.effort is not None:
            parameters = faiss.SearchParametersIVF(nprobe=effort)
        # faiss allocates what is asked for, not what there is.
        found = self.index.search(query.reshape(1, -1), min(k, self.index.ntotal), params=parameters)
        scores, rows = found[0][0], found[1][0].astype(np.int32)
        if not len(rows) or rows[-1] >= 0:  # faiss fills up with -1 at the end
            return rows, scores
        known = rows >= 0
        return rows[known], scores[known]


@dataclass(frozen=True, slots=True)
class BuiltIndex:
    """An index that was built and measured: recall of its top `k` against exhaustive search."""

    index: FaissIndex
    kind: str
    k: int
    recall: float

    def write(self, path: Path) -> None:
        """Write it as a faiss file."""
        faiss.write_index(self.index.index, str(path))


def build_index(
    vectors: F32,
    queries: F32,
    *,
    space: str,
    kind: str = "auto",
    k: int = 200,
    floor: float = 0.93,
    seed: int = 0,
) -> BuiltIndex:
    """Build over f32[n, d] and measure recall@k with `queries` f32[m, d]; probes grow until `floor` is met.

    `auto` is flat below 50,000 vectors, else IVF with 8-bit scalars. A vector with NaN (an item without one) is
    stored as zeros: it stays behind every item whose product with the query is positive.
    """
    vectors = np.nan_to_num(np.ascontiguousarray(vectors, np.float32))
    n, dim = vectors.shape
    flat = faiss.IndexFlatIP(dim)
    flat.add(vectors)
    if kind == "flat" or (kind == "auto" and n < FLAT_BELOW):
        return BuiltIndex(FaissIndex(flat, space, dim, None), "flat", k, 1.0)
    lists = int(2 ** np.clip(np.round(np.log2(4 * np.sqrt(n))), 4, 16))
    inner = faiss.IndexIVFScalarQuantizer(
        faiss.IndexFlatIP(dim), dim, lists, faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT
    )
    inner.cp.seed = seed
    inner.cp.niter = 10
    inner.train(vectors)
    inner.add(vectors)
    k = min(k, n)
    truth = flat.search(queries, k)[1]
    effort, recall = lists, 1.0
    for effort in (p for p in (*PROBES, lists) if p <= lists):
        found = inner.search(queries, k, params=faiss.SearchParametersIVF(nprobe=effort))[1]
        recall = float(np.mean([np.isin(t, f).mean() for t, f in zip(truth, found, strict=True)]))
        if recall >= floor:
            break
    return BuiltIndex(FaissIndex(inner, space, dim, effort), "ivf_sq8", k, recall)
