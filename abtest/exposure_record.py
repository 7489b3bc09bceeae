"""One exposure: its fields, in the order in which both formats have them, and its JSON line."""

import json
from collections.abc import Sequence
from json.encoder import encode_basestring_ascii as _quoted
from typing import Final

from abtest.decision import Decision
from abtest.hashing import SLOTS
from abtest.plan import Bucket

Entry = tuple[float, str, str, str, Sequence[Decision]]
"""A request that waits to be written: time in epoch seconds, id, scene, config id, and its enrolled decisions."""

FIELDS: Final = (
    "time",
    "request_id",
    "scene",
    "layer",
    "experiment",
    "version",
    "bucket",
    "unit_type",
    "unit",
    "layer_slot",
    "bucket_slot",
    "reason",
    "forced",
    "config",
    "params",
)
"""Time (epoch seconds), request and scene; who decided; whom, in which slots; why; the config id; parameter names."""

Row = tuple[
    float,
    str,
    str,
    str,
    str | None,
    int | None,
    str | None,
    str,
    str | None,
    int | None,
    int | None,
    str,
    bool,
    str,
    list[str],
]
"""The values of FIELDS."""

_MOST_KEPT: Final = 64  # scenes of configurations
# Made once: `json.dumps` with other separators than its own makes an encoder for every call.
_ENCODE: Final = json.JSONEncoder(separators=(",", ":")).encode


def rows(entry: Entry) -> list[Row]:
    """Return the values of a request's records, in the order of FIELDS."""
    time, request_id, scene, config, decisions = entry
    return [_row(time, request_id, scene, config, decision) for decision in decisions]


def _row(time: float, request_id: str, scene: str, config: str, decision: Decision) -> Row:
    experiment, bucket = decision.experiment, decision.bucket
    return (
        time,
        request_id,
        scene,
        decision.layer.name,
        experiment.name if experiment else None,
        experiment.version if experiment else None,
        bucket.name if bucket else None,
        decision.unit_type,
        decision.unit,
        decision.slot,
        decision.bucket_slot,
        decision.reason,
        decision.forced,
        config,
        sorted(bucket.values) if bucket else [],
    )


class LineEncoder:
    """Makes JSON lines; ASCII, so that any id survives any reader.

    Of what the slot decided, the many, all that a bucket's records have in common is encoded once, and a
    request's own once for all of its records: a line costs about a tenth of what an encoder takes for it.
    """

    def __init__(self) -> None:
        self._around: dict[tuple[str, str], dict[Bucket | None, tuple[str, str]]] = {}
        self._digits = tuple(map(str, range(SLOTS)))

    def lines(self, entries: Sequence[Entry]) -> list[str]:
        """Return a line for each record, with its newline."""
        digits = self._digits
        lines: list[str] = []
        for time, request_id, scene, config, decisions in entries:
            head = f'{{"time":{float(time)!r},"request_id":{_quoted(request_id)},'
            around = self._of(scene, config)
            last: bytes | None = None
            unit = ""
            for decision in decisions:
                _, reason, encoded, slot, _, other, bucket, _, number = decision
                if reason != "hash" or number is not None or encoded is None or slot is None or other is None:
                    lines.append(json_line(_row(time, request_id, scene, config, decision)))
                    continue
                if encoded is not last:
                    last, unit = encoded, _quoted(encoded.decode())
                common = around.get(bucket)
                if common is None:
                    common = around[bucket] = _common(_row(time, request_id, scene, config, decision))
                before, after = common
                lines.append(f'{head}{before}{unit},"layer_slot":{digits[slot]},"bucket_slot":{digits[other]}{after}')
        return lines

    def _of(self, scene: str, config: str) -> dict[Bucket | None, tuple[str, str]]:
        """What is kept for a scene of a configuration; that of old configurations is let go."""
        if (scene, config) not in self._around:
            if len(self._around) >= _MOST_KEPT:
                self._around.clear()
            self._around[scene, config] = {}
        return self._around[scene, config]


def json_line(row: Row) -> str:
    """Return one record's line, made by an encoder: what `LineEncoder` makes too."""
    return _ENCODE(dict(zip(FIELDS, row, strict=True))) + "\n"


def _common(row: Row) -> tuple[str, str]:
    """Return what a bucket's lines share: from the scene up to the unit's value, and from the reason on."""
    encoded = [f"{_ENCODE(name)}:{_ENCODE(value)}" for name, value in zip(FIELDS, row, strict=True)]
    before, after = encoded[FIELDS.index("scene") : FIELDS.index("unit")], encoded[FIELDS.index("reason") :]
    return ",".join(before) + ',"unit":', "," + ",".join(after) + "}\n"
