"""Backtests: hit rate, recall and NDCG of served lists, with intervals by bootstrap over users.

The protocol: everything before a cut is history; the truth of a user who has history is what they bought in the
window after it, for `discover` only what they had never bought before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

K = 20
DRAWS = 2_000
METRICS = ("hit_rate", "recall", "ndcg")


@dataclass(frozen=True)
class Truth:
    """What users did in the window: `users` i32[u] ascending and each one's distinct items, i32 arrays."""

    users: np.ndarray
    items: list[np.ndarray]


def truth_after(
    users: np.ndarray, items: np.ndarray, ts: np.ndarray, cut: float, window_days: float, *, new_only: bool
) -> Truth:
    """The truth of `cut <= ts <= cut + window_days` for users with an event before `cut`.

    `users`, `items` i32[m], `ts` f64[m]. With `new_only`, an item that the user had before the cut doesn't count,
    and users without any other are left out.
    """
    before = ts < cut
    inside = ~before & (ts <= cut + window_days * 86_400.0)
    width = int(items.max(initial=0)) + 1
    past = np.unique(users[before].astype(np.int64) * width + items[before])
    pairs = np.unique(users[inside].astype(np.int64) * width + items[inside])
    pairs = pairs[np.isin(pairs // width, np.unique(users[before]))]
    if new_only:
        pairs = pairs[~np.isin(pairs, past)]
    owner, start = np.unique(pairs // width, return_index=True)
    parts = np.split((pairs % width).astype(np.int32), start[1:]) if owner.size else []
    return Truth(owner.astype(np.int32), parts)


def measure(lists: Sequence[np.ndarray], truth: Sequence[np.ndarray], k: int = K) -> np.ndarray:
    """Hit rate, recall and NDCG at k of each user's list (best first): f64[users, 3], see `METRICS`.

    Gains are binary, the ideal is over min(|truth|, k). An empty list scores 0.
    """
    out = np.zeros((len(truth), len(METRICS)))
    discount = 1.0 / np.log2(np.arange(2, k + 2))
    for row, (served, wanted) in enumerate(zip(lists, truth, strict=True)):
        hit = np.isin(np.asarray(served)[:k], wanted)
        ideal = discount[: min(wanted.size, k)].sum()
        out[row] = hit.any(), hit.sum() / max(wanted.size, 1), (hit @ discount[: hit.size]) / max(ideal, 1e-12)
    return out


@dataclass(frozen=True)
class Estimate:
    """A mean over users with its 95% interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.3f} [{self.low:.3f}, {self.high:.3f}]"


def estimate(values: np.ndarray, seed: int = 1, draws: int = DRAWS) -> Estimate:
    """Percentile interval of the mean of `values` f64[users]. For a paired difference pass `a - b`."""
    if values.size == 0:
        return Estimate(float("nan"), float("nan"), float("nan"))
    random = np.random.default_rng(seed)
    means = np.array([values[random.integers(0, values.size, values.size)].mean() for _ in range(draws)])
    low, high = np.percentile(means, [2.5, 97.5])
    return Estimate(float(values.mean()), float(low), float(high))


def summary(measured: np.ndarray, seed: int = 1) -> Mapping[str, Estimate]:
    """The estimate of each metric of a `measure` result, by name."""
    return {name: estimate(measured[:, at], seed) for at, name in enumerate(METRICS)}


def ndcg_of_groups(score: np.ndarray, labels: np.ndarray, sizes: np.ndarray, k: int = K) -> float:
    """Mean NDCG at k of lists that lie one after another (`sizes` i64[lists]); lists without positives are left out.

    `score` f[N], `labels` bool[N]. O(N log N).
    """
    group = np.repeat(np.arange(sizes.size), sizes)
    order = np.lexsort((-score, group))
    place = np.arange(score.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    gain = (labels[order] & (place < k)) / np.log2(place + 2.0)
    positives = np.bincount(group, labels, minlength=sizes.size).astype(np.int64)
    ideal = np.concatenate([[0.0], np.cumsum(1.0 / np.log2(np.arange(2, k + 2)))])[np.minimum(positives, k)]
    some = positives > 0
    if not some.any():
        return 0.0
    return float((np.bincount(group, gain, minlength=sizes.size)[some] / ideal[some]).mean())
