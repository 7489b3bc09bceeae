"""What every result of the room can do: become JSON."""

import math
from dataclasses import fields, is_dataclass

import numpy as np


class Result:
    """A frozen dataclass of numbers and names."""

    __slots__ = ()

    def as_json(self) -> dict[str, object]:
        """Return plain data for `json.dumps`; a number that is undefined or infinite is None."""
        return {each.name: _plain(getattr(self, each.name)) for each in fields(self)}  # type: ignore[arg-type]  # every subclass is a dataclass


def _plain(value: object) -> object:
    if isinstance(value, Result):
        return value.as_json()
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, tuple | list | np.ndarray):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    return value
