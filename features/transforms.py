"""The named transforms of `derived:` features: pure functions that training and serving share.

Each takes what its parameters' kinds say for n candidate rows, and returns f32[n]. NaN means missing, in and
out. None loops over candidates in Python. `TRANSFORMS` is the fixed table that configuration is checked against.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from features.history_digest import DAY, HistoryDigest

F32 = NDArray[np.float32]
Rows = NDArray[np.int32]


class ParameterKind(StrEnum):
    """What a parameter takes. Configuration gives all but `ROWS` and `NOW`, which the request gives."""

    ROWS = "rows"
    """i32[n] candidate rows."""
    NOW = "now"
    """Epoch seconds that ages count from."""
    COLUMN = "column"
    """A numeric item column at the candidates: [n]."""
    MATRIX = "matrix"
    """An item vector column at the candidates: f32[n, d]."""
    USER_VECTOR = "user_vector"
    """f32[d] of the user, or None."""
    HISTORY = "history"
    """A behaviour, as HistoryDigest."""
    RESIDENT_COLUMN = "resident_column"
    """A numeric item column of the release, whole: [items]."""
    RESIDENT_MATRIX = "resident_matrix"
    """An item vector column of the release, whole: f32[items, d]."""
    RESIDENT_CODES = "resident_codes"
    """Codes of an item column of the release, whole: i32[items], from 0 on without gaps, -1 missing."""
    CONSTANT = "constant"
    """A number written in the configuration."""


@dataclass(frozen=True)
class Transform:
    """A function with its parameters in order; one that has a default may be left out of the configuration."""

    apply: Callable[..., Any]
    parameters: Mapping[str, ParameterKind]
    defaults: Mapping[str, Any]


def ratio(numerator: F32, denominator: F32) -> F32:
    """numerator / denominator; NaN where the denominator is 0. O(n)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        share: F32 = np.divide(numerator, denominator, dtype=np.float32, casting="same_kind")
    share[~np.isfinite(share)] = np.nan
    return share


def product(first: F32, second: F32) -> F32:
    """first * second. O(n)."""
    made: F32 = np.multiply(first, second, dtype=np.float32, casting="same_kind")
    return made


def log1p(x: F32) -> F32:
    """log(1 + x), negative values as 0. O(n)."""
    logarithm: F32 = np.log1p(np.maximum(np.asarray(x, np.float32), np.float32(0)))
    return logarithm


def age_days(now: float, time: NDArray[np.float64]) -> F32:
    """Days from `time` (epoch seconds) to `now`, never negative. O(n)."""
    return (np.maximum(now - np.asarray(time, np.float64), 0.0) / DAY).astype(np.float32)


def dot(vector: F32 | None, matrix: F32) -> F32:
    """Inner product of the user's vector and each item's; NaN without a vector. O(n d)."""
    if vector is None or not np.any(vector):
        return _missing(matrix.shape[0])
    product: F32 = matrix @ np.asarray(vector, np.float32)
    return product


def history_similarity(rows: Rows, history: HistoryDigest, vectors: F32, last: int = 50) -> F32:
    """Inner product of each item's vector and the mean vector of the last events. O((n + last) d)."""
    recent = history.history.last(int(last)).rows
    if recent.size == 0:
        return _missing(rows.size)
    product: F32 = vectors.take(rows, axis=0) @ vectors.take(recent, axis=0).mean(axis=0)
    return product


def history_nearest(rows: Rows, history: HistoryDigest, vectors: F32, last: int = 50) -> F32:
    """Largest inner product with a *different* item among the last events. O(n last d)."""
    recent = np.unique(history.history.last(int(last)).rows)
    if recent.size == 0:
        return _missing(rows.size)
    near: F32 = vectors.take(rows, axis=0) @ vectors.take(recent, axis=0).T
    at = np.searchsorted(recent, rows)
    at[at == recent.size] = 0
    own = np.flatnonzero(recent.take(at) == rows)
    near[own, at[own]] = -np.inf
    best: F32 = near.max(axis=1)
    best[np.isneginf(best)] = np.nan
    return best


