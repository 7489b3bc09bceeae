"""The JSON Schema of abtest.yaml. The checks proper are in `abtest`: this one helps while typing."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from abtest import UNITS

UNIT = {"enum": list(UNITS)}
VALUE = {"type": ["integer", "number", "string", "boolean"]}
SLOT = {"type": "integer", "minimum": 0, "maximum": 10_000}
TIME = {"type": "string", "description": "ISO 8601 with a zone."}


def _record(properties: Mapping[str, Any], required: tuple[str, ...] = ()) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
        "additionalProperties": False,
    }


def _map(of: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": dict(of)}


PARAM = _record(
    {
        "int": {"type": "array", "items": {"type": "integer"}},
        "float": {"type": "array", "items": {"type": "number"}},
        "choice": {"type": "array", "items": VALUE},
        "bool": {"const": True},
        "default": VALUE,
        "layer": {"type": "string", "pattern": "^[^/]+/[^/]+$", "description": "scene/layer"},
    },
    ("default", "layer"),
)
BUCKET = _record(
    {"weight": SLOT, "control": {"type": "boolean"}, "set": _map(VALUE)},
    ("weight",),
)
RANGES = {"type": "array", "items": {"type": "array", "items": SLOT}}
SLICES = _record(
    {"every": {"type": "string", "description": "A length of time such as 30m, 1h or 1d."}, "salt": {"type": "string"}},
    ("every",),
)
EXPERIMENT = _record(
    {
        "owner": {"type": "string"},
        "description": {"type": "string"},
        "status": {"enum": ["draft", "running", "paused", "ended"]},
        "slots": RANGES,
        "unit": UNIT,
        "domain": {"type": "string", "description": "The overlapping one unless an exclusive one is named."},
        "slices": SLICES,
        "freed": {**_map(RANGES), "description": "Slots given up while it ran, by time."},
        "salt": {"type": "string"},
        "when": {"type": "string", "description": "A condition over context.*."},
        "start": TIME,
        "end": TIME,
        "buckets": _map(BUCKET),
        "whitelist": _map({"type": "array", "items": {"type": ["string", "integer"]}}),
    },
    ("owner", "status", "slots", "buckets"),
)
LAUNCH = _record(
    {
        "set": _map(VALUE),
        "when": {"type": "string", "description": "A condition over context.*."},
        "start": TIME,
        "end": TIME,
        "owner": {"type": "string"},
        "description": {"type": "string"},
    },
    ("set",),
)
LAYER = _record(
    {"unit": UNIT, "salt": {"type": "string"}, "launches": _map(LAUNCH), "experiments": _map(EXPERIMENT)},
    ("unit", "experiments"),
)
DOMAIN = _record({"slots": RANGES, "exclusive": {"type": "boolean"}, "unit": UNIT}, ("slots",))
HOLDOUT = _record({"slots": SLOT, "unit": UNIT}, ("slots", "unit"))
SCENE = _record({"holdout": HOLDOUT, "domains": _map(DOMAIN), "layers": _map(LAYER)})
ABTEST = MappingProxyType(
    _record({"version": {"const": 1}, "params": _map(PARAM), "scenes": _map(SCENE)}, ("version",))
)
