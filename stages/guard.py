"""The one place that times steps, checks what they return and decides what a failure means.

What each role may do when it fails (`on_fail`), its default first:

    recall    skip (the channel is empty)         fail
    filter    closed (nothing passes)  open (all pass)  fail
    pre_rank  keep_order (merge order)            fail
    rank      keep_order (previous order)         fail
    re_rank   keep_order (previous order)         fail

Missing values are not failures. A failure is named in the answer by a reason of the closed list REASONS; so is a
step that the ladder's level leaves out ("level"), which is answered like a failure but never fails the request.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from features.errors import StoreError
from stages.errors import InvalidOutput
from stages.types import NO_HITS, Hits, Index, Mask

logger = logging.getLogger("recserve.stages")

POLICIES: Mapping[str, tuple[str, ...]] = {
    "recall": ("skip", "fail"),
    "filter": ("closed", "open", "fail"),
    "pre_rank": ("keep_order", "fail"),
    "rank": ("keep_order", "fail"),
    "re_rank": ("keep_order", "fail"),
}
LEVEL = "level"
GATHERED: ContextVar[list[tuple[str, BaseException]] | None] = ContextVar("gathered", default=None)
"""Where a rehearsal takes what steps raise, as (step, error), in place of the log."""
REASONS = (
    "timeout",
    "deadline",
    LEVEL,
    "store_timeout",
    "store_unavailable",
    "store_breaker",
    "store_command",
    "store_error",
    "invalid_output",
    "error",
)


@dataclass(slots=True)
class Record:
    """What one step did: name, seconds, candidates in and out, and why it degraded if it did.

    `missing` names what the request didn't have (a user's vector, an id that the release doesn't know), so that the
    step gave less than it could. That is no failure: it is counted and shown, and nothing is degraded.
    """

    name: str
    seconds: float
    n_in: int | None
    n_out: int
    reason: str | None = None
    queued: float = 0.0
    missing: str | None = None


@dataclass(slots=True)
class Outcome:
    """The mutable half of a request. Written by the event loop only; sealed with the answer."""

    records: list[Record] = field(default_factory=list)
    degraded: list[tuple[str, str]] = field(default_factory=list)
    reads: set[str] = field(default_factory=set)
    bugs: int = 0
    sealed: bool = False

    def add(self, record: Record, reads: Collection[str] = ()) -> None:
        """Take a step's record. After sealing nothing changes any more."""
        if self.sealed:
            return
        self.records.append(record)
        if record.reason is None:
            self.reads.update(reads)
        else:
            self.degraded.append((record.name, record.reason))
            self.bugs += record.reason in ("error", "invalid_output")


def reason_of(step: str, error: BaseException) -> str:
    """Classify a failure; our own bugs are logged with their traceback (or GATHERED), outages are not."""
    if isinstance(error, StoreError):
        return store_reason(error.reason)
    if isinstance(error, TimeoutError):
        return "timeout"
    gathered = GATHERED.get()
    if gathered is None:
        logger.error("step %s failed", step, exc_info=error)
    else:
        gathered.append((step, error))
    return "invalid_output" if isinstance(error, InvalidOutput) else "error"


def store_reason(reason: str) -> str:
    """A StoreError's reason as the answer spells it."""
    return f"store_{reason}"


def check_hits(hits: Any, items: int) -> Hits:
    """A channel's result, or InvalidOutput: rows and scores of one length, rows below `items`.

    Unknown rows (-1), scores that are not finite and a row's further places are dropped, not refused.
    """
    if not isinstance(hits, Hits):
        raise InvalidOutput(f"a channel returned {type(hits).__name__}. Expected Hits.")
    rows = np.asarray(hits.rows)
    scores = np.asarray(hits.scores, np.float32)
    if rows.ndim != 1 or rows.shape != scores.shape:
        raise InvalidOutput(
            f"a channel returned rows {rows.shape} and scores {scores.shape}. Expected two of one length."
        )
    if not len(rows):
        return NO_HITS
    if rows.dtype.kind not in "iu":
        raise InvalidOutput(f"a channel returned rows {_shape(rows)}. Expected integers.")
    ordered = np.sort(rows)
    if int(ordered[-1]) >= items:
        raise InvalidOutput(f"a channel returned {_shape(rows)} up to {ordered[-1]}. Expected rows below {items}.")
    rows = rows.astype(np.int32, copy=False)
    finite = np.isfinite(scores)
    if ordered[0] < 0 or not finite.all():
        usable = finite & (rows >= 0)
        rows, scores = rows[usable], scores[usable]
        ordered = np.sort(rows)
    if _repeats(ordered):
        first = np.sort(np.unique(rows, return_index=True)[1])
        rows, scores = rows[first], scores[first]
    return Hits(rows, scores)


def check_mask(mask: Any, n: int) -> Mask:
    """A filter's result, or InvalidOutput."""
    if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_ or mask.shape != (n,):
        raise InvalidOutput(f"a filter returned {_shape(mask)}. Expected bool[{n}].")
    return mask


def check_scores(scores: Any, n: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """A scorer's result, or InvalidOutput; NaN is invalid, -inf is the worst score."""
    if not isinstance(scores, np.ndarray) or scores.shape != (n,):
        raise InvalidOutput(f"a scorer returned {_shape(scores)}. Expected f32[{n}].")
    if np.isnan(scores).any():
        raise InvalidOutput(f"a scorer returned NaN for {int(np.isnan(scores).sum())} of {n} candidates.")
    return scores.astype(np.float32, copy=False)


def check_order(order: Any, n: int) -> Index:
    """A re-ranker's result, or InvalidOutput: positions in range, none twice."""
    if not isinstance(order, np.ndarray) or order.ndim != 1 or order.dtype.kind not in "iu":
        raise InvalidOutput(f"a re-ranker returned {_shape(order)}. Expected an index array.")
    ordered = np.sort(order)
    if len(order) and (int(ordered[0]) < 0 or int(ordered[-1]) >= n):
        raise InvalidOutput(f"a re-ranker returned positions outside of 0..{n - 1}.")
    if _repeats(ordered):
        raise InvalidOutput("a re-ranker returned a position twice.")
    return order.astype(np.intp, copy=False)


def _repeats(ordered: np.ndarray[Any, Any]) -> bool:
    return bool((ordered[1:] == ordered[:-1]).any())


def _shape(value: Any) -> str:
    return f"{value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else type(value).__name__
