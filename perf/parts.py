"""One reference request doing only what cannot be avoided, the libraries called directly, part by part.

Three recall channels, a merge to 1,000 candidates, a dot product to 300, a DeepFM, MMR to 50, JSON. No
framework, no failure handling, no configuration. What the service costs above it is the service's overhead.
"""

from dataclasses import dataclass
from typing import Any

import faiss
import msgspec
import numpy as np
import numpy.typing as npt
import redis

from perf.data import F32, F64, I32, I64, NOW, Data
from perf.store import keys, parse_behaviour

VECTOR, I2I, POPULAR = 1, 2, 4
CHANNELS = tuple(
    [name for bit, name in ((VECTOR, "vector"), (I2I, "i2i"), (POPULAR, "popular")) if mask & bit] for mask in range(8)
)
HALF_LIFE = 30 * 86_400.0
PARTS = (
    "read",
    "look_up",
    "search",
    "expand",
    "merge",
    "gather",
    "pre_rank",
    "features",
    "rank",
    "re_rank",
    "encode",
)


@dataclass(frozen=True)
class Workload:
    """How much each step of the reference request handles."""

    vector: int = 400
    nprobe: int = 64
    i2i: int = 400
    popular: int = 300
    candidates: int = 1_000
    ranked: int = 300
    window: int = 150
    size: int = 50
    relevance: float = 0.7


class Item(msgspec.Struct):
    """One item of the answer, shaped like the service's."""

    id: str
    score: float
    channels: list[str]
    fields: dict[str, float]


class Answer(msgspec.Struct):
    """The answer, shaped like the service's."""

    request_id: str
    scene: str
    config: str
    release: str
    items: list[Item]
    buckets: dict[str, str]
    degraded: list[dict[str, str]]
    short: str | None
    level: int
    cursor: str | None


class Work:
    """What one request has come to: each part reads what earlier parts left and sets its own fields."""

    __slots__ = (
        "ages",
        "bits",
        "body",
        "dense",
        "expanded",
        "hashes",
        "near",
        "picks",
        "profile",
        "ranked",
        "rows",
        "scores",
        "triggers",
        "user",
        "vector",
        "vectors",
    )
    profile: F32  # [profile]
    vector: F32  # [dim]
    ages: F64  # [history], seconds
    hashes: npt.NDArray[np.uint64]  # [history]
    triggers: I32  # [history], rows of the known items among them
    near: I64  # [<= vector], rows
    expanded: I32  # [<= i2i], rows
    rows: I32  # [c <= candidates], distinct
    bits: npt.NDArray[np.uint8]  # [c], the channels of each
    vectors: F32  # [c, dim]
    ranked: npt.NDArray[np.intp]  # [r <= ranked], places in rows
    dense: F32  # [r, dense]
    scores: F32  # [r]
    picks: npt.NDArray[np.intp]  # [<= size], places in ranked, in order
    body: bytes

    def __init__(self, user: int) -> None:
        self.user = user


