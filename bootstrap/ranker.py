"""The ranker: LambdaRank over sampled candidates, calibrated to a probability.

Burges, "From RankNet to LambdaRank to LambdaMART" (MSR-TR-2010-82), section 7, by LightGBM. Scores are mapped to
probabilities by Platt's sigmoid (1999), fitted on a window that the fitted model hasn't seen, with sampled
negatives weighted back to the whole list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import lightgbm as lgb
import numpy as np

from bootstrap.protocol import ndcg_of_groups
from bootstrap.tree_export import export_trees

COMMON: Mapping[str, Any] = MappingProxyType(
    {
        "num_leaves": 15,
        "learning_rate": 0.05,
        "min_data_in_leaf": 200,
        "feature_fraction": 0.4,
        "bagging_fraction": 0.8,
        "bagging_freq": 1,
        "lambda_l2": 5.0,
        "max_bin": 127,
        "verbosity": -1,
        "deterministic": True,
        "force_row_wise": True,
    }
)
OBJECTIVES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "lambdarank": MappingProxyType({"lambdarank_truncation_level": 20}),
        "binary": MappingProxyType({}),
    }
)
"""What may be optimised, with its own parameters: the order of lists, or each candidate's probability."""


@dataclass(frozen=True)
class RankerSettings:
    """How to fit: `rounds` trees, and `blank`, the share of lists that lose one block of features.

    `objectives` are tried in this order on the newest window, and a later one must beat the best so far by the
    share `margin`, which is about what another seed changes; only the first is when all windows together have
    more than `choose_below_rows` rows, so that what is chosen depends on the input and never on the clock.
    `per_group` is what lists are sampled down to before they come here (`sample_list`).
    """

    rounds: int = 150
    per_group: int = 60
    objectives: tuple[str, ...] = ("lambdarank", "binary")
    blank: float = 0.1
    margin: float = 0.02
    choose_below_rows: int = 400_000
    threads: int = 2
    seed: int = 1


@dataclass(frozen=True)
class Window:
    """Lists of one time window: `features` f32[N, F], `labels` bool[N], `sizes` i64[lists], `weights` f32[N].

    A weight is how many candidates of the whole list the sampled one stands for (1 when none were left out).
    """

    features: np.ndarray
    labels: np.ndarray
    sizes: np.ndarray
    weights: np.ndarray


@dataclass(frozen=True)
class Trained:
    """A fitted ranker; `report` says what was chosen and how it did on the last window."""

    booster: lgb.Booster
    slope: float
    intercept: float
    names: tuple[str, ...]
    report: Mapping[str, Any] = field(default_factory=dict)

    def predict(self, features: np.ndarray) -> np.ndarray:
        """Probabilities f32[N] of `features` f32[N, F], as the exported graph gives them."""
        margin = _margin(self.booster, features, 1)
        return _sigmoid(self.slope * margin + self.intercept).astype(np.float32)


