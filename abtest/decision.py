"""What an assignment consists of."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from abtest.params import Value
from abtest.plan import Bucket, Experiment, Layer

REASONS: Final = (
    "hash",
    "whitelist",
    "forced",
    "holdout",
    "no_unit",
    "condition",
    "not_started",
    "ended",
    "paused",
    "unallocated",
    "other_domain",
)
"""Why a layer decided as it did: a bucket comes by the first three, all others are the defaults."""

DEFAULT_LABELS: Final = MappingProxyType({reason: f"default:{reason}" for reason in REASONS})


class Decision(NamedTuple):
    """What one layer decided.

    `experiment` is the one that holds the unit's slot, `bucket` is set only for the enrolled. `encoded` is
    the unit as hashed, `slot` its place in the layer (or in its exclusive domain) and `bucket_slot` its place
    in the experiment; each is None where the decision fell before it was needed. `forced` marks what a debug
    request asked for. In a time-slice experiment `slice` is the number of the slice, whose place `bucket_slot`
    then is.
    """

    layer: Layer
    reason: str
    encoded: bytes | None = None
    slot: int | None = None
    experiment: Experiment | None = None
    bucket_slot: int | None = None
    bucket: Bucket | None = None
    forced: bool = False
    slice: int | None = None

    @property
    def label(self) -> str:
        """`experiment@version/bucket`, or `default:reason`."""
        return DEFAULT_LABELS[self.reason] if self.bucket is None else self.bucket.label

    @property
    def unit_type(self) -> str:
        """What was randomised: the layer's unit, or `slice` in a time-slice experiment."""
        return self.layer.unit if self.slice is None else "slice"

    @property
    def unit(self) -> str | None:
        """The unit that was randomised, as text: that of the request, or the number of the time slice."""
        if self.slice is not None:
            return str(self.slice)
        return None if self.encoded is None else self.encoded.decode()


Found = tuple[
    Layer,
    str,
    bytes | None,
    int | None,
    Experiment | None,
    int | None,
    Bucket | None,
    bool,
    int | None,
]
"""The fields of a `Decision`, as assignment makes them: a plain tuple costs a third of a named one."""


class Assignment(NamedTuple):
    """All of one request's decisions.

    `params` holds a value for every parameter of the scene and is read-only. `buckets` (layer to label) is
    a dictionary of the caller's own, ready for an answer. `found` has the fields of one decision per layer.
    """

    params: Mapping[str, Value]
    buckets: dict[str, str]
    found: tuple[Found, ...]

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """One decision per layer."""
        return tuple(map(Decision._make, self.found))