class Floor:
    """The parts of the floor over one data set; each takes a ``Work`` on which all earlier ones have run.

    ``index`` is a faiss IVF index of the items' vectors, ``ranker`` an onnxruntime session of
    ``perf.model``, ``store`` a client of the server that ``perf.store.fill`` filled.
    """

    def __init__(
        self, data: Data, index: Any, ranker: Any, store: "redis.Redis", workload: Workload | None = None
    ) -> None:
        self.data, self.index, self.ranker, self.store = data, index, ranker, store
        self.workload = workload or Workload()
        self._probe = faiss.SearchParametersIVF()
        self._probe.nprobe = self.workload.nprobe

    def run(self, user: int) -> bytes:
        """One whole request for a user row: the encoded answer."""
        work = Work(user)
        self.read(work)
        self.look_up(work)
        self.search(work)
        self.expand(work)
        self.merge(work)
        self.gather(work)
        self.pre_rank(work)
        self.features(work)
        self.rank(work)
        self.re_rank(work)
        self.encode(work)
        return work.body

    def read(self, work: Work) -> None:
        """One MGET of profile, vector and behaviour."""
        values: Any = self.store.mget(keys(work.user))
        work.profile = np.frombuffer(values[0], np.float32)
        work.vector = np.frombuffer(values[1], np.float32)
        ts, work.hashes = parse_behaviour(values[2])
        work.ages = NOW - ts

    def look_up(self, work: Work) -> None:
        """Rows of the history's id hashes: no row number stands in the store."""
        data = self.data
        places = data.key_hashes.searchsorted(work.hashes)
        work.triggers = data.key_rows.take(places, mode="clip")
        known = data.key_hashes.take(places, mode="clip") == work.hashes
        if not known.all():
            work.triggers, work.ages = work.triggers[known], work.ages[known]

    def search(self, work: Work) -> None:
        """Nearest items of the user's vector."""
        _, rows = self.index.search(work.vector.reshape(1, -1), self.workload.vector, params=self._probe)
        near: I64 = rows[0]
        work.near = near if near[-1] >= 0 else near[near >= 0]

    def expand(self, work: Work) -> None:
        """The neighbours of the history, each trigger decayed by age, summed per neighbour, best kept."""
        data, keep = self.data, self.workload.i2i
        starts = data.i2i_indptr.take(work.triggers)
        counts = data.i2i_indptr.take(work.triggers + 1) - starts
        ends = counts.cumsum()
        entries = np.arange(ends[-1])
        entries += (starts - ends + counts).repeat(counts)
        rows = data.i2i_rows.take(entries)
        scores = data.i2i_scores.take(entries)
        scores *= np.exp2(work.ages * (-1.0 / HALF_LIFE)).astype(np.float32).repeat(counts)
        order = rows.argsort(kind="stable")
        rows = rows.take(order)
        first = _group_starts(rows)
        totals = np.add.reduceat(scores.take(order), first)
        rows = rows.take(first)
        work.expanded = rows if len(rows) <= keep else rows.take(totals.argpartition(-keep)[-keep:])

    def merge(self, work: Work) -> None:
        """Distinct candidates with their channels' bits; the last channel loses what exceeds the limit."""
        data, limit = self.data, self.workload.candidates
        group = work.user % (len(data.popular_indptr) - 1)
        start = data.popular_indptr[group]
        stop = min(start + self.workload.popular, data.popular_indptr[group + 1])
        rows = np.concatenate((work.near, work.expanded, data.popular_rows[start:stop]), dtype=np.int32)
        bits = np.full(len(rows), POPULAR, dtype=np.uint8)
        bits[: len(work.near)] = VECTOR
        bits[len(work.near) : len(work.near) + len(work.expanded)] = I2I
        order = rows.argsort(kind="stable")
        ordered = rows.take(order)
        first = _group_starts(ordered)
        work.rows = ordered.take(first)
        work.bits = np.bitwise_or.reduceat(bits.take(order), first)
        if len(first) > limit:
            kept = order.take(first).argpartition(limit)[:limit]
            work.rows, work.bits = work.rows.take(kept), work.bits.take(kept)

    def gather(self, work: Work) -> None:
        """The candidates' vectors out of the mapped table."""
        work.vectors = self.data.vectors.take(work.rows, axis=0)

    def pre_rank(self, work: Work) -> None:
        """Dot products with the user's vector, the best kept."""
        dots, keep = work.vectors @ work.vector, self.workload.ranked
        if len(dots) <= keep:
            work.ranked = np.arange(len(dots))
        else:
            work.ranked = dots.argpartition(-keep)[-keep:]

    def features(self, work: Work) -> None:
        """The kept candidates' dense features out of the mapped table."""
        work.dense = self.data.dense.take(work.rows.take(work.ranked), axis=0)

    def rank(self, work: Work) -> None:
        """The ranker's head for each kept candidate."""
        user = np.concatenate((work.vector, work.profile)).reshape(1, -1)
        (work.scores,) = self.ranker.run(("buy",), {"user": user, "item": work.dense})

    def re_rank(self, work: Work) -> None:
        """Maximal marginal relevance (Carbonell and Goldstein 1998) over the best of a window.

        ``relevance * score - (1 - relevance) * max(similarity to a pick)`` is the minimum, over the picks, of
        one matrix's rows: so a pick costs an argmax and a minimum. Similarities are of unit vectors.
        """
        relevance, window = self.workload.relevance, self.workload.window
        scores = work.scores
        best = scores.argpartition(-window)[-window:] if len(scores) > window else np.arange(len(scores))
        vectors = work.vectors.take(work.ranked.take(best), axis=0)
        gain = scores.take(best) * np.float32(relevance)
        after = vectors @ vectors.T
        after *= np.float32(relevance - 1.0)
        after += gain
        np.fill_diagonal(after, -np.inf)
        picks = []
        for _ in range(min(self.workload.size, len(best))):
            pick = gain.argmax()
            picks.append(pick)
            np.minimum(gain, after[pick], out=gain)
        work.picks = best.take(picks)

    def encode(self, work: Work) -> None:
        """The answer as JSON."""
        places = work.ranked.take(work.picks)
        rows = work.rows.take(places)
        columns = zip(
            self.data.ids.take(rows).tolist(),
            work.scores.take(work.picks).tolist(),
            work.bits.take(places).tolist(),
            self.data.price.take(rows).tolist(),
            strict=True,
        )
        items = [Item(key.decode(), score, CHANNELS[mask], {"price": price}) for key, score, mask, price in columns]
        buckets = {"home/re_rank": "exp_mmr@1/control"}
        work.body = msgspec.json.encode(
            Answer("0" * 32, "home", "0" * 12, "2026-01-01T00-00-00", items, buckets, [], None, 0, None)
        )


def _group_starts(ordered: I32) -> npt.NDArray[np.intp]:
    """Where each run of equal values begins in a sorted array: a mask, far cheaper than ``np.unique``."""
    new = np.empty(len(ordered), dtype=bool)
    new[:1] = True
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    return new.nonzero()[0]