def sample_list(labels: np.ndarray, per_group: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Picks a list's training candidates: all positives and random negatives, at least as many as half of
    `per_group`. Returns (index i64[k] ascending, weights f32[k]); an empty index for a list without positives.
    """
    positive, negative = np.flatnonzero(labels), np.flatnonzero(~labels)
    if positive.size == 0 or negative.size == 0:
        return np.empty(0, np.int64), np.empty(0, np.float32)
    wanted = min(negative.size, max(per_group - positive.size, per_group // 2))
    index = np.concatenate([positive, random.choice(negative, wanted, replace=False)])
    weights = np.ones(index.size, np.float32)
    weights[positive.size :] = negative.size / wanted
    order = np.argsort(index)
    return index[order], weights[order]


def train(
    windows: Sequence[Window],
    names: Sequence[str],
    settings: RankerSettings,
    blocks: Sequence[Sequence[str]] = (),
    progress: Callable[[], None] = lambda: None,
) -> Trained:
    """Fits on `windows`, oldest first.

    With two windows or more, the objectives are compared by NDCG on the newest window after fitting on the
    older ones; that comparison also gives the calibration, and the winner is fitted again on all.
    `blocks` are features that may be absent together while serving (a channel, all channels, the history): a
    share of lists is trained without one of them.
    Deterministic for a seed and the inputs. Raises ValueError without any positive label.
    """
    if not any(window.labels.any() for window in windows):
        raise ValueError("no list has a positive: there is nothing to learn from")
    random = np.random.default_rng(settings.seed)
    columns = [[names.index(name) for name in block] for block in blocks]
    ready = [_blanked(window, columns, settings.blank, random) for window in windows]
    rows = sum(window.labels.size for window in windows)
    older, newest = ready[:-1], windows[-1]
    chosen, tried, calibration = settings.objectives[0], {}, None
    if older and any(window.labels.any() for window in older) and newest.labels.any():
        contest = settings.objectives[: None if rows <= settings.choose_below_rows else 1]
        best = 0.0
        for name in contest:
            booster = _fit(older, names, name, settings)
            margin = _margin(booster, newest.features, settings.threads)
            tried[name] = ndcg_of_groups(margin, newest.labels, newest.sizes)
            if tried[name] > best * (1.0 + settings.margin):
                best, chosen = tried[name], name
                calibration = platt(margin, newest.labels, newest.weights)
            progress()
    booster = _fit(ready, names, chosen, settings)
    progress()
    if calibration is None:
        whole = _joined(windows)
        margin = _margin(booster, whole.features, settings.threads)
        calibration = platt(margin, whole.labels, whole.weights)
    report = {"objective": chosen, "ndcg_on_last_window": tried, "rows": rows}
    return Trained(booster, *calibration, tuple(names), report)


def platt(margin: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """Weighted logistic regression of `labels` on `margin`: (slope, intercept), slope positive. O(N), 30 steps."""
    mean, spread = float(margin.mean()), float(margin.std()) or 1.0
    x = (margin - mean) / spread
    target, weights = labels.astype(np.float64), weights.astype(np.float64)
    share = np.clip(np.average(target, weights=weights), 1e-6, 1 - 1e-6)
    a, b = 1.0, float(np.log(share / (1 - share)))
    ridge = 1e-6 * weights.sum()  # keeps separable data and empty weights solvable
    for _ in range(30):
        p = _sigmoid(a * x + b)
        error, curve = weights * (p - target), weights * p * (1 - p)
        gradient = np.array([error @ x + ridge * (a - 1.0), error.sum()])
        hessian = np.array([[curve @ (x * x), curve @ x], [curve @ x, curve.sum()]])
        hessian += ridge * np.eye(2)
        step = np.linalg.solve(hessian, gradient)
        step *= min(1.0, 2.0 / max(np.abs(step).max(), 1e-12))
        a, b = a - step[0], b - step[1]
        if np.abs(step).max() < 1e-8:
            break
    # The order is the model's business: a calibration may flatten it, never turn it round.
    slope = max(a, 1e-3) / spread
    return slope, b - slope * mean


def export(trained: Trained, path: Path, head: str = "buy") -> None:
    """Writes the ONNX graph: `features` f32[N, F] with NaN for missing, one output `head` f32[N] in (0, 1)."""
    export_trees(trained.booster.dump_model(), trained.slope, trained.intercept, path, head)


def largest_error(trained: Trained, features: np.ndarray, predict: Callable[[np.ndarray], np.ndarray]) -> float:
    """Largest difference between LightGBM's probabilities and the exported graph's as `predict` runs it."""
    return float(np.abs(trained.predict(features) - predict(features)).max(initial=0.0))


def _fit(windows: Sequence[Window], names: Sequence[str], chosen: str, settings: RankerSettings) -> lgb.Booster:
    whole = _joined(windows)
    parameters = {
        "objective": chosen,
        "num_threads": settings.threads,
        "seed": settings.seed,
        **COMMON,
        **OBJECTIVES[chosen],
    }
    parameters["min_data_in_leaf"] = min(parameters["min_data_in_leaf"], max(1, whole.labels.size // 50))
    safe = [f"f{number}" for number in range(len(names))]
    data = lgb.Dataset(whole.features, whole.labels.astype(np.int8), group=whole.sizes, feature_name=safe)
    return lgb.train(parameters, data, settings.rounds)


def _margin(booster: lgb.Booster, features: np.ndarray, threads: int) -> np.ndarray:
    return np.asarray(booster.predict(features, raw_score=True, num_threads=threads))


def _joined(windows: Sequence[Window]) -> Window:
    return Window(
        np.concatenate([window.features for window in windows]),
        np.concatenate([window.labels for window in windows]),
        np.concatenate([window.sizes for window in windows]),
        np.concatenate([window.weights for window in windows]),
    )


def _blanked(window: Window, columns: Sequence[Sequence[int]], share: float, random: np.random.Generator) -> Window:
    """A copy in which `share` of the lists have one block of columns missing."""
    if not columns or share <= 0:
        return window
    hit = np.where(random.random(window.sizes.size) < share, random.integers(0, len(columns), window.sizes.size), -1)
    per_row = np.repeat(hit, window.sizes)
    features = window.features.copy()
    for number, block in enumerate(columns):
        features[np.ix_(per_row == number, block)] = np.nan
    return Window(features, window.labels, window.sizes, window.weights)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    out: np.ndarray = 1.0 / (1.0 + np.exp(-np.clip(x, -60.0, 60.0)))
    return out
