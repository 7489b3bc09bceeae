"""The reference approximate index: IVF with 8-bit scalar quantisation over the catalogue's vectors."""

from pathlib import Path
from typing import Any

import faiss
import numpy as np

from perf.data import F32

NLIST = 4_096


def nlist(items: int) -> int:
    """Cells for so many vectors: the reference's 4,096 at a million, fewer powers of two below it."""
    most = min(NLIST, 4.2 * items**0.5, items / 40)
    return 1 << max(0, int(np.log2(max(most, 1.0))))


def index_file(folder: Path, items: int) -> Path:
    """Where the index of so many vectors is kept."""
    return folder / f"ivf{nlist(items)}_sq8.faiss"


def open_index(folder: Path, vectors: F32) -> Any:
    """Open the ``IVF<cells>,SQ8`` inner-product index of ``vectors`` f32[n, d].

    It is built once and kept in ``folder``, trained on at most 40 vectors a cell: 1M x 64 takes about 40 s
    on two cores.
    """
    cells = nlist(len(vectors))
    path = index_file(folder, len(vectors))
    if not path.exists():
        index = faiss.index_factory(vectors.shape[1], f"IVF{cells},SQ8", faiss.METRIC_INNER_PRODUCT)
        sample = np.random.default_rng(0).permutation(len(vectors))[: 40 * cells]
        index.train(vectors[np.sort(sample)])
        index.add(vectors)
        part = path.with_suffix(".part")
        faiss.write_index(index, str(part))
        part.rename(path)
    return faiss.read_index(str(path))


def recall(index: Any, vectors: F32, queries: F32, k: int, nprobe: int) -> float:
    """Share of the exact top ``k`` by inner product that the index finds, over ``queries`` f32[q, d]."""
    k = min(k, len(vectors))
    probe = faiss.SearchParametersIVF()
    probe.nprobe = nprobe
    _, found = index.search(queries, k, params=probe)
    exact = np.argpartition(-(queries @ vectors.T), k - 1, axis=1)[:, :k]
    hits = [len(np.intersect1d(a, b)) for a, b in zip(found, exact, strict=True)]
    return float(np.mean(hits)) / k