def history_share(rows: Rows, history: HistoryDigest, codes: NDArray[np.int32], half_life_days: float = np.inf) -> F32:
    """Share of the events whose item has the same code, each event halved per `half_life_days` of age.

    NaN without a code or a history. O(n + m + largest code).
    """
    seen = codes.take(history.history.rows)
    coded = seen >= 0
    seen = seen[coded]
    if seen.size == 0:
        return _missing(rows.size)
    # Ages count from the newest one: the share is the same, and an old history's weights don't all become 0.
    age = history.age_days[coded]
    weight = np.bincount(seen, np.exp2((age - age.min()) * (-1.0 / half_life_days)))
    return _of_code(codes.take(rows), weight / weight.sum(), 0.0)


def history_code_variety(rows: Rows, history: HistoryDigest, codes: NDArray[np.int32]) -> F32:
    """Distinct items over events, among those of the same code; NaN without one. O(n + m + largest code)."""
    own = history.per_item
    seen = codes.take(own.rows)
    coded = seen >= 0
    seen = seen[coded]
    if seen.size == 0:
        return _missing(rows.size)
    events = np.bincount(seen, own.count[coded])
    variety = np.divide(np.bincount(seen), events, out=np.full(events.size, np.nan), where=events > 0)
    return _of_code(codes.take(rows), variety, np.nan)


def history_code_days(rows: Rows, history: HistoryDigest, codes: NDArray[np.int32]) -> F32:
    """Days since the last event with an item of the same code; NaN without one. O(n + m + largest code)."""
    seen = codes.take(history.history.rows)
    coded = seen >= 0
    seen = seen[coded]
    if seen.size == 0:
        return _missing(rows.size)
    days = np.full(int(seen.max()) + 1, np.nan)
    days[seen] = history.age_days[coded]  # events are in the order of time, and the last one assigned stays
    return _of_code(codes.take(rows), days, np.nan)


def history_ratio(rows: Rows, history: HistoryDigest, values: F32, last: int = 50) -> F32:
    """Each item's value over the mean of the last events' items: a price over the usual one. O(n + last)."""
    recent = np.asarray(values.take(history.history.last(int(last)).rows), np.float32)
    recent = recent[np.isfinite(recent)]
    mean = float(recent.mean()) if recent.size else 0.0
    if mean == 0.0:
        return _missing(rows.size)
    share: F32 = np.asarray(values.take(rows), np.float32) / np.float32(mean)
    return share


def history_count(rows: Rows, history: HistoryDigest) -> F32:
    """How many events had this very item; 0 for none. O(n log m)."""
    return _own(rows, history, history.per_item.count, 0.0)


def history_days(rows: Rows, history: HistoryDigest) -> F32:
    """On how many days there was an event with this very item; 0 for none. O(n log m)."""
    return _own(rows, history, history.per_item.days, 0.0)


def history_last_days(rows: Rows, history: HistoryDigest) -> F32:
    """Days since the last event with this very item; NaN for none. O(n log m)."""
    return _own(rows, history, (history.now - history.per_item.last) / DAY, np.nan)


def history_frequency(rows: Rows, history: HistoryDigest, half_life_days: float = 30.0) -> F32:
    """Events with this very item, each halved per `half_life_days` of age; 0 for none. O(n log m + m)."""
    return _own(rows, history, history.decayed(half_life_days), 0.0)


def history_gap_days(rows: Rows, history: HistoryDigest) -> F32:
    """Mean days between this user's days with this very item; NaN below two days. O(n log m)."""
    return _own(rows, history, _gaps(history), np.nan)


