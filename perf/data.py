"""The reference data: a seeded catalogue, lists, users and traffic, kept as memory-mapped ``.npy`` files.

Everything follows from ``Sizes`` and a seed, so two machines that agree on both measure the same requests.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import mmh3
import numpy as np
import numpy.typing as npt

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]

FORMAT = 2
CHUNK = 65_536
NOW = 1_760_000_000.0
DAY = 86_400.0


@dataclass(frozen=True)
class Sizes:
    """How much reference data to make; the defaults are the reference workload's."""

    items: int = 1_000_000
    users: int = 100_000
    clusters: int = 4_096
    dim: int = 64
    dense: int = 96
    profile: int = 32
    history: int = 50
    neighbours: int = 20
    groups: int = 8
    popular: int = 500


@dataclass(frozen=True)
class Data:
    """The arrays of one reference data set (n items, u users), read-only and memory-mapped.

    Lists are CSR: entries ``indptr[g]:indptr[g + 1]`` of rows and scores belong to item or group ``g``,
    best first. Vectors are of unit length. Histories are oldest first, times in epoch seconds before ``NOW``.
    """

    ids: npt.NDArray[np.bytes_]  # [n], UTF-8
    key_hashes: U64  # [n], ascending 64-bit hashes of the ids
    key_rows: I32  # [n], the row of each hash
    vectors: F32  # [n, dim]
    dense: F32  # [n, dense]
    price: F32  # [n]
    i2i_indptr: I64  # [n + 1]
    i2i_rows: I32  # [n * neighbours]
    i2i_scores: F32  # [n * neighbours]
    popular_indptr: I64  # [groups + 1]
    popular_rows: I32  # [groups * popular]
    popular_scores: F32  # [groups * popular]
    user_vectors: F32  # [u, dim]
    user_profiles: F32  # [u, profile]
    history_rows: I32  # [u, history]
    history_ts: F64  # [u, history]

    def touch(self) -> None:
        """Read one byte of every page, so that no request pays for mapping it."""
        for field in fields(self):
            getattr(self, field.name).reshape(-1).view(np.uint8)[::4_096].max(initial=0)


def user_id(row: int) -> str:
    """The id of a user row."""
    return f"u{row:07d}"


def traffic(users: int, requests: int, seed: int = 0) -> I32:
    """User rows i32[requests]: Zipf with exponent 1.0 over users, in a seeded order of popularity."""
    rng = np.random.default_rng([seed, 99])
    cumulative = np.cumsum(1.0 / np.arange(1, users + 1))
    ranks = np.searchsorted(cumulative, rng.random(requests) * cumulative[-1])
    by_rank: I32 = rng.permutation(users).astype(np.int32)
    chosen: I32 = by_rank[ranks]
    return chosen


def reference(cache: Path, sizes: Sizes | None = None, seed: int = 0) -> tuple[Data, Path]:
    """Open the data set of these sizes under ``cache``, making it first where it is absent.

    Returns the data and its folder, in which derived files (an index) may be kept. A folder appears only
    once it is complete. The full size takes about 10 s, 0.9 GB of disk and 1 GB of memory.
    """
    sizes = sizes or Sizes()
    spec = {"format": FORMAT, "seed": seed, **asdict(sizes)}
    digest = hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()[:12]
    folder = cache / f"data-{sizes.items}-{digest}"
    if not folder.exists():
        part = folder.with_name(f"{folder.name}.part{os.getpid()}")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        _generate(part, sizes, seed)
        (part / "spec.json").write_text(json.dumps(spec, indent=1))
        part.rename(folder)
    arrays: dict[str, Any] = {
        field.name: np.asarray(np.load(folder / f"{field.name}.npy", mmap_mode="r")) for field in fields(Data)
    }
    return Data(**arrays), folder


