"""One exposure: its fields, in the order in which both formats have them, and its JSON line."""

import json
from collections.abc import Sequence
from json.encoder import encode_basestring_ascii as _quoted
from typing import Any, Final

from abtest.decision import Decision, Found
from abtest.plan import Bucket

Entry = tuple[float, str, str, str, frozenset[str], Sequence[Found]]
"""A request that waits to be written: time in epoch seconds, id, scene, config id, parameters read, decisions."""

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


def exposed(entry: Entry) -> list[Decision]:
    """Return the decisions that are exposures: those that enrolled, and of whose parameters one was read."""
    *_, read, found = entry
    decisions = map(Decision._make, found)
    return [each for each in decisions if each.bucket is not None and not read.isdisjoint(each.bucket.values)]


def rows(entry: Entry) -> list[Row]:
    """Return the values of a request's records, in the order of FIELDS."""
    time, request_id, scene, config, _, _ = entry
    return [_row(time, request_id, scene, config, decision) for decision in exposed(entry)]


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
        self._around: dict[tuple[str, str, frozenset[str]], dict[Bucket, tuple[str, str] | tuple[()]]] = {}

    def lines(self, entries: Sequence[Entry]) -> list[str]:
        """Return a line for each record, with its newline."""
        lines: list[str] = []
        for entry in entries:
            time, request_id, scene, config, read, found = entry
            head = f'{{"time":{float(time)!r},"request_id":{_quoted(request_id)},'
            around = self._around.get((scene, config, read)) or self._learn(entry)
            last: bytes | None = None
            unit = ""
            fields: Any  # of a bucket by its slots, none is None but the number of a time slice
            for fields in found:
                _, reason, encoded, slot, _, other, bucket, _, number = fields
                if bucket is None:
                    continue
                common = around.get(bucket)
                if common is None:
                    common = self._learn(entry)[bucket]
                if not common:
                    continue
                if reason != "hash" or number is not None:
                    lines.append(json_line(_row(time, request_id, scene, config, Decision._make(fields))))
                    continue
                if encoded is not last:
                    last, unit = encoded, _quoted(encoded.decode())
                before, after = common
                lines.append(f'{head}{before}{unit},"layer_slot":{slot},"bucket_slot":{other}{after}')
        return lines

    def _learn(self, entry: Entry) -> dict[Bucket, tuple[str, str] | tuple[()]]:
        """Keep what those have in common who are in these buckets by their slots, nothing where no exposure is due.

        What was kept of old configurations is let go.
        """
        time, request_id, scene, config, read, found = entry
        key = scene, config, read
        if key not in self._around and len(self._around) >= _MOST_KEPT:
            self._around.clear()
        around = self._around.setdefault(key, {})
        for fields in found:
            decision = Decision._make(fields)._replace(reason="hash", forced=False, slice=None)
            if (bucket := decision.bucket) is not None:
                seen = not read.isdisjoint(bucket.values)
                around[bucket] = _common(_row(time, request_id, scene, config, decision)) if seen else ()
        return around


def json_line(row: Row) -> str:
    """Return one record's line, made by an encoder: what `LineEncoder` makes too."""
    return _ENCODE(dict(zip(FIELDS, row, strict=True))) + "\n"


def _common(row: Row) -> tuple[str, str]:
    """Return what a bucket's lines share: from the scene up to the unit's value, and from the reason on."""
    encoded = [f"{_ENCODE(name)}:{_ENCODE(value)}" for name, value in zip(FIELDS, row, strict=True)]
    before, after = encoded[FIELDS.index("scene") : FIELDS.index("unit")], encoded[FIELDS.index("reason") :]
    return ",".join(before) + ',"unit":', "," + ",".join(after) + "}\n"