def history_due(rows: Rows, history: HistoryDigest, usual_days: F32) -> F32:
    """Days since the last event with this item over the user's own gap, or else the item's `usual_days` [n].

    1 means due now; NaN for an item never had, or without any gap. O(n log m).
    """
    gap = history_gap_days(rows, history)
    gap = np.where(np.isnan(gap), np.asarray(usual_days, np.float32), gap)
    return ratio(history_last_days(rows, history), gap)


def history_length(rows: Rows, history: HistoryDigest) -> F32:
    """How many events the history has, the same for all candidates. O(n)."""
    return np.full(rows.size, len(history.history), np.float32)


def history_idle_days(rows: Rows, history: HistoryDigest) -> F32:
    """Days since the newest event, the same for all candidates; NaN for an empty history. O(n)."""
    ages = history.age_days
    return np.full(rows.size, ages[-1] if ages.size else np.nan, np.float32)


def history_variety(rows: Rows, history: HistoryDigest) -> F32:
    """Distinct items over events, the same for all candidates; NaN for an empty history. O(n)."""
    events = len(history.history)
    return np.full(rows.size, history.per_item.rows.size / events if events else np.nan, np.float32)


def _gaps(history: HistoryDigest) -> NDArray[np.float64]:
    item = history.per_item
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(item.days > 1, (item.last - item.first) / DAY / (item.days - 1), np.nan)


def _of_code(mine: NDArray[np.int32], values: NDArray[Any], absent: float) -> F32:
    """`values` by code for each of `mine`; `absent` for a code beyond them, NaN for none (-1)."""
    out: F32 = values.take(np.clip(mine, 0, values.size - 1)).astype(np.float32)
    out[mine >= values.size] = absent
    out[mine < 0] = np.nan
    return out


def _own(rows: Rows, history: HistoryDigest, values: NDArray[Any], absent: float) -> F32:
    at, has = history.place(rows)
    out = np.full(rows.size, absent, np.float32)
    out[has] = values.take(at[has])
    return out


def _missing(n: int) -> F32:
    return np.full(n, np.nan, np.float32)


def _transform(apply: Callable[..., Any], *kinds: str, **defaults: Any) -> Transform:
    names = apply.__code__.co_varnames[: apply.__code__.co_argcount]
    parameters = {name: ParameterKind(kind) for name, kind in zip(names, kinds, strict=True)}
    return Transform(apply, MappingProxyType(parameters), MappingProxyType(defaults))


TRANSFORMS: Mapping[str, Transform] = MappingProxyType(
    {
        "ratio": _transform(ratio, "column", "column"),
        "product": _transform(product, "column", "column"),
        "log1p": _transform(log1p, "column"),
        "age_days": _transform(age_days, "now", "column"),
        "dot": _transform(dot, "user_vector", "matrix"),
        "history_similarity": _transform(history_similarity, "rows", "history", "resident_matrix", "constant", last=50),
        "history_nearest": _transform(history_nearest, "rows", "history", "resident_matrix", "constant", last=50),
        "history_share": _transform(
            history_share, "rows", "history", "resident_codes", "constant", half_life_days=np.inf
        ),
        "history_code_variety": _transform(history_code_variety, "rows", "history", "resident_codes"),
        "history_code_days": _transform(history_code_days, "rows", "history", "resident_codes"),
        "history_ratio": _transform(history_ratio, "rows", "history", "resident_column", "constant", last=50),
        "history_count": _transform(history_count, "rows", "history"),
        "history_days": _transform(history_days, "rows", "history"),
        "history_last_days": _transform(history_last_days, "rows", "history"),
        "history_frequency": _transform(history_frequency, "rows", "history", "constant", half_life_days=30.0),
        "history_gap_days": _transform(history_gap_days, "rows", "history"),
        "history_due": _transform(history_due, "rows", "history", "column"),
        "history_length": _transform(history_length, "rows", "history"),
        "history_idle_days": _transform(history_idle_days, "rows", "history"),
        "history_variety": _transform(history_variety, "rows", "history"),
    }
)
"""Every transform by the name that configuration uses."""