def _generate(folder: Path, sizes: Sizes, seed: int) -> None:
    def rng(stream: int) -> np.random.Generator:
        return np.random.default_rng([seed, stream])

    def save(arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        for name, array in arrays.items():
            np.save(folder / f"{name}.npy", array)

    weights = 1.0 / (rng(0).permutation(sizes.items).astype(np.float64) + 1.0)
    cluster = _clusters(rng(1), sizes)
    order = np.lexsort((-weights, cluster)).astype(np.int32)
    starts = np.searchsorted(cluster[order], np.arange(sizes.clusters + 1))

    save(_identity(sizes.items))
    save({"price": np.round(rng(2).lognormal(1.0, 0.8, sizes.items), 2).astype(np.float32)})  # in cents, as prices are
    centres = _unit(rng(3).standard_normal((sizes.clusters, sizes.dim), dtype=np.float32))
    noise = rng(4)
    vectors = _in_chunks(
        folder / "vectors.npy",
        (sizes.items, sizes.dim),
        lambda a, b: _unit(centres[cluster[a:b]] + 0.1 * noise.standard_normal((b - a, sizes.dim), dtype=np.float32)),
    )
    values = rng(5)
    _in_chunks(
        folder / "dense.npy",
        (sizes.items, sizes.dense),
        lambda a, b: values.standard_normal((b - a, sizes.dense), dtype=np.float32),
    )
    save(_neighbours(rng(6), sizes, order))
    save(_popular(rng(7), sizes, weights))
    histories = _histories(rng(8), sizes, order, starts)
    save(histories)
    _in_chunks(
        folder / "user_vectors.npy",
        (sizes.users, sizes.dim),
        lambda a, b: _unit(vectors[histories["history_rows"][a:b]].mean(axis=1, dtype=np.float32)),
        chunk=8_192,
    )
    profiles = rng(9).standard_normal((sizes.users, sizes.profile), dtype=np.float32)
    save({"user_profiles": profiles})


def _in_chunks(path: Path, shape: tuple[int, int], make: Callable[[int, int], F32], chunk: int = CHUNK) -> F32:
    """Write f32 rows piece by piece, so that memory stays bounded by one piece."""
    out = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=shape)
    for start in range(0, shape[0], chunk):
        stop = min(start + chunk, shape[0])
        out[start:stop] = make(start, stop)
    out.flush()
    return np.asarray(out)


def _unit(rows: F32) -> F32:
    norms: F32 = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / norms


def _clusters(rng: np.random.Generator, sizes: Sizes) -> I64:
    """A cluster per item; sizes fall off like a Zipf law whose head is flattened, so none holds a tenth."""
    shares = 1.0 / (np.arange(sizes.clusters) + 50.0) ** 0.7
    return rng.choice(sizes.clusters, size=sizes.items, p=shares / shares.sum())


def _identity(items: int) -> dict[str, npt.NDArray[Any]]:
    texts = [b"i%08d" % row for row in range(items)]
    hashes = np.array([mmh3.hash64(text, seed=0, signed=False)[0] for text in texts], dtype=np.uint64)
    order = np.argsort(hashes)
    return {"ids": np.array(texts), "key_hashes": hashes[order], "key_rows": order.astype(np.int32)}


def _neighbours(rng: np.random.Generator, sizes: Sizes, order: I32) -> dict[str, npt.NDArray[Any]]:
    """Lists of items that stand near each other in ``order`` (by cluster, then popularity), never itself."""
    k = min(sizes.neighbours, sizes.items - 1)
    widest = max(1, min(6, (sizes.items - 1) // k))
    gaps = rng.integers(1, widest + 1, (sizes.items, k), dtype=np.int32)
    near = (np.cumsum(gaps, axis=1, dtype=np.int32) + np.arange(sizes.items, dtype=np.int32)[:, None]) % (sizes.items)
    rows = np.empty((sizes.items, k), dtype=np.int32)
    rows[order] = order[near]
    scores = (1.0 / (1.0 + np.arange(k))).astype(np.float32) * rng.uniform(0.8, 1.0, (sizes.items, 1))
    return {
        "i2i_indptr": np.arange(sizes.items + 1, dtype=np.int64) * k,
        "i2i_rows": rows.reshape(-1),
        "i2i_scores": scores.astype(np.float32).reshape(-1),
    }


def _popular(rng: np.random.Generator, sizes: Sizes, weights: F64) -> dict[str, npt.NDArray[Any]]:
    k = min(sizes.popular, sizes.items)
    rows = np.empty((sizes.groups, k), dtype=np.int32)
    scores = np.empty((sizes.groups, k), dtype=np.float32)
    for group in range(sizes.groups):
        local = weights * rng.lognormal(0.0, 0.5, sizes.items)
        rows[group] = np.argsort(-local)[:k]
        scores[group] = local[rows[group]]
    return {
        "popular_indptr": np.arange(sizes.groups + 1, dtype=np.int64) * k,
        "popular_rows": rows.reshape(-1),
        "popular_scores": scores.reshape(-1),
    }


def _histories(rng: np.random.Generator, sizes: Sizes, order: I32, starts: I64) -> dict[str, npt.NDArray[Any]]:
    """Each user draws from five clusters, popular members first; every tenth event is from anywhere."""
    shape = (sizes.users, sizes.history)
    favourites = rng.integers(0, sizes.clusters, (sizes.users, 5))
    cluster = np.take_along_axis(favourites, rng.integers(0, 5, shape), axis=1)
    span = np.maximum(starts[cluster + 1] - starts[cluster], 1)
    positions = starts[cluster] + (rng.random(shape) ** 2 * span).astype(np.int64)
    elsewhere = rng.random(shape) < 0.1
    positions[elsewhere] = rng.integers(0, sizes.items, int(elsewhere.sum()))
    ages = np.sort(rng.exponential(20 * DAY, shape), axis=1)[:, ::-1]
    return {"history_rows": order[np.minimum(positions, sizes.items - 1)], "history_ts": NOW - ages}
